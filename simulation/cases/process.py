"""Prepare a process for worlds: for the command, the workers and the tests."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from greenlet import GreenletExit

from simulation import template
from simulation.aws.endpoint.transport import TRANSPORT
from simulation.aws.functions import ENVIRONMENTS
from simulation.aws.layers import LAYERS
from simulation.template import YardTemplate
from simulation.world.clock import CLOCK

FIXED = {
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "POWERTOOLS_METRICS_DISABLED": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""Environment variables of a process that runs worlds. Other variables of AWS are removed."""

MOST_CPU_SECONDS = 120.0
"""The limit for one world. A longer world is in an endless loop."""
HUGE = 2 << 20
"""The size of a huge page in bytes."""
MADV_COLLAPSE = 25
"""From linux/mman.h; Python's mmap does not define it."""


def restart_as_needed() -> None:
    """Restart this command in the environment of worlds, if necessary. The order of sets is the same there."""
    if os.environ == _environment():
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], _environment())  # noqa: S606 - the same program again


def _environment() -> dict[str, str]:
    others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return others | FIXED


@contextlib.contextmanager
def world_environment(assembly: Path) -> Iterator[YardTemplate]:
    """Prepare the process for worlds, and afterwards restore its clients, settings, environment and clock."""
    before = dict(os.environ)
    try:
        yield prepare(assembly)
    finally:
        TRANSPORT.remove()
        ENVIRONMENTS.remove()
        LAYERS.remove()
        CLOCK.leave()
        prepare.cache_clear()
        os.environ.clear()
        os.environ.update(before)
        time.tzset()
        gc.unfreeze()
        gc.enable()


@functools.cache
def prepare(assembly: Path) -> YardTemplate:
    """Return the yard of that folder. Clients now call the simulated AWS, and functions read their own environment."""
    os.environ.update(FIXED)
    time.tzset()
    TRANSPORT.install()
    ENVIRONMENTS.install()
    LAYERS.install()
    return template.read(assembly)


class TooLong(BaseException):
    """A world has used its CPU time. `except Exception` does not catch it."""


@contextlib.contextmanager
def limit_cpu(seconds: float = MOST_CPU_SECONDS) -> Iterator[None]:
    """Raise TooLong in a world that exceeds its CPU time. A busy machine does not matter."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    start_timer(seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def start_timer(seconds: float = MOST_CPU_SECONDS) -> None:
    """Start the CPU timer of this process; a fork does not inherit it."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1.0)


def clean_up() -> None:
    """End the waiting processes of a world, before the next world starts.

    Objects that the first world has loaded are frozen, so later garbage collections are fast.
    """
    TRANSPORT.send = TRANSPORT.short = TRANSPORT.sleep = ENVIRONMENTS.current = _no_world
    gc.collect()
    if gc.isenabled():
        gc.freeze()
        gc.disable()
        use_huge_pages()


def use_huge_pages() -> None:
    """Move the memory of this process to pages of 2 MiB if Linux supports it (6.1 or later; others ignore it).

    A fork then copies a table of 80 pages instead of 40,000, and a world takes 8% less time.
    """
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, rights, *_, file = (*line.split(maxsplit=5), "")[:6]
        first, end = (int(each, 16) for each in where.split("-"))
        first, end = -(-first // HUGE) * HUGE, end // HUGE * HUGE
        if rights.startswith("rw") and file in ("", "[heap]") and first < end:
            advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MADV_COLLAPSE)


def _no_world(*_: object) -> NoReturn:
    raise GreenletExit
