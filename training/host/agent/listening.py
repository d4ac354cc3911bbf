"""What a program reports and prints while it runs: into its log, its curve and the signals of its progress."""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from training.host.agent.life import Life, has_gpus
from training.host.agent.surroundings import Surroundings
from training.host.periodic import Repeat
from training.host.reporting.events import EventFiles
from training.host.reporting.metrics import Metrics
from training.host.reporting.observed import PrintedProgress
from training.host.reporting.printed import PrintedLines
from training.host.reporting.program_log import ProgramLog
from training.host.reporting.progress import ALIVE_SECONDS, Progress, Source
from training.host.reporting.reading import may_say
from trainyard.command_line import command_line
from trainyard.protocol import keys, signals
from trainyard.values import floats

LINES_AT_ONCE = 20
"""Lines that are read for progress at each call of `listen`: 100 lines a second take 2 % of a processor."""


class Listening:
    """The progress of one program, from whichever source tells most."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        cluster, assignment, paths = around.cluster, around.assignment, around.paths
        pattern = around.job.program.progress if assignment.is_chief else None
        self._seen: SimpleQueue[tuple[Source, dict[str, Any]]] = SimpleQueue()
        self._printed = PrintedProgress(pattern) if pattern else None
        self._lines = PrintedLines()
        self._heard: deque[str] = deque(maxlen=LINES_AT_ONCE if assignment.is_chief and not pattern else 0)
        self._warned_of_nan = False
        self.progress = Progress(paths.progress(cluster.attempt), started=time.monotonic())
        self.life = Life(paths, around.account, self.progress, has_gpus(around.identity.tags))
        self.metrics = Metrics(around.bucket, keys.metrics(cluster.run))
        self.log = ProgramLog(
            cluster,
            assignment,
            paths=paths,
            bucket=around.bucket,
            hear=self._hear,
            hear_open=self.life.hear,
        )

    def listen(self) -> None:
        """Take in what the program has printed and reported since the last time."""
        now = datetime.now(UTC)
        with self._around.account.acting():
            reported = self.progress.update()
        for facts in reported:
            self.metrics.add(facts, now)
        self.log.stamp(now)
        if not self.progress.reports:
            self._read_heard()
        while not self._seen.empty():
            source, seen = self._seen.get()
            facts = self.progress.see(seen, source)
            if facts:
                self.metrics.add(facts, now)
        self._warn_of_nan()

    def note_at_once(self, text: str) -> None:
        """Write a line into the program's log and let it be sent, also after the program's end."""
        self.log.note(text)
        self.listen()

    def report(self) -> None:
        """As long as this loop turns, whether or not the program does anything: the run's heartbeat is the host's."""
        if not self._around.assignment.is_chief:
            return
        facts = self.progress.due(time.monotonic())
        if facts is not None:
            self._around.say(signals.Progress(**facts))

    def look_at(self, *events: EventFiles) -> None:
        """From a thread of its own: TensorBoard's scalars, unless the program or the job's pattern tells more."""
        if self.progress.reports or self._printed:
            return
        with self._around.account.acting():
            found = [(each, facts) for each in events for facts in each.look()]
        for each, facts in found:
            self._seen.put((Source.EVENT_STEPS if each.counts_steps else Source.EVENT_EPOCHS, facts))

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Inside, the agent itself works, and its heartbeat comes from a thread of its own."""
        beat = Repeat(
            "heartbeat",
            lambda _: self._around.say(signals.Progress(**self.progress.all)),
            every=ALIVE_SECONDS,
        )
        if self._around.assignment.is_chief:
            beat.start()
        try:
            yield
        finally:
            if self._around.assignment.is_chief:
                beat.end()

    def nan_since(self, step: int | None) -> int:
        """The step since which the loss has been no number, at the latest the last one."""
        since = self.progress.nan_since
        return since if since is not None else step or 0

    def _warn_of_nan(self) -> None:
        """Once an attempt: a loss that is NaN seldom becomes a number again, and every further hour is billed."""
        since = self.progress.nan_since
        if since is None or self._warned_of_nan:
            return
        self._warned_of_nan = True
        loss = floats.text_of(self.progress.known.get("loss", math.nan))
        self.log.note(
            f"the loss has been {loss} since step {since}. The program goes on, and its hosts are billed. "
            f"To stop it: {command_line('stop', self._around.cluster.run)}"
        )

    def _hear(self, line: str) -> None:
        self.life.hear(line)
        if self._heard.maxlen and may_say(line):
            self._heard.append(line)
        facts = self._printed.facts(line) if self._printed else {}
        if facts:
            self._seen.put((Source.PATTERN, facts))

    def _read_heard(self) -> None:
        """Read progress from the newest lines: reading every line of a program that prints very many would be slow."""
        for line in self._heard:
            if facts := self._lines.facts(line):
                counts_steps = self._lines.counts_steps
                self._seen.put((Source.PRINTED_STEPS if counts_steps else Source.PRINTED_EPOCHS, facts))
        self._heard.clear()
