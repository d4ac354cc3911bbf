"""One program's outputs on one host: prepared before it starts, kept while it runs, brought away at its end."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta

from training.host.account import Account
from training.host.agent.deadlines.notice import LAST_MOMENTS, Leaving
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
from trainyard.values.quantities import counted

GIB = 1 << 30
BEFORE_THE_END = timedelta(seconds=5)
"""How long before AWS takes the host the last upload of outputs ends: the log and the final signal still follow."""
WHEN_ASKED = timedelta(minutes=8)
"""How long the last upload may take once a program has to leave; patrol replaces such a host after 15 minutes."""
OUTSIDE_SECONDS = 30.0
"""How often the agent looks for files outside the working folder while the program runs."""
AFTER_DEADLINE = timedelta(minutes=10)
"""How long the last upload may take after the run's deadline; the host's lease ends 15 minutes after it."""


@dataclass(slots=True)
class Outputs:
    """What an attempt does about outputs. `note` writes a line into the program's log."""

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
        with self.account.acting():
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
        """The number of files that were brought back into the working folder."""
        return self._begun.restored if self._begun else 0

    def upload(self, runs: Callable[[], bool]) -> OutputsUpload:
        """Return what brings the outputs away; `runs` answers True while the program runs."""
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

    def hurry(self, upload: OutputsUpload, leaving: Leaving | None) -> None:
        """Let the last upload end before this host has to go. Files that there is no time for are left out."""
        left = (self._until(leaving) - datetime.now(UTC)).total_seconds()
        upload.until = time.monotonic() + left

    def lost_outside(self) -> tuple[str, ...]:
        """Return one sentence about files that the program leaves outside its working folder, if there are any."""
        if self._looking.is_alive():
            self._looking.end()
        said = self._warn(again=True)
        return (said,) if said else ()

    def _warn_meanwhile(self, last: bool) -> None:
        self._warn(again=last)

    def _warn(self, *, again: bool) -> str | None:
        """Name such files in the log, once while the program runs and once at its end."""
        if self._outside is None:
            return None
        with self.account.acting():
            self._outside.look()
        said = self._outside.warning()
        if said and (again or not self._warned):
            self._warned = True
            self.note(said)
        return said

    def _until(self, leaving: Leaving | None) -> datetime:
        if leaving is None:
            return self.cluster.deadline + AFTER_DEADLINE
        if leaving.why is StopReason.INTERRUPTED:
            return leaving.kill_at + LAST_MOMENTS - BEFORE_THE_END
        return leaving.kill_at + WHEN_ASKED

    def _recall(self) -> Begun:
        """What an earlier agent of this host had begun with, and has brought away since."""
        if not self.job.outputs.keep:
            return Begun(Sources(), Index())
        sources = restore.sources_of(self.paths.program, self.paths.sources, self.account)
        return Begun(sources, index.read(self.bucket, self.cluster.run, self.assignment.name) or Index())

    def _note_restored(self, begun: Begun, of: str | None) -> None:
        if begun.restored:
            files = "1 file" if begun.restored == 1 else f"{begun.restored} files"
            self.note(
                f"outputs: {files} of {of or 'the attempt before'} restored into the working folder, as they were when "
                "none was being written (outputs.restore)"
            )
        if begun.lost:
            self.note(
                f"outputs: missing in the bucket: {counted(len(begun.lost), 'file')}, such as {begun.lost[0]}"
            )
