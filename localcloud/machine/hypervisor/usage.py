"""What a host's processes use, seen from outside: processor time, time they waited for a processor, memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from localcloud.machine.hypervisor.host_processes import namespace_inside, namespace_of, processes, stat_of

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
UTIME, STIME, CUTIME, CSTIME, RSS = 11, 12, 13, 14, 21
"""Where /proc/PID/stat says it, counted from the state on: user and system time, those of ended children, pages."""


@dataclass(frozen=True)
class Usage:
    """One look at one host."""

    at: float
    """Seconds of a clock that only goes forward."""
    boot: str
    """Another one after every boot."""
    processor_seconds: float
    """Of all its processes since then, those that have ended included."""
    wanted_seconds: Mapping[int, float]
    """By thread that is still there: how long it ran or waited for a processor."""
    memory_bytes: int
    """Resident memory of its processes now; what they share counts for each."""


def busy(before: Usage, after: Usage) -> float | None:
    """The share, 0 to 1, of the time between two looks in which the host computed; None when it booted in between.

    What one thread computes without a pause is 1, whoever else uses this machine's processors: waiting for one counts
    like running. More cannot be than 1.
    """
    seconds = after.at - before.at
    if before.boot != after.boot or seconds <= 0:
        return None
    ran = after.processor_seconds - before.processor_seconds
    busiest = max(
        (wanted - before.wanted_seconds.get(thread, 0.0) for thread, wanted in after.wanted_seconds.items()),
        default=0.0,
    )
    return min(1.0, max(0.0, ran, busiest) / seconds)


def measure(boots: Mapping[str, int]) -> dict[str, Usage]:
    """The usage of every host, by the process id of its boot process; a host that goes meanwhile is left out."""
    hosts = {namespace: host for host, boot in boots.items() if (namespace := namespace_inside(boot))}
    inside: dict[str, list[int]] = {}
    for pid in processes():
        namespace = namespace_of(pid)
        if namespace in hosts:
            inside.setdefault(namespace, []).append(pid)
    return {hosts[namespace]: _usage(namespace, pids) for namespace, pids in inside.items()}


def _usage(namespace: str, pids: list[int]) -> Usage:
    wanted: dict[int, float] = {}
    processor, memory = 0.0, 0
    for pid in pids:
        if fields := stat_of(pid):
            processor += sum(int(fields[place]) for place in (UTIME, STIME, CUTIME, CSTIME)) / TICKS
            memory += int(fields[RSS]) * PAGE
            wanted.update(_threads(pid))
    return Usage(time.monotonic(), namespace, processor, wanted, memory)


def _threads(pid: int) -> Iterator[tuple[int, float]]:
    """What each thread wanted; nothing where the kernel keeps no such account (CONFIG_SCHED_INFO)."""
    try:
        threads = [folder.name for folder in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return
    for thread in threads:
        try:
            ran, waited, _ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
        except OSError:  # it ended while we looked
            continue
        yield int(thread), (int(ran) + int(waited)) / 1e9
