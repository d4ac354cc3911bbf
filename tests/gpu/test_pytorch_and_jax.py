"""Tests of PyTorch and JAX that need a GPU: `python -m pytest tests/gpu/test_pytorch_and_jax.py`, as root, with CUDA
builds of both.

On other machines they are skipped, so neither `make test` nor the continuous integration runs them.
"""

import os
import pwd
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.machine import (
    ON_A_GPU,
    WORK_PERCENT,
    how_busy,
    meaning,
    pair,
    ran,
    reason_of_end,
    running,
    shown,
)
from training.baking import install, tests
from training.baking.bench import Bench
from training.baking.shell import end
from training.host import account
from training.host.program.advice import GPU_MEMORY, NO_GPU
from training.host.program.ending import Stopped
from training.host.program.tasks import most_tasks
from training.host.reporting import gpus
from trainyard.protocol.signals import StopReason

pytestmark = ON_A_GPU

ROUND = """
import time, torch
a = torch.randn(4096, 4096, device="cuda")
def compute(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        a @ a
        torch.cuda.synchronize()
"""
HOLDS = "a = torch.empty(2**30, device='cuda')\nprint('ready', flush=True)\ntime.sleep(600)"
MULTIPLIES = "print('ready', flush=True)\ncompute(600)"
NOW_AND_THEN = "print('ready', flush=True)\nwhile True:\n    compute(1.0)\n    time.sleep(9.0)"
SMALL_STEPS = """
net = torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
adam = torch.optim.Adam(net.parameters())
print('ready', flush=True)
while True:
    loss = torch.nn.functional.cross_entropy(net(torch.randn(256, 32).cuda()), torch.randint(10, (256,)).cuda())
    adam.zero_grad()
    loss.backward()
    adam.step()
    loss.item()
"""

CHUNKS = """
import os, sys, time, torch
SECRET, CHUNK = 0x5EC4E7, 2**28
def chunks():
    got = []
    try:
        while True:
            got.append(torch.empty(CHUNK, dtype=torch.int32, device="cuda"))
    except torch.OutOfMemoryError:
        return got[:-2]  # whoever looks needs some room
def seen(got):
    return sum(int((part == SECRET).sum()) for each in got for part in each.split(2**24))
def write():
    got = chunks()
    for each in got:
        each.fill_(SECRET)
    torch.cuda.synchronize()
    print(len(got), flush=True)
    return got
"""
LEAVES = "write()"
IS_KILLED = "held = write()\ntime.sleep(600)"
LOOKS = "got = chunks()\nprint(len(got), seen(got))"
LOOKS_AT_ITS_OWN = "got = write()\ndel got\ngot = chunks()\nprint(len(got), seen(got))"
"""A control: PyTorch returns a program's own memory unchanged, so the search finds it."""

TORCH_RANK = """
import datetime, torch, torch.distributed as dist
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=20))
x = torch.ones(2**20, device="cuda")
while True:
    dist.all_reduce(x)
    x /= 2
    torch.cuda.synchronize()
    print("step", flush=True)
"""
JAX_RANK = """
import os, jax, jax.numpy as jnp
from jax.experimental import multihost_utils
rank = int(os.environ["RANK"])
jax.distributed.initialize("127.0.0.1:29531", 2, rank, local_device_ids=[0], heartbeat_timeout_seconds=20)
while True:
    multihost_utils.process_allgather(jnp.ones(2**16))
    print("step", flush=True)
"""


@pytest.fixture
def programs(bench: Bench) -> Iterator[account.Account]:
    """Yield the account that a bake makes. An account that exists, as on a host of a yard, stays."""
    was_there = account.NAME in {entry.pw_name for entry in pwd.getpwall()}
    install.make_account(bench.builder)
    yield account.find()
    if not was_there:
        subprocess.run(["userdel", account.NAME], check=True)


def printed(program: str) -> list[int]:
    done = ran(program)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_a_bake_finds_the_driver_and_its_kind(bench: Bench) -> None:
    found = tests.run("driver", tests.driver, bench)
    print(found.reason)
    assert found.outcome == "passed", found.reason


