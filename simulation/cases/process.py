"""What a process needs before its first world: the same for a person's command, a worker and a test."""

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
from simulation.aws.door.botocore_door import DOOR
from simulation.aws.functions import ENVIRONMENTS
from simulation.template import YardTemplate
from simulation.world.clock import CLOCK

FIXED = {
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "POWERTOOLS_METRICS_DISABLED": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""The environment in which worlds happen. AWS's other variables are a person's own, and no business of a world."""

MOST_CPU_SECONDS = 120.0
"""Of one world: more is a circle, and broken."""
HUGE = 2 << 20
"""The bytes of such a page."""
MADV_COLLAPSE = 25
"""Of linux/mman.h; Python's mmap has no name for it."""


def restart_as_needed() -> None:
    """This command once more, in the environment that worlds have: the order of a set cannot differ then."""
    if os.environ == _environment():
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], _environment())  # noqa: S606 - this very program


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return kept | FIXED


@contextlib.contextmanager
def of_worlds(assembly: Path) -> Iterator[YardTemplate]:
    """A process that goes on to other things: afterwards its clients, settings, environment and clock are its own."""
    before = dict(os.environ)
    try:
        yield prepared(assembly)
    finally:
        DOOR.remove()
        ENVIRONMENTS.remove()
        CLOCK.leave()
        prepared.cache_clear()
        os.environ.clear()
        os.environ.update(before)
        time.tzset()
        gc.unfreeze()
        gc.enable()


@functools.cache
def prepared(assembly: Path) -> YardTemplate:
    """The yard of that folder, once clients ask the simulated AWS and functions read their own environment."""
    os.environ.update(FIXED)
    time.tzset()
    DOOR.install()
    ENVIRONMENTS.install()
    return template.read(assembly)


class TooLong(BaseException):
    """A world has used its time. No `except Exception` on the way holds it."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """For one world: raises TooLong in it. Of CPU, so a busy machine is no reason."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    limit()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def limit() -> None:
    """Of this process's time from now on: a fork is without."""
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_SECONDS, 1.0)


def tidy() -> None:
    """After each world: what waits in it for ever ends here, before another world could hear of it.

    What the first one has loaded stays for good, so later ones have little to look through.
    """
    DOOR.send = DOOR.short = DOOR.sleep = ENVIRONMENTS.current = _no_world
    gc.collect()
    if gc.isenabled():
        gc.freeze()
        gc.disable()
        in_huge_pages()


def in_huge_pages() -> None:
    """What this process holds, in pages of 2 MiB where Linux has room for them (6.1 and later; others say no, and
    nothing is lost): a fork copies a table of 80 pages in place of one of 40,000, and a world takes 8 % less time."""
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, rights, *_, file = (*line.split(maxsplit=5), "")[:6]
        first, end = (int(each, 16) for each in where.split("-"))
        first, end = -(-first // HUGE) * HUGE, end // HUGE * HUGE
        if rights.startswith("rw") and file in ("", "[heap]") and first < end:
            advise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), MADV_COLLAPSE)


def _no_world(*_: object) -> NoReturn:
    raise GreenletExit
