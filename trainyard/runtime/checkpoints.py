"""Checkpoints on this host's disk. Each one is a folder named by its step, and appears whole.

The chief renames a finished folder into place; the host agent then uploads it to the bucket. The other workers save
into a scratch folder, because saving may need all workers.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainyard.runtime.environment import Environment
from trainyard.runtime.plan import Plan, Resumed, resume
from trainyard.runtime.processes.cluster import Cluster

VARIABLES = "variables"
METADATA = "trainyard-metadata.json"
PARTIAL = ".trainyard-partial-"
"""Prefix of unfinished checkpoints. The host agent ignores such folders."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of a program."""

    folder: Path
    cluster: Cluster
    tracked: Any
    keep: int | None
    """The number of checkpoints to keep; None keeps all of them. On hosts, the agent deletes uploaded ones."""

    @staticmethod
    def of(cluster: Cluster, environment: Environment, **trackable: Any) -> "Checkpoints":
        environment.checkpoints.mkdir(parents=True, exist_ok=True)
        return Checkpoints(
            environment.checkpoints,
            cluster,
            tf.train.Checkpoint(**trackable),
            None if environment.hosted else environment.checkpoint_keep,
        )

    def restore(self) -> dict[str, Any] | None:
        """Restore the latest checkpoint and return the metadata saved with it; return None without a checkpoint.

        Every worker restores by itself, because TensorFlow does not broadcast restored values. Raises SystemExit if
        files or variables differ from the saved ones, or if the workers have different checkpoints.
        """
        found = steps_in(self.folder)
        self._all_have(found[-1] if found else 0)
        if not found:
            return None
        latest = self.folder / name_of(found[-1])
        metadata: dict[str, Any] = json.loads((latest / METADATA).read_text())
        damaged = sorted(
            name for name, known in metadata["files"].items() if checksum(latest / name) != known
        )
        if damaged:
            raise SystemExit(
                f"the checkpoint {latest} is damaged: the content of {', '.join(damaged)} has changed since it was "
                "saved; remove this folder to continue from the checkpoint before it"
            )
        status = self.tracked.read(str(latest / VARIABLES), options=self._options())
        status.assert_existing_objects_matched()
        if fingerprint(self.tracked) != metadata["fingerprint"]:
            raise SystemExit(
                f"the variables restored from {latest} differ from the saved ones: the program builds another model or "
                "optimizer than the program that saved the checkpoint"
            )
        return metadata

    def resume(self, plan: Plan, steps_per_epoch: int) -> tuple[Resumed | None, dict[str, Any]]:
        """Restore the latest checkpoint, print the step, and return the position with the saved metadata."""
        metadata = self.restore()
        resumed = resume(metadata, plan, steps_per_epoch) if metadata else None
        print(f"resumed from step {resumed.step}" if resumed else "starting at step 0", flush=True)
        return resumed, metadata or {}

    def save(self, step: int, metadata: dict[str, Any]) -> None:
        """Save a checkpoint with `metadata`, which `restore` returns. Every worker must call it at the same step."""
        target = self.folder / name_of(step)
        if not self.cluster.is_chief or target.exists():  # the chief may be at the step that it restored
            if self.cluster.saving_needs_all:
                with tempfile.TemporaryDirectory(prefix="trainyard-") as scratch:
                    self._write(Path(scratch))
            return
        half = self.folder / f"{PARTIAL}{target.name}"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        of_variables = self._write(half)
        files = {path.name: checksum(path) for path in sorted(half.iterdir())}
        (half / METADATA).write_text(json.dumps({**metadata, "files": files, "fingerprint": of_variables}))
        half.replace(target)
        if self.keep is not None:
            for old in steps_in(self.folder)[: -self.keep]:
                shutil.rmtree(self.folder / name_of(old))

    def _write(self, folder: Path) -> str:
        """Write the variables and return their fingerprint. Every worker does this, because reading may need all."""
        self.tracked.write(str(folder / VARIABLES), options=self._options())
        return fingerprint(self.tracked)

    def _options(self) -> Any:
        return tf.train.CheckpointOptions(experimental_io_device=self.cluster.file_device)

    def _all_have(self, step: int) -> None:
        steps = self.cluster.gather(step)
        if len(set(steps)) > 1:
            having = ", ".join(f"worker {index}: {step}" for index, step in enumerate(steps))
            raise SystemExit(
                f"the workers do not have the same latest checkpoint (by step: {having}; 0: none): "
                "each worker must find it in its own TRAINYARD_CHECKPOINTS at the start"
            )


def fingerprint(tracked: Any) -> str:
    """Return the SHA-256 of all variables below `tracked`, in the order of the object graph."""
    digest = hashlib.sha256()
    for variable in variables_of(tracked):
        value = variable.numpy()
        digest.update(f"{value.dtype} {value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def variables_of(tracked: Any) -> Iterator[Any]:
    """Yield the variables of TensorFlow and of Keras 3, whose variables are no TensorFlow variables."""
    return (
        found
        for found in tf.train.TrackableView(tracked).descendants()
        if hasattr(found, "numpy") and hasattr(found, "assign")
    )


def checksum(path: Path) -> str | None:
    """Return the SHA-256 of a file, or None if the file is missing."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def name_of(step: int) -> str:
    return f"{step:08d}"


def steps_in(folder: Path) -> list[int]:
    """Return the steps of the complete checkpoints, ascending."""
    return sorted(
        int(path.name) for path in folder.iterdir() if path.name.isdigit() and (path / METADATA).is_file()
    )
