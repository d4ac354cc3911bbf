"""Download the run's newest checkpoints for an evaluator while it runs."""

import logging
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from training.host.account import Account, remove_tree
from training.host.bucket import Bucket
from training.host.checkpoints import fetching, in_bucket, on_disk
from training.host.checkpoints.catalogue import STEP, Version, name_of
from training.host.checkpoints.fetching import Fetched
from training.host.checkpoints.placing import add_folders, add_link, remove, set_times
from training.host.disk import inside
from training.host.errors import Damaged
from training.host.paths import Paths

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CheckpointDownload:
    """Copies each new checkpoint of the chief into the evaluator's folder."""

    bucket: Bucket
    run: str
    paths: Paths
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
        with self.account.act():
            try:
                fetched = fetching.fetch(self.bucket, known.newest, self.paths.restores)
            except Damaged as damaged:
                logger.warning("%s", damaged.reason)
                return
            self._put(known.newest, fetched)
            remove_tree(self.paths.restores)
        self.have = known.newest.step

    def _put(self, version: Version, fetched: Fetched) -> None:
        """Put the checkpoint over the one before. A folder of the runtime appears by one rename. Links and files named
        `checkpoint` come last, because they refer to the other files."""
        folder, manifest = self.paths.checkpoints, fetched.manifest
        own = name_of(version.step) if version.kind == STEP else ""
        if own:
            remove(folder / own)
            (fetched.folder / own).replace(folder / own)
        beside = [name for name in manifest.files if not own or not name.startswith(f"{own}/")]
        for name in self._brought - set(beside) - manifest.links.keys():
            remove(folder / name)
        add_folders(manifest, folder)
        for name in sorted(beside, key=lambda name: Path(name).name == "checkpoint"):
            target = inside(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            (fetched.folder / name).replace(target)
        for name in manifest.links:
            add_link(manifest, name, folder)
        set_times(manifest, folder)
        self._brought = {*beside, *manifest.links}
        on_disk.keep_newest(folder, self.keep)
