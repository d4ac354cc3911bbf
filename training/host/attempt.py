"""One program's life on this host: started, watched, asked to leave when it must, its results brought away."""

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from training.host import checkpoints, ending, logs, orders
from training.host.bucket import Bucket
from training.host.cluster import Cluster, Seat
from training.host.ending import Failed, Finished, Stopped
from training.host.errors import HostTrouble
from training.host.fetch import fresh
from training.host.logs import LogUpload
from training.host.places import Places
from training.host.program import Program, command_line, environment
from training.host.progress import Progress
from training.host.repeat import Repeat
from training.host.results import FolderUpload, send_model_and_metrics
from training.host.sentinel import Sentinel
from training.host.signals import Signal

TICK_SECONDS = 0.2
GRACE = timedelta(seconds=90)
"""What a program gets from SIGTERM to SIGKILL when it is told to stop: agree on a step, save, leave."""
LAST_MOMENTS = timedelta(seconds=20)
"""What the agent needs after the program, before AWS takes the host: the last checkpoint and the log."""
SHUTDOWN_GRACE = timedelta(seconds=60)
"""The boot unit gives the agent 90 seconds when the machine goes down."""
LEASE_GRACE = timedelta(seconds=45)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leaving:
    """Why the program was asked to leave, and when patience ends."""

    why: str
    kill_at: datetime
    trouble: HostTrouble | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended, with the signal that says so (None: nothing to say, the chief speaks)."""

    ending: Finished | Stopped | Failed
    signal: Signal | None


class Attempt:
    """`say` puts a signal; `note_upload` remembers the last step that is whole in the bucket."""

    def __init__(
        self,
        cluster: Cluster,
        seat: Seat,
        *,
        places: Places,
        bucket: Bucket,
        region: str,
        sentinel: Sentinel,
        say: Callable[[Signal], None],
        uploaded: int,
        note_upload: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._seat = seat
        self._places = places
        self._bucket = bucket
        self._region = region
        self._sentinel = sentinel
        self._say = say
        self._uploaded = uploaded
        self._note_upload = note_upload
        folder = places.attempt(cluster.attempt)
        self._process_file = folder / "process.json"
        self._exit_file = folder / "exit"
        self._progress = Progress(folder / "progress.jsonl", started=time.monotonic())
        self._log = places.program_log(cluster.attempt, seat.role, seat.index)
        name = f"runs/{cluster.run}/attempts/{cluster.attempt}/logs/{seat.role}-{seat.index}.log"
        self._log_upload = LogUpload(bucket, self._log, name)
        self._tensorboard = FolderUpload(
            bucket, places.results / "tensorboard", f"runs/{cluster.run}/tensorboard/"
        )

    def start(self) -> Program:
        """Restore what the attempt restores, clear what an earlier one left, and start the program."""
        restored = self._cluster.checkpoint
        if restored:
            checkpoints.fetch(self._bucket, restored, self._places.checkpoints)
        checkpoints.keep_only(self._places.checkpoints, restored.step if restored else None)
        fresh(self._places.attempt(self._cluster.attempt))
        self._places.results.mkdir(parents=True, exist_ok=True)
        self._note(
            f"attempt {self._cluster.attempt} on {self._seat.instance}: "
            + (f"restore the checkpoint of step {restored.step}" if restored else "a fresh start")
        )
        program = Program.start(
            command_line(self._cluster, self._places),
            folder=self._places.program,
            env=environment(self._cluster, self._seat, self._places, region=self._region, base=os.environ),
            log=self._log,
            exit_file=self._exit_file,
        )
        program.remember(self._process_file)
        self._say(self._signal("started", role=self._seat.role, index=self._seat.index))
        return program

    def recall(self) -> Program | None:
        """The program that an earlier agent started for this attempt."""
        return Program.recall(self._process_file)

    def watch(self, program: Program) -> Outcome:
        """Wait for the program's end, carrying its log and checkpoints meanwhile; judge it and say so."""
        carriers = [Repeat("log", self._carry_log, every=1.0)]
        if self._seat.is_chief:
            carriers.append(Repeat("checkpoints", self._carry_checkpoints, every=1.0))
        for carrier in carriers:
            carrier.start()
        leaving, killed = None, False
        while (code := program.exit_code()) is None:
            self._report(program)
            if leaving is None:
                leaving = self._reason_to_leave(carriers)
                if leaving:
                    self._note(f"asking the program to leave: {leaving.why}")
                    program.ask_to_leave()
            elif not killed and datetime.now(UTC) >= leaving.kill_at:
                self._note("the program did not leave in time and is killed")
                program.kill()
                killed = True
            time.sleep(TICK_SECONDS)
        program.kill()  # whatever it left behind in its group
        self._progress.read()
        self._note(f"the program ended with exit code {code}")
        return self._conclude(code, leaving, killed, carriers)

    def _reason_to_leave(self, carriers: list[Repeat]) -> Leaving | None:
        now = datetime.now(UTC)
        trouble = next((carrier.trouble for carrier in carriers if carrier.trouble), None)
        stop = orders.read("stop", self._places)
        if self._sentinel.notice:
            return Leaving("interrupted", max(now, self._sentinel.notice.at - LAST_MOMENTS))
        if self._sentinel.going_down.is_set():
            return Leaving("interrupted", now + SHUTDOWN_GRACE)
        if stop and stop.run == self._cluster.run and stop.attempt >= self._cluster.attempt:
            return Leaving("asked", now + GRACE)
        if self._sentinel.lease_over:
            return Leaving("asked", now + LEASE_GRACE, HostTrouble(self._sentinel.lease.reason))
        if trouble:
            return Leaving("asked", now + GRACE, trouble)
        return None

    def _conclude(self, code: int, leaving: Leaving | None, killed: bool, carriers: list[Repeat]) -> Outcome:
        tail = ending.last_lines(logs.end_of(self._log, 4 * ending.TAIL_BYTES))
        ended = ending.judge(
            code,
            asked=leaving.why if leaving else None,
            killed=killed,
            tail=tail,
            gang=len(self._cluster.seats),
        )
        try:
            for carrier in carriers:
                carrier.finish()
            metrics = self._bring_results() if isinstance(ended, Finished) and self._seat.is_chief else {}
        except HostTrouble as trouble:
            # A log that cannot be brought away must not hide what the program itself said.
            if not isinstance(ended, Failed):
                ended = Failed(trouble.kind, trouble.reason, code, trouble.final)
        if leaving and leaving.trouble and isinstance(ended, Stopped):
            ended = Failed(leaving.trouble.kind, leaving.trouble.reason, code, leaving.trouble.final)
        match ended:
            case Finished():
                facts = {"step": self._step(), "metrics": metrics}
                return Outcome(ended, self._signal("finished", **facts) if self._seat.is_chief else None)
            case Stopped(why):
                return Outcome(ended, self._signal("stopped", step=self._step(), why=why))
            case Failed():
                return Outcome(ended, failed(self._cluster.attempt, ended, tail))

    def _report(self, program: Program) -> None:
        self._progress.read()
        if not self._seat.is_chief:
            return
        facts = self._progress.to_say(time.monotonic(), lambda: self._signs_of_life(program))
        if facts is not None:
            self._say(self._signal("progress", **facts))

    def _signs_of_life(self, program: Program) -> tuple[int, int]:
        """What a program that goes on changes: its log and, where it never reports progress, its processor time.

        One that reports shows by its reports that it goes on; one that hangs may well keep a processor busy."""
        return logs.size_of(self._log), 0 if self._progress.reports else program.processor_time()

    def _carry_log(self, last: bool) -> None:
        self._log_upload.send(time.monotonic(), last=last)

    def _carry_checkpoints(self, last: bool) -> None:
        """The newest checkpoint that is not in the bucket yet, and the TensorBoard events that go with it."""
        steps = checkpoints.on_disk(self._places.checkpoints)
        restored = self._cluster.checkpoint.step if self._cluster.checkpoint else -1
        if steps and steps[-1] > max(self._uploaded, restored):
            run, step = self._cluster.run, steps[-1]
            done = checkpoints.upload(self._bucket, run, self._places.checkpoints, step, at=datetime.now(UTC))
            self._uploaded = step
            self._note_upload(step)
            self._say(self._signal("checkpointed", step=step, key=done.key))
            checkpoints.prune_disk(self._places.checkpoints, newest=step)
            checkpoints.prune(self._bucket, run, newest=step)
            self._tensorboard.send()
        elif last:
            self._tensorboard.send()

    def _bring_results(self) -> dict[str, Any]:
        return send_model_and_metrics(self._bucket, self._cluster.run, self._places)

    def _step(self) -> int | None:
        """The last step this host knows of: what is saved, else what was reported."""
        saved = checkpoints.on_disk(self._places.checkpoints)
        known = [step for step in (saved[-1] if saved else None, self._progress.step) if step is not None]
        return max(known, default=None)

    def _note(self, text: str) -> None:
        """A line of the agent's own in the program's log: whoever reads it learns what happened around the program."""
        logger.info("%s", text)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("a") as log:
            log.write(f"[trainyard {datetime.now(UTC):%H:%M:%S}] {text}\n")

    def _signal(self, word: str, **facts: object) -> Signal:
        return Signal(word, self._cluster.attempt, facts)


def failed(attempt: int, ended: Failed, tail: str) -> Signal:
    return Signal(
        "failed",
        attempt,
        {
            "kind": ended.kind,
            "reason": ended.reason,
            "tail": tail,
            "exit_code": ended.exit_code,
            "final": ended.final,
        },
    )


def read_cluster(bucket: Bucket, order: orders.Order, places: Places) -> Cluster:
    """cluster.json of the ordered attempt, kept on disk for an agent that is restarted."""
    text = bucket.read(f"runs/{order.run}/attempts/{order.attempt}/cluster.json").decode()
    orders.write_whole(cluster_file(places, order.attempt), text)
    try:
        return Cluster.from_json(json.loads(text))
    except (KeyError, TypeError, ValueError) as error:
        raise HostTrouble(
            f"cluster.json of attempt {order.attempt} is not what this host's software understands ({error!r}); "
            "bake the image anew with the yard's version",
            final=True,
        ) from error


def cluster_file(places: Places, attempt: int) -> Path:
    return places.work / f"cluster-{attempt:04d}.json"
