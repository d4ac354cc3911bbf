"""A DTensor mesh over the devices of all hosts: every process is a client, and runs the same program."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import tensorflow as tf
from tensorflow.experimental import dtensor

from trainyard.protocol.cluster import Strategy
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.cluster import Cluster, listen_for_sigterm
from trainyard.runtime.processes.exiting import leave_when_a_peer_is_gone
from trainyard.runtime.processes.forming import any_is_gone, forming, gpus, use_processors
from trainyard.runtime.processes.place import Place, refuse_other_jobs
from trainyard.values.quantities import format_count

BATCH, MODEL = "batch", "model"


class Meshed(Cluster):
    """The cluster of a mesh. Its strategy is TensorFlow's default one, because the layouts distribute the work."""

    def __init__(self, place: Place, mesh: Any) -> None:
        super().__init__(place, Strategy.MULTI_WORKER, tf.distribute.get_strategy())
        self.mesh = mesh

    def gather(self, value: int) -> list[int]:
        """Return the values of all processes in the order of the workers. Blocks until all have called it."""
        if not self.in_step:
            return [value]
        own = [value if index == self.place.position else 0 for index in range(self.workers)]
        rows = self._sum_rows(self.pack_row(tf.constant(own, tf.int64)))
        return [total // self.mesh.num_local_devices() for total in read(rows).tolist()]

    @property
    def saving_needs_all(self) -> bool:
        """Return False: the chief's file has the copies of all variables (loops/on_mesh.py)."""
        return False

    def pack_row(self, row: Any) -> Any:
        """Return a tensor of rows, one for each device. Each process gives the row of its own devices."""
        layout = dtensor.Layout([BATCH, MODEL, dtensor.UNSHARDED], self.mesh)
        return dtensor.pack([row[None, None]] * self.mesh.num_local_devices(), layout)

    def pack_batch(self, batch: Any) -> Any:
        """Return a global batch as a tensor whose examples are split along the mesh's `batch`."""
        size = len(batch) // self.mesh.dim_size(BATCH)
        pieces = [
            batch[at[BATCH] * size : (at[BATCH] + 1) * size] for at in self.mesh.local_device_locations()
        ]
        return dtensor.pack(pieces, dtensor.Layout.batch_sharded(self.mesh, BATCH, len(batch.shape)))

    def spread(self, value: Any, layout: Any) -> Any:
        """Return a value that every process has, divided by a layout."""
        whole = dtensor.copy_to_mesh(value, dtensor.Layout.replicated(self.mesh, layout.rank))
        return dtensor.relayout(whole, layout)

    def whole(self, value: Any) -> Any:
        """Return all parts of a tensor or variable of the mesh as one array. Every process must call it."""
        value = tf.convert_to_tensor(value)
        return read(self._replicate(value, rank=len(value.shape)))

    def replicated(self, value: Any, rank: int) -> Any:
        return dtensor.relayout(value, dtensor.Layout.replicated(self.mesh, rank))

    @tf.function(reduce_retracing=True)
    def _sum_rows(self, rows: Any) -> Any:
        return self.replicated(tf.reduce_sum(rows, axis=[0, 1]), 1)

    @tf.function
    def _replicate(self, value: Any, *, rank: int) -> Any:
        return self.replicated(value, rank)


def read(replicated: Any) -> Any:
    """Return the array of a tensor that every device has."""
    return dtensor.unpack(replicated)[0].numpy()


def form(environment: Environment, *, batch: int, model: int) -> Meshed:
    """Form the cluster and its mesh. Raises SystemExit if the hosts do not have the devices of this mesh."""
    place = Place.from_tf_config(environment.tf_config)
    refuse_other_jobs("mesh", place, environment)
    hosts = max(len(place.trainers), 1)
    here = _devices_here(batch, model, hosts)
    use_processors()
    kind = _use_devices(here)
    if hosts > 1:
        os.environ.update(_client(place))
    with forming(place, environment.form_seconds) if hosts > 1 else nullcontext():
        dtensor.initialize_accelerator_system(kind)
    cluster = Meshed(
        place, dtensor.create_distributed_mesh([(BATCH, batch), (MODEL, model)], device_type=kind)
    )
    if hosts > 1:
        leave_when_a_peer_is_gone(lambda: any_is_gone(place.others()))
    listen_for_sigterm(cluster)
    print(
        f"{place.name} of a mesh of {batch} x {model} (batch x model): {format_count(hosts, 'host')}, "
        f"{format_count(here, kind)} on each",
        flush=True,
    )
    return cluster


def _client(place: Place) -> dict[str, str]:
    """Return DTensor's variables. DTensor requires sorted addresses, so a client's number is not the worker's."""
    addresses = sorted(place.trainers)
    return {
        "DTENSOR_JOB_NAME": "worker",
        "DTENSOR_JOBS": ",".join(addresses),
        "DTENSOR_CLIENT_ID": str(addresses.index(place.address)),
        "DTENSOR_GPU_USE_NCCL_COMMUNICATION": "1" if gpus() else "0",
    }


def _devices_here(batch: int, model: int, hosts: int) -> int:
    """Return the number of devices that the mesh needs on each host."""
    if batch < 1 or model < 1:
        raise SystemExit(
            f"a mesh of {batch} x {model} (batch x model) has no device: both must be at least 1"
        )
    here, rest = divmod(batch * model, hosts)
    if rest or not here:
        raise SystemExit(
            f"a mesh of {batch} x {model} (batch x model) has {format_count(batch * model, 'device')}, which "
            f"{hosts} hosts cannot share evenly: change the mesh, or cluster.workers in the job file"
        )
    return here


def _use_devices(count: int) -> str:
    """Use `count` GPUs of this host, or as many logical processors if it has no GPU. Return their kind."""
    found = gpus()
    if not found:
        processor = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(
            processor, [tf.config.LogicalDeviceConfiguration()] * count
        )
        return "CPU"
    if len(found) < count:
        raise SystemExit(
            f"the mesh needs {format_count(count, 'GPU')} on each host, but this host has {len(found)}: choose a "
            "larger type in hardware.instance_types, more workers, or a smaller mesh"
        )
    tf.config.set_visible_devices(found[:count], "GPU")
    return "GPU"


def layout_of(mesh: Any, shape: Sequence[int], axes: Sequence[str | None]) -> Any:
    """Return the layout that splits each axis along a dimension of the mesh; None leaves an axis whole."""
    if len(axes) != len(shape):
        raise SystemExit(
            f"the axes {tuple(axes)} do not fit the shape {tuple(shape)}: give {BATCH!r}, {MODEL!r} or None for each "
            "dimension of the shape"
        )
    for size, axis in zip(shape, axes, strict=True):
        if axis not in (None, BATCH, MODEL):
            raise SystemExit(
                f"the mesh has the dimensions {BATCH!r} and {MODEL!r}, not {axis!r}: use one of them, or None"
            )
        if axis and size % mesh.dim_size(axis):
            raise SystemExit(
                f"{size} in the shape {tuple(shape)} cannot be divided by {axis}={mesh.dim_size(axis)} of the mesh"
            )
    return dtensor.Layout([axis or dtensor.UNSHARDED for axis in axes], mesh)
