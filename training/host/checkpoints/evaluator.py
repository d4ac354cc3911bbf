"""An evaluator's checkpoints: the newest of the run, brought from the bucket while the evaluator runs."""

import logging
import shutil
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from training.host.account import Account
from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket, on_disk
from training.host.checkpoints.in_bucket import STEP, Manifest, name_of
from training.host.errors import Damaged
from training.host.places import Places

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CheckpointDownload:
    """Puts each new checkpoint where the program looks for it, as the chief's program left it there."""

    bucket: Bucket
    run: str
    places: Places
    account: Account
    _: KW_ONLY
    keep: int
    have: int
    _brought: set[str] = field(default_factory=set)

    def update(self, at_the_end: bool) -> None:
        if at_the_end:
            return
        known = in_bucket.catalogue_of(self.bucket, self.run)
        if known is None or known.newest.step == self.have:
            return
        with self.account.acting():
            try:
                copy = in_bucket.fetch(self.bucket, known.newest, self.places.restores)
            except Damaged as damaged:
                logger.warning("%s", damaged.reason)
                return
            self._put(known.newest, copy)
            shutil.rmtree(self.places.restores, ignore_errors=True)
        self.have = known.newest.step

    def _put(self, manifest: Manifest, copy: Path) -> None:
        folder = self.places.checkpoints
        if manifest.kind == STEP:
            target = folder / name_of(manifest.step)
            shutil.rmtree(target, ignore_errors=True)
            copy.replace(target)
            on_disk.keep_newest(folder, self.keep)
            return
        for name in sorted(manifest.files, key=lambda name: Path(name).name == "checkpoint"):
            target = folder / name  # the file `checkpoint` comes last: what it names is there by then
            target.parent.mkdir(parents=True, exist_ok=True)
            (copy / name).replace(target)
        for name in self._brought - manifest.files.keys():
            (folder / name).unlink(missing_ok=True)
        self._brought = set(manifest.files)
