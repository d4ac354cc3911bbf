"""Run programs as separate processes on this machine's loopback interface, as the host agent would start them.

Each is forked from one process that has imported TensorFlow, because that import takes longer than most programs here.
Variables that affect the import (TF_USE_LEGACY_KERAS, TF_CPP_MIN_LOG_LEVEL) have no effect on the programs.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.training.preloaded"])


@dataclass(frozen=True)
class Process:
    """A forked process, with the interface of `subprocess.Popen`."""

    forked: ForkServerProcess

    def poll(self) -> int | None:
        """Return the exit code: None while the process runs, less than 0 after a signal."""
        return self.forked.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code. Raises TimeoutError after `timeout` seconds."""
        self.forked.join(timeout)
        if self.forked.exitcode is None:
            raise TimeoutError(f"process {self.forked.pid} has not ended within {timeout} seconds")
        return self.forked.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        assert self.forked.pid is not None, "a process that was started has an id"
        if self.poll() is None:
            os.kill(self.forked.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> Process:
    """Start `python` with these arguments, `-m MODULE ...` or `FILE ...`, in this folder. Append the output to log."""
    forked = FORKS.Process(target=_become, args=(list(command), dict(environment), str(folder), str(log)))
    forked.start()
    return Process(forked)


def _as_a_host_of_its_own() -> dict[str, str]:
    """Return variables that let all processes share this machine's GPU: each allocates only the memory that it needs,
    and NCCL, which requires a GPU for each process of a host, treats each process as another host."""
    return {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "NCCL_HOSTID": str(os.getpid()), "NCCL_SOCKET_IFNAME": "lo"}


def _become(command: Sequence[str], environment: dict[str, str], folder: str, log: str) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(_as_a_host_of_its_own() | environment)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    is_module = command[0] == "-m"
    sys.argv = list(command[1:] if is_module else command)
    first = folder if is_module else str(Path(command[0]).parent)
    told = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    installed = [path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))]
    sys.path = [first, *told, *installed]
    try:
        if is_module:
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(command[0], run_name="__main__")
    except Exception:  # noqa: BLE001 - whatever it is: a program may have a hook for it, which multiprocessing never asks
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
