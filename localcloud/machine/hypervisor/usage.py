"""Resource usage of a host's processes, seen from outside: processor time, waiting time, memory."""

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
"""Positions in /proc/PID/stat, counted from the state: user time, system time, both for ended children, and pages."""


@dataclass(frozen=True)
class Usage:
    """A measurement of a host."""

    at: float
    """Seconds of a monotonic clock."""
    boot: str
    """Identifies the boot."""
    processor_seconds: float
    """Processor time of all processes since the boot, including ended ones."""
    wanted_seconds: Mapping[int, float]
    """Running and waiting time by living thread."""
    memory_bytes: int
    """Resident memory of the processes. Shared pages count for each."""


def busy(before: Usage, after: Usage) -> float | None:
    """Return the busy share, 0 to 1, between two measurements; None if the host booted in between.

    One thread that always computes counts as 1. Waiting for a processor counts as running, so other users of the
    machine do not matter.
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
    """Measure every host by the process id of its boot process. Hosts that end meanwhile are left out."""
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
    """Yield the wanted time of each thread, if the kernel records it (CONFIG_SCHED_INFO)."""
    try:
        threads = [folder.name for folder in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return
    for thread in threads:
        try:
            ran, waited, _ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()
        except OSError:  # it ended during the measurement
            continue
        yield int(thread), (int(ran) + int(waited)) / 1e9
