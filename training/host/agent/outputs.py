"""One program's outputs on one host: restored before it starts, and uploaded while it runs and at its end."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta

from training.host.account import Account
from training.host.agent.deadlines.drain import LAST_MOMENTS, Drain
from training.host.bucket import Bucket
from training.host.outputs import index, restore
from training.host.outputs.index import CHIEF, Index
from training.host.outputs.outside import Outside
from training.host.outputs.restore import Begun, Sources
from training.host.outputs.upload import OutputsUpload
from training.host.paths import Paths
from training.host.periodic import Repeat
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Assignment, Cluster
from trainyard.protocol.signals import StopReason
from trainyard.values.quantities import format_count

GIB = 1 << 30
BEFORE_THE_END = timedelta(seconds=5)
"""The last upload of outputs ends this long before AWS takes the host: the log and the final signal still follow."""
LONGEST_LAST_UPLOAD = timedelta(minutes=8)
"""Time for the last upload of a program that has to leave. Patrol replaces such a host after 15 minutes."""
OUTSIDE_SECONDS = 30.0
"""Interval at which the agent looks for files outside the working folder."""
AFTER_DEADLINE = timedelta(minutes=10)
"""Time for the last upload after the run's deadline. The host's lease ends 15 minutes after it."""


@dataclass(slots=True)
class Outputs:
    """The outputs of one attempt. `note` writes a line into the program's log."""

    cluster: Cluster
    assignment: Assignment
    job: Job
    _: KW_ONLY
    account: Account
    paths: Paths
    bucket: Bucket
    note: Callable[[str], None]
    _begun: Begun | None = None
    _outside: Outside | None = None
    _looking: Repeat = field(init=False)
    _warned: bool = False

    def __post_init__(self) -> None:
        self._looking = Repeat("outside", self._warn_meanwhile, every=OUTSIDE_SECONDS)

    def begin(self) -> None:
        """Prepare the working folder before the program starts. Raises HostTrouble if the bucket cannot be reached."""
        if not self.job.outputs.keep:
            self._begun = Begun(Sources(), Index())
            return
        folder, run, attempt = self.paths.program, self.cluster.run, self.cluster.attempt
        sources = restore.sources_of(folder, self.paths.sources, self.account)
        resumes = self.job.checkpoints.resume
        restores = self.job.outputs.are_restored(has_checkpoint=self.cluster.checkpoint is not None)
        of = None
        with self.account.act():
            if attempt == 1 and not (resumes and restores):
                self._begun = Begun(sources, Index())
            elif restores:
                known = None if attempt == 1 else index.read(self.bucket, run, CHIEF)
                of = resumes if known is None or known.inherits else None
                self._begun = restore.restore(self.bucket, run, self.assignment.name, folder, sources, of=of)
            else:
                self._begun = restore.keep_on(self.bucket, run, self.assignment.name, folder, sources)
        self._note_restored(self._begun, of)  # the program's account may not write into the log

    @property
    def restored(self) -> int:
        """The number of files that were restored into the working folder."""
        return self._begun.restored if self._begun else 0

    def upload(self, runs: Callable[[], bool]) -> OutputsUpload:
        """Return the upload of outputs. `runs` returns True while the program runs."""
        begun = self._begun or self._recall()
        if self.job.outputs.keep:
            started = self.paths.process(self.cluster.attempt).stat().st_mtime
            self._outside = Outside(self.paths, self.account, started)
            self._looking.start()
        return OutputsUpload(
            self.bucket,
            self.cluster.run,
            self.assignment.name,
            self.paths.program,
            self.account,
            sources=begun.sources,
            index=begun.index,
            max_bytes=int(self.job.outputs.max_gib * GIB),
            attempt=self.cluster.attempt,
            keeps=self.job.outputs.keep,
            runs=runs,
            note=self.note,
        )

    def hurry(self, upload: OutputsUpload, drain: Drain | None) -> None:
        """Limit the time of the last upload, so that it ends before the host does. Files beyond that are left out."""
        left = (self._until(drain) - datetime.now(UTC)).total_seconds()
        upload.until = time.monotonic() + left

    def lost_outside(self) -> tuple[str, ...]:
        """Return one sentence about files that the program has written outside its working folder, if any exist."""
        if self._looking.is_alive():
            self._looking.end()
        said = self._warn(again=True)
        return (said,) if said else ()

    def _warn_meanwhile(self, last: bool) -> None:
        self._warn(again=last)

    def _warn(self, *, again: bool) -> str | None:
        """Name files outside the working folder in the log, once while the program runs and once at its end."""
        if self._outside is None:
            return None
        with self.account.act():
            self._outside.look()
        said = self._outside.warning()
        if said and (again or not self._warned):
            self._warned = True
            self.note(said)
        return said

    def _until(self, drain: Drain | None) -> datetime:
        if drain is None:
            return self.cluster.deadline + AFTER_DEADLINE
        if drain.why is StopReason.INTERRUPTED:
            return drain.kill_at + LAST_MOMENTS - BEFORE_THE_END
        return drain.kill_at + LONGEST_LAST_UPLOAD

    def _recall(self) -> Begun:
        """Return the sources and the uploaded files of an earlier agent of this host."""
        if not self.job.outputs.keep:
            return Begun(Sources(), Index())
        sources = restore.sources_of(self.paths.program, self.paths.sources, self.account)
        return Begun(sources, index.read(self.bucket, self.cluster.run, self.assignment.name) or Index())

    def _note_restored(self, begun: Begun, of: str | None) -> None:
        if begun.restored:
            files = format_count(begun.restored, "file")
            self.note(
                f"outputs: {files} of {of or 'the attempt before'} restored into the working folder, from the last "
                "moment without a file being written (outputs.restore)"
            )
        if begun.lost:
            self.note(
                f"outputs: missing in the bucket: {format_count(len(begun.lost), 'file')}, such as {begun.lost[0]}"
            )
