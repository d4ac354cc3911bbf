"""Programs as processes on a machine with a GPU, the reasons of their ends, and nvidia-smi's values while they run."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from training.baking.shell import end
from training.host.program.ending import End, Failed, Finished, Stopped, decide, why
from training.host.reporting import gpus
from training.host.reporting.program_log import TAIL_CHARACTERS

Popen = subprocess.Popen[bytes]

ON_A_GPU = pytest.mark.skipif(
    not Path("/dev/nvidia0").exists() or os.geteuid() != 0,
    reason="this machine has no GPU, or you are not root",
)

WORK_PERCENT = 5.0
"""The percentage of GPU use at which patrol's default policy counts a host as busy."""
SETTLED_SECONDS = 5.0

TOGETHER = {  # with NCCL_HOSTID, NCCL treats two processes on one GPU as two hosts
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29530",
    "WORLD_SIZE": "2",
    "NCCL_SOCKET_IFNAME": "lo",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": ".2",
}


def ran(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def reason_of_end(program: str, **environment: str) -> str:
    """Return the agent's decision about the program's end."""
    done = ran(program, **environment)
    print(done.stderr[-TAIL_CHARACTERS:])
    return why(End(code=done.returncode, tail=done.stderr[-TAIL_CHARACTERS:]))


@contextmanager
def running(program: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a program after its first line of output, and kill it at the end."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline()
        yield process
        process.kill()


@contextmanager
def pair(program: str, folder: Path) -> Iterator[list[tuple[Popen, Path]]]:
    """Yield two processes of a program, with their output, after their first common step. Kill them at the end."""
    started = []
    for rank in ("0", "1"):
        said = folder / rank
        with said.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **TOGETHER, "RANK": rank, "NCCL_HOSTID": rank},
                start_new_session=True,
            )
        started.append((process, said))
    try:
        until = time.monotonic() + 60
        while not all("step" in said.read_text() for _, said in started):
            assert time.monotonic() < until, [said.read_text() for _, said in started]
            time.sleep(0.5)
        yield started
    finally:
        for process, _ in started:
            end(process)


def meaning(process: Popen, said: Path) -> Finished | Stopped | Failed:
    """Return the reason of the end from the agent's last look. NCCL's watchdog takes a minute to write its report."""
    code = process.wait(180)
    print(f"\nexit code {code}: {said.read_text()}")
    tail = said.read_text()[-TAIL_CHARACTERS:]
    return decide(End(code=code if code >= 0 else 128 - code, tail=tail, gang=2))


def shown(seconds: float) -> tuple[list[float], float]:
    """Return nvidia-smi's values every 0.5 s: the use of the busiest GPU in percent, and the most memory in MiB."""
    busy, memory = [], 0.0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        told = gpus.read_driver()
        busy.append(max(told[gpus.UTILIZATION]))
        memory = max(memory, *told[gpus.MEMORY])
        time.sleep(0.5)
    return busy, memory


def how_busy(name: str, program: str) -> float:
    """Return the median use of the busiest GPU while a program runs, in percent, after its start."""
    with running(program):
        time.sleep(SETTLED_SECONDS)
        busy, memory = shown(10.0)
    print(f"{name}: {min(busy):g} to {max(busy):g} %, median {statistics.median(busy):g}; {memory:g} MiB")
    assert memory > 0, name
    return statistics.median(busy)
