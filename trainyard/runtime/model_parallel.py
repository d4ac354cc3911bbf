"""One model over several hosts: devices that other hosts lend, and a DTensor mesh (docs/examples/model-parallel.md)."""

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.experimental import dtensor

from trainyard.runtime.environment import Environment
from trainyard.runtime.loops.on_mesh import OnMesh
from trainyard.runtime.processes.lending import Lent, borrow
from trainyard.runtime.processes.meshing import Meshed, form, layout_of
from trainyard.runtime.session import Runtime, set_seeds


@dataclass(frozen=True, slots=True)
class ServedRuntime(Runtime):
    """The session of a chief that uses the devices of all hosts by `tf.device`."""

    cluster: Lent

    @property
    def devices(self) -> list[str]:
        """Return the first GPU of each host in the order of the workers, or its processor if it has no GPU."""
        return self.cluster.devices


@dataclass(frozen=True, slots=True)
class MeshRuntime(Runtime):
    """The session of a client of a mesh."""

    cluster: Meshed

    @property
    def mesh(self) -> Any:
        """Return the mesh, for layouts of your own."""
        return self.cluster.mesh

    def variable(self, initial: Any, *axes: str | None) -> Any:
        """Return a variable on the mesh. Each axis is split along "batch" or "model"; None leaves it whole.

        Every process must give the same `initial` value. Raises SystemExit if an axis cannot be divided.
        """
        initial = tf.convert_to_tensor(initial)
        layout = layout_of(self.mesh, initial.shape, axes)
        return dtensor.DVariable(self.cluster.spread(initial, layout))

    def gather(self, model: Any, into: Any) -> None:
        """Copy all parts of the variables of `model` into a model that was built alike with variables of TensorFlow.

        `save_model` can save this copy. Every process must call it.
        """
        for variable, whole in zip(model.variables, into.variables, strict=True):
            whole.assign(self.cluster.whole(variable))

    def _loop_in_step(self) -> type[OnMesh]:
        return OnMesh


def serve(*, deterministic: bool | None = None, seed: int = 1) -> ServedRuntime:
    """Return the session on worker 0, the chief, once all other workers lend it their devices.

    On those workers it never returns: they serve until the chief calls `finish`, and exit with 75 (restart) if the
    chief has not answered for 10 s, or did not come. Call it before all other TensorFlow code. By default,
    `deterministic` operations are on without a GPU. `seed` applies to Python, NumPy and TensorFlow.
    """
    set_seeds(deterministic=deterministic, seed=seed)
    environment = Environment.from_os()
    return ServedRuntime(borrow(environment), environment)


def mesh(*, batch: int, model: int, deterministic: bool | None = None, seed: int = 1) -> MeshRuntime:
    """Form a DTensor mesh of `batch` x `model` devices, the same number on each host. All workers run the program.

    Without a GPU, each host uses logical processors. Call it before all other TensorFlow code. By default,
    `deterministic` operations are on without a GPU. `seed` applies to Python, NumPy and TensorFlow.
    """
    set_seeds(deterministic=deterministic, seed=seed)
    environment = Environment.from_os()
    return MeshRuntime(form(environment, batch=batch, model=model), environment)
