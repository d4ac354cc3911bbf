"""Upload a program's work while it runs: one thread each for log, checkpoints, curve, events, and outputs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from training.host.account import Account
from training.host.agent.retries import Retries
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
from training.host.share import Share
from trainyard.protocol import keys
from trainyard.protocol.cluster import Assignment, Cluster, Role
from trainyard.protocol.signals import FailureKind

SHORT_INTERVAL_SECONDS = 1.0
LONG_INTERVAL_SECONDS = 5.0
METRICS_SHARE = 0.003


@dataclass(frozen=True, slots=True)
class FailedUpload:
    """An upload of a program's work that failed, and why."""

    what: str
    trouble: HostTrouble

    @property
    def kind(self) -> FailureKind:
        """The kind of the failure. Work that stays on this host is lost with it, even if a service is the cause."""
        return HostTrouble.kind if isinstance(self.trouble, Unreachable) else self.trouble.kind


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads in the order of their last calls. The checkpoint comes first, because a host may be lost soon."""

    repeats: tuple[Repeat, ...]

    def start(self) -> None:
        for repeat in self.repeats:
            repeat.start()

    @property
    def trouble(self) -> HostTrouble | None:
        """The trouble that has ended one of the uploads, or None."""
        return next((repeat.trouble for repeat in self.repeats if repeat.trouble), None)

    def finish(self, *names: str, retries: Retries, most_seconds: float | None = None) -> FailedUpload | None:
        """Finish the named uploads with a last call. Return the first one that failed, or None."""
        failed_upload = [
            FailedUpload(repeat.name, trouble)
            for repeat in self.repeats
            if repeat.name in names
            and (trouble := retries.upload(repeat.name, repeat.finish, most_seconds=most_seconds))
        ]
        return next(iter(failed_upload), None)


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
    look: Callable[[bool], None],
) -> Uploads:
    """Return the uploads of this host. The chief uploads everything, an evaluator its events, every host its log and
    outputs. The chief also calls `look` to read progress from event files, and uploads the executed notebook."""
    repeats = [
        Repeat("log", lambda last: log.send(time.monotonic(), last=last), every=SHORT_INTERVAL_SECONDS)
    ]

    def folder(name: str, path: Path) -> Repeat:
        left_out = LeftOut(log.note, f"${{{name}}}")
        upload = FolderUpload(bucket, path, f"{keys.run(cluster.run)}{name}/", left_out)

        def send(last: bool) -> None:
            with account.act():
                upload.send(last=last)

        return Repeat(name, send, every=LONG_INTERVAL_SECONDS)

    events, notebook = folder("tensorboard", paths.tensorboard), folder("notebook", paths.notebook)
    match assignment.role:
        case Role.CHIEF:
            first = Repeat("checkpoints", checkpoints.update, every=SHORT_INTERVAL_SECONDS)
            curve = Repeat("metrics", _sparing(metrics.send), every=LONG_INTERVAL_SECONDS)
            seen = Repeat("events", look, every=LONG_INTERVAL_SECONDS)
            repeats = [first, seen, *repeats, events, notebook, curve]
        case Role.EVALUATOR:
            download = CheckpointDownload(
                bucket, cluster.run, paths, account, keep=keep, have=checkpoints.last.step
            )
            repeats += [events, Repeat("checkpoints", download.update, every=LONG_INTERVAL_SECONDS)]
        case Role.WORKER | Role.PS:
            pass
        case _:
            assert_never(assignment.role)
    repeats.append(Repeat("outputs", outputs.update, every=SHORT_INTERVAL_SECONDS))
    return Uploads(tuple(repeats))


def _sparing(send: Callable[..., None]) -> Callable[[bool], None]:
    """Return a function that calls `send` as often as its share of a processor allows: many metrics take time."""
    share = Share(METRICS_SHARE)

    def act(last: bool) -> None:
        if last or share.is_left:
            with share.turn():
                send(last=last)

    return act
