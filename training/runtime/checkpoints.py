"""Checkpoints on this host's disk: a folder named by its step, whole or not there.

The chief's folder is handed over by one rename; the host agent sees it and brings it to the bucket. The other workers
save too, since saving may need all of them, but into a scratch folder that is thrown away.
"""

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from training.runtime.cluster import Cluster

KEEP = 3
VARIABLES = "variables"
FACTS = "facts.json"


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """`tidy`: keep only the last few; a host agent does that itself once they are in the bucket."""

    folder: Path
    cluster: Cluster
    tracked: Any
    tidy: bool

    @staticmethod
    def of(folder: Path, cluster: Cluster, *, tidy: bool, **trackable: Any) -> "Checkpoints":
        folder.mkdir(parents=True, exist_ok=True)
        return Checkpoints(folder, cluster, tf.train.Checkpoint(**trackable), tidy)

    def restore(self) -> dict[str, Any] | None:
        """Restore the latest; the facts that were saved with it, None when there is none.

        Every worker restores by itself: TensorFlow does not broadcast what only one of them restored.
        """
        found = steps_in(self.folder)
        if not found:
            return None
        latest = self.folder / name_of(found[-1])
        self.tracked.read(str(latest / VARIABLES)).assert_existing_objects_matched()
        facts: dict[str, Any] = json.loads((latest / FACTS).read_text())
        return facts

    def save(self, step: int, facts: dict[str, Any]) -> None:
        """Every worker calls it at the same step."""
        if not self.cluster.is_chief:
            with tempfile.TemporaryDirectory(prefix="trainyard-") as scratch:
                self.tracked.write(str(Path(scratch) / VARIABLES))
            return
        target = self.folder / name_of(step)
        half = self.folder / f"{target.name}.half"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        self.tracked.write(str(half / VARIABLES))
        (half / FACTS).write_text(json.dumps(facts))
        if target.exists():  # the very step that was restored
            shutil.rmtree(half)
            return
        half.replace(target)
        if self.tidy:
            for old in steps_in(self.folder)[:-KEEP]:
                shutil.rmtree(self.folder / name_of(old))


def name_of(step: int) -> str:
    return f"{step:08d}"


def steps_in(folder: Path) -> list[int]:
    """The steps of the whole checkpoints, ascending."""
    return sorted(int(path.name) for path in folder.iterdir() if path.is_dir() and path.name.isdigit())
