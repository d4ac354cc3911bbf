"""What brings a program's work away while it runs: one thread each for log, checkpoints, curves and events."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from training.host.account import Account
from training.host.agent.insistence import Insistence
from training.host.bucket import Bucket
from training.host.checkpoints.evaluator import CheckpointDownload
from training.host.checkpoints.upload import CheckpointUpload
from training.host.errors import HostTrouble, Unreachable
from training.host.keys import LeftOut
from training.host.outputs.upload import OutputsUpload
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.reporting.metrics import Metrics
from training.host.reporting.program_log import ProgramLog
from training.host.reporting.results import FolderUpload
from trainyard.protocol import keys
from trainyard.protocol.cluster import Assignment, Cluster, Role
from trainyard.protocol.signals import FailureKind

OFTEN_SECONDS = 1.0
SELDOM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Lacking:
    """What of a program's work could not be uploaded, and why."""

    what: str
    trouble: HostTrouble

    @property
    def kind(self) -> FailureKind:
        """The kind of the failure: work that stays on this host is lost with it, even if a service is at fault."""
        return HostTrouble.kind if isinstance(self.trouble, Unreachable) else self.trouble.kind


@dataclass(frozen=True, slots=True)
class Uploads:
    """In the order in which they finish: when a host goes away its checkpoint comes first."""

    repeats: tuple[Repeat, ...]

    def start(self) -> None:
        for repeat in self.repeats:
            repeat.start()

    @property
    def trouble(self) -> HostTrouble | None:
        """What keeps one of them from ever doing its work."""
        return next((repeat.trouble for repeat in self.repeats if repeat.trouble), None)

    def finish(
        self, *names: str, insistence: Insistence, most_seconds: float | None = None
    ) -> Lacking | None:
        """Let those named end with a last time; the first that did not succeed."""
        lacking = [
            Lacking(repeat.name, trouble)
            for repeat in self.repeats
            if repeat.name in names
            and (trouble := insistence.bring(repeat.name, repeat.finish, most_seconds=most_seconds))
        ]
        return next(iter(lacking), None)


def uploads_of(
    cluster: Cluster,
    assignment: Assignment,
    *,
    keep: int,
    account: Account,
    bucket: Bucket,
    paths: Paths,
    log: ProgramLog,
    metrics: Metrics,
    checkpoints: CheckpointUpload,
    outputs: OutputsUpload,
    look: Callable[[], None],
) -> Uploads:
    """The chief brings everything away, an evaluator its events, every host its log and outputs. The chief's also
    `look`s at the events for what the program does not report, and brings the notebook that is executed."""
    repeats = [Repeat("log", lambda last: log.send(time.monotonic(), last=last), every=OFTEN_SECONDS)]

    def folder(name: str, path: Path) -> Repeat:
        left_out = LeftOut(log.note, f"${{{name}}}")
        upload = FolderUpload(bucket, path, f"{keys.run(cluster.run)}{name}/", left_out)

        def send(last: bool) -> None:
            with account.acting():
                upload.send(last=last)

        return Repeat(name, send, every=SELDOM_SECONDS)

    events, notebook = folder("tensorboard", paths.tensorboard), folder("notebook", paths.notebook)
    match assignment.role:
        case Role.CHIEF:
            first = Repeat("checkpoints", checkpoints.update, every=OFTEN_SECONDS)
            curve = Repeat("metrics", lambda _: metrics.send(), every=SELDOM_SECONDS)
            seen = Repeat("events", lambda _: look(), every=SELDOM_SECONDS)
            repeats = [first, seen, *repeats, events, notebook, curve]
        case Role.EVALUATOR:
            download = CheckpointDownload(
                bucket, cluster.run, paths, account, keep=keep, have=checkpoints.last.step
            )
            repeats += [events, Repeat("checkpoints", download.update, every=SELDOM_SECONDS)]
        case Role.WORKER | Role.PS:
            pass
        case _:
            assert_never(assignment.role)
    repeats.append(Repeat("outputs", outputs.update, every=OFTEN_SECONDS))
    return Uploads(tuple(repeats))
