"""PyTorch's DistributedDataParallel over gloo, started by torchrun. The program does not use Trainyard's code.

Each host saves every --every steps, and when any process gets SIGTERM, which torchrun passes on. After a restart, by
torchrun on the same hosts or by the yard on others, all processes continue from there.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoints", type=Path, required=True)
parser.add_argument("--model", type=Path, required=True)
parser.add_argument("--events", type=Path, required=True)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--every", type=int, default=50)
parser.add_argument("--batch", type=int, default=256, help="examples a step, of all processes together")
arguments = parser.parse_args()

leaving = torch.zeros(1)
signal.signal(signal.SIGTERM, lambda *_: leaving.fill_(1.0))
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
first_here = os.environ["LOCAL_RANK"] == "0"
print(f"rank {rank} of {world}, restart {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)

# The task: find the random plane, of ten, that a point is farthest above.
generator = torch.Generator().manual_seed(1)
planes = torch.randn(32, 10, generator=generator)


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this process' share of the batch of a step. The result depends only on the step."""
    points = torch.randn(arguments.batch, 32, generator=torch.Generator().manual_seed(1000 + step))
    mine = points[rank::world]
    return mine, (mine @ planes).argmax(dim=1)


torch.manual_seed(1)
network = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 10))
model = DistributedDataParallel(network)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
saved, step = arguments.checkpoints / "latest.pt", 0
if saved.exists():
    state = torch.load(saved)
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    step = state["step"]
    print(f"rank {rank} continues from step {step}", flush=True)


def save() -> None:
    """Save a checkpoint. A whole checkpoint exists at any moment."""
    half = saved.with_suffix(".half")
    torch.save({"network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, half)
    half.replace(saved)


scalars = SummaryWriter(str(arguments.events)) if rank == 0 else None
while step < arguments.steps:
    points, labels = batch(step)
    logits = model(points)
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    facts = torch.stack([loss.detach(), (logits.argmax(dim=1) == labels).float().mean(), leaving[0].clone()])
    dist.all_reduce(facts)  # all processes agree to leave, so that all leave at the same step
    if first_here and (step % arguments.every == 0 or facts[2] or step == arguments.steps):
        save()
    if scalars and step % 10 == 0:
        scalars.add_scalar("train/loss", facts[0] / world, step)
        scalars.add_scalar("train/accuracy", facts[1] / world, step)
        scalars.flush()
        print(f"step {step} loss {facts[0] / world:.4f} accuracy {facts[1] / world:.4f}", flush=True)
    if facts[2]:
        print(f"rank {rank} leaves at step {step}", flush=True)
        dist.barrier()  # a process that ends early would break the others' all-reduce
        sys.exit(75)

if rank == 0:
    arguments.model.mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), arguments.model / "network.pt")
dist.destroy_process_group()
