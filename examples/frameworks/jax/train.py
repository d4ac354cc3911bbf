"""JAX on several hosts with one process each: jax.distributed, with gradients averaged by an all-reduce. The program
does not use Trainyard's code.

The first process saves every --every steps, and when any process gets SIGTERM. After a restart, all processes continue
from there.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoints", type=Path, required=True)
parser.add_argument("--model", type=Path, required=True)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--every", type=int, default=50)
parser.add_argument("--batch", type=int, default=256, help="examples a step, of all processes together")
arguments = parser.parse_args()

signals = []
# JAX reads JAX_COORDINATOR_ADDRESS itself, but not the two numbers.
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
    heartbeat_timeout_seconds=20,  # a lost peer is noticed sooner than after the default of 100 s
)
signal.signal(signal.SIGTERM, lambda *_: signals.append(True))
rank, world = jax.process_index(), jax.process_count()
print(f"process {rank} of {world}, devices {jax.device_count()}", flush=True)
mesh = Mesh(np.array(jax.devices()), ("batch",))
everywhere, shared_out = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("batch",)))

# The task: find the random plane, of ten, that a point is farthest above.
planes = np.random.default_rng(1).normal(size=(32, 10)).astype(np.float32)


def batch(step: int) -> tuple[jax.Array, jax.Array]:
    """Return the batch of a step, with only the share of this process. The result depends only on the step."""
    points = np.random.default_rng(1000 + step).normal(size=(arguments.batch, 32)).astype(np.float32)
    share = arguments.batch // world
    mine = points[rank * share : (rank + 1) * share]
    labels = (mine @ planes).argmax(axis=1)
    return tuple(jax.make_array_from_process_local_data(shared_out, part) for part in (mine, labels))


def loss_of(weights: dict, points: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    logits = jax.nn.relu(points @ weights["in"] + weights["bias"]) @ weights["out"]
    losses = -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels]
    return losses.mean(), (logits.argmax(axis=1) == labels).mean()


@jax.jit
def train(weights: dict, points: jax.Array, labels: jax.Array) -> tuple[dict, jax.Array, jax.Array]:
    (loss, accuracy), slopes = jax.value_and_grad(loss_of, has_aux=True)(weights, points, labels)
    return jax.tree.map(lambda weight, slope: weight - 0.5 * slope, weights, slopes), loss, accuracy


start = np.random.default_rng(2)
weights = {
    "in": start.normal(size=(32, 128)).astype(np.float32) * 0.2,
    "bias": np.zeros(128, np.float32),
    "out": start.normal(size=(128, 10)).astype(np.float32) * 0.1,
}
saved, step = arguments.checkpoints / "latest.npz", 0
if saved.exists():
    with np.load(saved) as state:
        step = int(state["step"])
        weights = {name: state[name] for name in weights}
    print(f"process {rank} continues from step {step}", flush=True)
weights = jax.device_put(weights, everywhere)

while step < arguments.steps:
    weights, loss, accuracy = train(weights, *batch(step))
    step += 1
    # All processes agree to leave, so that all leave at the same step.
    leave = bool(multihost_utils.process_allgather(np.array(bool(signals))).any()) if step % 5 == 0 else False
    if rank == 0 and (step % arguments.every == 0 or leave or step == arguments.steps):
        half = saved.with_name("half.npz")
        np.savez(half, step=step, **{name: np.asarray(weight) for name, weight in weights.items()})
        half.replace(saved)
    if rank == 0 and step % 10 == 0:
        print(f"step {step} loss {float(loss):.4f} accuracy {float(accuracy):.4f}", flush=True)
    if leave:
        print(f"process {rank} leaves at step {step}", flush=True)
        sys.exit(75)

if rank == 0:
    arguments.model.mkdir(parents=True, exist_ok=True)
    np.savez(
        arguments.model / "weights.npz", **{name: np.asarray(weight) for name, weight in weights.items()}
    )
