"""Read a running program's reports and output, for its log, its curve, and the signals of its progress."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from training.host.agent.context import Context
from training.host.agent.life import Life, has_gpus
from training.host.periodic import Repeat
from training.host.reporting.events import EventFiles, Looks
from training.host.reporting.metric_points import MetricPoints
from training.host.reporting.metrics import Metrics
from training.host.reporting.observed import PrintedMetric, PrintedProgress
from training.host.reporting.printed import PrintedLines, RecentLines
from training.host.reporting.program_log import ProgramLog
from training.host.reporting.progress import ALIVE_SECONDS, NUMBERS, Progress, Source
from training.host.reporting.reading import may_have_number
from training.host.reporting.scalars import Scalar, Scalars
from training.host.share import Share
from trainyard.command_line import command_line
from trainyard.protocol import signals
from trainyard.values import floats

LINES_SHARE = 0.004
"""The share of a processor for reading progress in printed lines. A line takes up to 0.5 ms."""


class Monitor:
    """The progress of one program, from the most exact source."""

    def __init__(self, context: Context) -> None:
        self._context = context
        cluster, assignment, paths = context.cluster, context.assignment, context.paths
        pattern = context.job.program.progress if assignment.is_chief else None
        self._seen: SimpleQueue[tuple[Source, dict[str, Any]]] = SimpleQueue()
        self._printed = PrintedProgress(pattern) if pattern else None
        self._lines = PrintedLines()
        self._further: SimpleQueue[tuple[Scalar, bool]] = SimpleQueue()
        objective = context.job.objective.metric if context.job.objective and assignment.is_chief else None
        self._metric = PrintedMetric(objective) if objective and objective not in NUMBERS else None
        self._recent = RecentLines() if assignment.is_chief and not pattern else None
        self._share = Share(LINES_SHARE)
        self._looks = Looks()
        self._warned_of_nan = False
        self.progress = Progress(
            paths.progress(cluster.attempt),
            started=time.monotonic(),
            scalars=Scalars(
                objective, MetricPoints(cluster.attempt, SimpleQueue() if context.job.trackers else None)
            ),
        )
        self.life = Life(paths, context.account, self.progress, has_gpus(context.identity.tags))
        self.metrics = Metrics(context.bucket, cluster.run, self.progress.scalars)
        self.log = ProgramLog(
            cluster,
            assignment,
            paths=paths,
            bucket=context.bucket,
            on_line=self._take_line,
            on_open_line=self.life.take_line,
        )

    def begin(self, *, up_to: float = math.inf, begins: bool = False) -> None:
        """Continue the curves of earlier attempts up to this step, in their way of counting. `begins`: see
        Curve.after."""
        self.metrics.begin(up_to=up_to, begins=begins)
        if self.progress.scalars.steps_per_epoch > 1:
            self.progress.expect_steps()

    def listen(self, *, sparingly: bool = False) -> None:
        """Read the program's new reports and lines. `sparingly`: leave lines for a later call if they take too long."""
        now = datetime.now(UTC)
        with self._context.account.act():
            reported = self.progress.update()
        for values in reported:
            self.metrics.add(values, now)
        self.log.stamp(now)
        if self._recent and not self.progress.reports and (self._share.is_left or not sparingly):
            with self._share.turn():
                self._read(self._recent.take())
        while not self._seen.empty():
            source, seen = self._seen.get()
            values = self.progress.see(seen, source)
            if values:
                self.metrics.add(values, now)
        while not self._further.empty():
            scalar, is_printed = self._further.get()
            self.progress.add_further(scalar, is_printed=is_printed)
        for line in self.progress.scalars.take_notes():
            self.log.note(line)
        self._warn_of_nan()

    def note_at_once(self, text: str) -> None:
        """Write a line into the program's log and stamp it, so that it is sent even after the program's end."""
        self.log.note(text)
        self.listen()

    def report(self) -> None:
        """Send progress if it is due. The signal is also the run's heartbeat, so an idle program has one, too."""
        if not self._context.assignment.is_chief:
            return
        values = self.progress.due(time.monotonic())
        if values is not None:
            self._context.send(signals.Progress(**values))

    def look_at(self, *events: EventFiles, last: bool = False) -> None:
        """Read TensorBoard's scalars. The progress of a program that reports it, or whose job has a pattern, comes from
        there: then only other metrics count. Has its own thread."""
        with self._context.account.act():
            seen = self._looks.take(events, at_once=last or self.progress.counts_steps)
        for counts_steps, values in seen.values if not (self._printed or self.progress.reports) else ():
            self._seen.put((Source.EVENT_STEPS if counts_steps else Source.EVENT_EPOCHS, values))
        for scalar in seen.scalars:
            self._further.put((scalar, False))

    @contextmanager
    def heartbeat(self) -> Iterator[None]:
        """Send the run's heartbeat from a thread while the agent itself works."""
        beat = Repeat(
            "heartbeat",
            lambda _: self._context.send(signals.Progress(**self.progress.all)),
            every=ALIVE_SECONDS,
        )
        if self._context.assignment.is_chief:
            beat.start()
        try:
            yield
        finally:
            if self._context.assignment.is_chief:
                beat.end()

    def nan_since(self, step: int | None) -> int:
        """Return the step since which the loss has been NaN or infinite, or the last step."""
        since = self.progress.nan_since
        return since if since is not None else step or 0

    def _warn_of_nan(self) -> None:
        """Warn once per attempt: a loss that is NaN rarely becomes a number again, and every further hour is billed."""
        since = self.progress.nan_since
        if since is None or self._warned_of_nan:
            return
        self._warned_of_nan = True
        loss = floats.text_of(self.progress.latest.get("loss", math.nan))
        self.log.note(
            f"the loss has been {loss} since step {since}. The program continues, and its hosts are billed. "
            f"To stop it: {command_line('stop', self._context.cluster.run)}"
        )

    def _take_line(self, line: str) -> None:
        self.life.take_line(line)
        if self._recent and may_have_number(line):
            self._recent.add(line)
        if self._metric and (scalar := self._metric.read(line)) is not None:
            self._further.put((scalar, True))
        values = self._printed.metrics(line) if self._printed else {}
        if values:
            self._seen.put((Source.PATTERN, values))

    def _read(self, lines: list[str]) -> None:
        for line in lines:
            numbers = self._lines.metrics(line)
            if values := {**self._lines.others, **numbers}:
                counts_steps = self._lines.counts_steps
                source = Source.PRINTED_STEPS if counts_steps else Source.PRINTED_EPOCHS
                self._seen.put((source, values))
