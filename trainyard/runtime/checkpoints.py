"""Checkpoints on this host's disk: a folder named by its step, whole or not there.

The chief's folder is handed over by one rename; the host agent sees it and brings it to the bucket. The other workers
save too, since saving may need all of them, but into a scratch folder that is thrown away.
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
FACTS = "trainyard-facts.json"
PARTIAL = ".trainyard-partial-"
"""How the name of a folder begins in which a checkpoint is put together: the host agent passes it over."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """`keep` the last few, None: all; a host agent tidies up by itself once they are in the bucket."""

    folder: Path
    cluster: Cluster
    tracked: Any
    keep: int | None

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
        """Restore the latest; the facts that were saved with it, None when there is none.

        Every worker restores by itself: TensorFlow does not broadcast what only one of them restored. Raises
        SystemExit when files or variables are not what was saved, or when the workers have different checkpoints.
        """
        found = steps_in(self.folder)
        self._all_have(found[-1] if found else 0)
        if not found:
            return None
        latest = self.folder / name_of(found[-1])
        facts: dict[str, Any] = json.loads((latest / FACTS).read_text())
        damaged = sorted(name for name, known in facts["files"].items() if checksum(latest / name) != known)
        if damaged:
            raise SystemExit(
                f"the checkpoint {latest} is damaged: the content of {', '.join(damaged)} has changed since it was "
                "saved; remove this folder to continue from the checkpoint before it"
            )
        status = self.tracked.read(str(latest / VARIABLES), options=self._options())
        status.assert_existing_objects_matched()
        if fingerprint(self.tracked) != facts["fingerprint"]:
            raise SystemExit(
                f"the variables restored from {latest} are not those that were saved: the program builds another "
                "model or optimizer than the one that made the checkpoint"
            )
        return facts

    def resume(self, plan: Plan, steps_per_epoch: int) -> tuple[Resumed | None, dict[str, Any]]:
        """Restore the latest, and say where it goes on; with the facts that were saved with it."""
        facts = self.restore()
        resumed = resume(facts, plan, steps_per_epoch) if facts else None
        print(f"resumed from step {resumed.step}" if resumed else "starting at step 0", flush=True)
        return resumed, facts or {}

    def save(self, step: int, facts: dict[str, Any]) -> None:
        """Every worker calls it at the same step. `facts` come back from `restore`."""
        target = self.folder / name_of(step)
        if not self.cluster.is_chief or target.exists():  # the chief may be at the very step that it restored
            with tempfile.TemporaryDirectory(prefix="trainyard-") as scratch:
                self._write(Path(scratch))
            return
        half = self.folder / f"{PARTIAL}{target.name}"
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir()
        of_variables = self._write(half)
        files = {path.name: checksum(path) for path in sorted(half.iterdir())}
        (half / FACTS).write_text(json.dumps({**facts, "files": files, "fingerprint": of_variables}))
        half.replace(target)
        if self.keep is not None:
            for old in steps_in(self.folder)[: -self.keep]:
                shutil.rmtree(self.folder / name_of(old))

    def _write(self, folder: Path) -> str:
        """The fingerprint of what was written. Reading a variable may need all workers, so all do the same."""
        self.tracked.write(str(folder / VARIABLES), options=self._options())
        return fingerprint(self.tracked)

    def _options(self) -> Any:
        return tf.train.CheckpointOptions(experimental_io_device=self.cluster.file_device)

    def _all_have(self, step: int) -> None:
        steps = self.cluster.all_say(step)
        if len(set(steps)) > 1:
            having = ", ".join(f"worker {index}: {step}" for index, step in enumerate(steps))
            raise SystemExit(
                f"the workers do not have the same latest checkpoint (by step: {having}; 0: none): "
                "each must find it in its own TRAINYARD_CHECKPOINTS before the start"
            )


def fingerprint(tracked: Any) -> str:
    """SHA-256 over the values of all variables that `tracked` leads to, in the order of the object graph."""
    digest = hashlib.sha256()
    for variable in variables_of(tracked):
        value = variable.numpy()
        digest.update(f"{value.dtype} {value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def variables_of(tracked: Any) -> Iterator[Any]:
    """TensorFlow's variables and those of Keras 3, which are not among them."""
    return (
        found
        for found in tf.train.TrackableView(tracked).descendants()
        if hasattr(found, "numpy") and hasattr(found, "assign")
    )


def checksum(path: Path) -> str | None:
    """SHA-256 of a file; None when it is not there."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def name_of(step: int) -> str:
    return f"{step:08d}"


def steps_in(folder: Path) -> list[int]:
    """The steps of the whole checkpoints, ascending."""
    return sorted(
        int(path.name) for path in folder.iterdir() if path.name.isdigit() and (path / FACTS).is_file()
    )
