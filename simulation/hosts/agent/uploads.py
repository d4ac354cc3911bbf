"""Uploads of the chief's checkpoints from its disk to the bucket."""

from __future__ import annotations

from collections.abc import Callable, Generator

from simulation.hosts.agent import checkpoints
from simulation.hosts.agent.reports import LOOK_SECONDS
from simulation.hosts.flow import Sleep, Steps
from simulation.hosts.machine import Machine
from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket
from training.host.checkpoints.catalogue import Manifest, Version
from training.host.errors import HostTrouble

UPLOAD_LOOK_SECONDS = 1.0


class Uploads:
    """Uploads checkpoints.

    `uploaded` is called with each checkpoint that is complete in the bucket, `wake` if no more can be uploaded.
    """

    def __init__(
        self,
        machine: Machine,
        bucket: Bucket,
        run: str,
        step: int,
        *,
        keep: int,
        uploaded: Callable[[Version], None],
        wake: Callable[[], None],
    ) -> None:
        self.step = step
        """The step of the last checkpoint that is complete in the bucket, or was restored."""
        self.trouble: HostTrouble | None = None
        self._machine, self._bucket, self._run, self._keep = machine, bucket, run, keep
        self._saved = step
        """The step of the newest checkpoint on the disk."""
        self._manifests: dict[str, Manifest] = {}
        """The manifests of checkpoints in the bucket by key."""
        self._is_busy = False
        self._uploaded, self._wake = uploaded, wake

    def begin_at(self, step: int) -> None:
        """Start from the restored checkpoint."""
        self.step = self._saved = step

    def record_checkpoint(self, step: int) -> None:
        """Record a checkpoint on the disk of this host."""
        self._saved = step
        self._machine.disk.checkpoints.add(step)

    def upload_when_saved(self, has_ended: Callable[[], bool]) -> Steps:
        while True:
            if self._saved <= self.step:
                yield Sleep()
                continue
            yield self._machine.draw((0.0, UPLOAD_LOOK_SECONDS))
            if has_ended():
                return
            self._is_busy = True
            try:
                yield from self._upload_newest()
            except HostTrouble as trouble:
                self._machine.note("cannot upload a checkpoint", reason=trouble.reason)
                if trouble.final:
                    self.trouble = trouble
                    self._wake()
                    return
            finally:
                self._is_busy = False
            yield UPLOAD_LOOK_SECONDS

    def _upload_newest(self) -> Steps:
        """Upload the newest checkpoint unless the bucket already has it."""
        step = self._saved
        if step <= self.step:
            return
        run, keep = self._run, self._keep
        yield from self._machine.stage("upload")
        yield self._machine.draw(self._machine.delays.upload)
        version, manifest = checkpoints.upload(self._bucket, run, step, self._machine.now())
        yield from self._machine.stage("catalogue")
        catalogue = in_bucket.make_newest(self._bucket, run, version, manifest, keep=keep)
        self.step = step
        self._uploaded(version)
        known = self._manifests
        known[version.key] = manifest
        in_bucket.prune(self._bucket, run, catalogue, known, thorough=len(known) == 1)
        named = {version.key for version in catalogue.all}
        self._manifests = {key: each for key, each in known.items() if key in named}
        self._machine.disk.checkpoints = set(sorted(self._machine.disk.checkpoints)[-keep:])

    def finish(self) -> Generator[float | Sleep, None, HostTrouble | None]:
        """Upload the last checkpoint. Return the problem if that fails."""
        while self._is_busy:
            yield LOOK_SECONDS
        if self.trouble:
            return self.trouble
        try:
            yield from self._upload_newest()
        except HostTrouble as trouble:
            return trouble
        return None