def test_programs_compute_on_every_gpu_as_an_account_without_rights(programs: account.Account) -> None:
    program = ROUND + "import os\ncompute(0.5)\nprint(os.getuid(), torch.cuda.device_count())"
    told = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        programs.command(
            [sys.executable, "-c", program], python=Path(sys.executable), most_tasks=most_tasks()
        ),
        input="\0".join(f"{name}={value}" for name, value in told.items()),
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(programs.uid), str(len(gpus.read_driver()[gpus.UTILIZATION]))]


def test_memory_alone_is_no_work_and_the_smallest_steps_are() -> None:
    for name, program, works in (
        ("holds 4 GiB and waits", HOLDS, False),
        ("multiplies", MULTIPLIES, True),
        ("a small network's steps", SMALL_STEPS, True),
    ):
        assert (how_busy(name, ROUND + program) >= WORK_PERCENT) is works, name


def test_one_second_of_ten_is_seen_by_one_look_of_ten() -> None:
    """Only many looks, one a minute as on AWS, distinguish a host that computes this rarely from an idle one."""
    with running(ROUND + NOW_AND_THEN):
        busy, _ = shown(40.0)
    share = sum(each >= WORK_PERCENT for each in busy) / len(busy)
    print(f"{len(busy)} looks, {share:.0%} of them at {WORK_PERCENT:g} % or more")
    assert 0 < share < 0.5


@pytest.mark.parametrize("program", [LEAVES, IS_KILLED], ids=["ended", "killed"])
def test_nothing_of_a_program_is_left_in_a_gpus_memory_for_the_next(program: str) -> None:
    _, chunks, own = printed(CHUNKS + LOOKS_AT_ITS_OWN)
    assert own > 0
    with running(CHUNKS + program) as first:
        if program == LEAVES:
            assert first.wait(120) == 0
        else:
            first.send_signal(signal.SIGKILL)
            first.wait(120)
    looked, found = printed(CHUNKS + LOOKS)
    print(f"its own memory: {own} numbers of {chunks} GiB; the next program's: {found} of {looked} GiB")
    assert looked >= chunks - 1
    assert found == 0


@pytest.mark.parametrize(
    ("program", "environment", "advice"),
    [
        ("import torch\ntorch.empty(2**42, device='cuda')", {}, GPU_MEMORY),
        ("import jax.numpy as jnp\njnp.zeros(2**40).sum()", {}, GPU_MEMORY),
        ("import torch\ntorch.ones(1).cuda()", {"CUDA_VISIBLE_DEVICES": ""}, NO_GPU),
        ("import jax\njax.devices('gpu')", {"CUDA_VISIBLE_DEVICES": ""}, NO_GPU),
    ],
)
def test_an_error_of_the_gpu_says_what_to_do(program: str, environment: dict[str, str], advice: str) -> None:
    assert advice in reason_of_end(program, **environment)


@pytest.mark.parametrize("program", [TORCH_RANK, JAX_RANK], ids=["pytorch", "jax"])
def test_a_peer_that_is_gone_ends_the_attempt_alone(program: str, tmp_path: Path) -> None:
    with pair(program, tmp_path) as (first, (second, _)):
        end(second)
        assert meaning(*first) == Stopped(StopReason.PEER)


def test_a_gang_that_waits_for_a_peer_that_hangs_looks_busy_until_nccl_gives_up(tmp_path: Path) -> None:
    """The use of the GPUs does not show that a program hangs, but its progress does."""
    with pair(TORCH_RANK, tmp_path) as (first, (second, _)):
        second.send_signal(signal.SIGSTOP)
        time.sleep(3)
        busy, _ = shown(10.0)
        print(f"waits for a peer in NCCL: {min(busy):g} to {max(busy):g} %")
        assert statistics.median(busy) >= WORK_PERCENT
        assert meaning(*first) == Stopped(StopReason.PEER)
