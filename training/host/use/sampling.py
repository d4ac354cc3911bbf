"""Samples of a host: processors, memory, disk and network from /proc, GPUs from the driver.

A sample covers the time since the last one. It takes about 20 ms of one processor, and 100 ms on a host with GPUs.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from training.host import processes
from training.host.use.driver import Driver
from trainyard.core.model import host_use

PROC = Path("/proc")
MEGABYTE = 1e6
SECTOR_BYTES = 512
MOST_BYTES = 1 << 20
NANOSECONDS = 1e9
OF_NO_DISK = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
OF_NO_NETWORK = ("lo",)


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters that only grow. Two of them give the rates between."""

    at: float
    program: float
    """Seconds of processors that the program has used."""
    waited: float
    """Seconds for which its threads were ready and had no processor."""
    others: float
    """Seconds of processors of all processes."""
    disk: tuple[float, float]
    """Bytes that disks have read and written."""
    network: tuple[float, float]
    """Bytes that were received and sent."""
    inputs: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """By process of the program: the time of its last note, and the seconds for which it has waited for input."""


@dataclass(slots=True)
class Sampler:
    """Samples one host while one program runs. `find_pids` returns the processes of the program."""

    find_pids: Callable[[], tuple[int, ...]]
    waits: Path
    """The file with the program's waits for input (startup/sitecustomize.py)."""
    gpus: int = 0
    proc: Path = PROC
    driver: Driver = field(default_factory=Driver)
    _before: Counters | None = None

    def sample(self, now: float) -> dict[str, float]:
        """Return the measures since the last sample; nothing at the first one. `now` is a monotonic clock."""
        before, self._before = self._before, self._count(now)
        if before is None or now <= before.at:
            return {}
        of_gpus = self.driver.read() if self.gpus else {}
        return rates(before, self._before) | {host_use.MEMORY: self._memory()} | of_gpus

    def _count(self, now: float) -> Counters:
        found = processes.find(self.proc)
        pids = [pid for pid in self.find_pids() if pid in found]
        return Counters(
            at=now,
            program=sum(found[pid].seconds for pid in pids),
            waited=sum(_run_delay(self.proc / str(pid)) for pid in pids),
            others=sum(each.seconds for each in found.values()),
            disk=_disk_bytes(self.proc / "diskstats"),
            network=_network_bytes(self.proc / "net/dev"),
            inputs=read_waits(self.waits),
        )

    def _memory(self) -> float:
        lines = (line.split() for line in _text(self.proc / "meminfo").splitlines())
        known = {words[0].rstrip(":"): float(words[1]) for words in lines if len(words) > 1}
        return (known.get("MemTotal", 0.0) - known.get("MemAvailable", 0.0)) * 1024 / MEGABYTE


def rates(before: Counters, after: Counters) -> dict[str, float]:
    """Return the measures between two counts. A counter that has fallen, because a process ended, counts as 0."""
    seconds = after.at - before.at

    def rate(old: float, new: float, unit: float = 1.0) -> float:
        return max(0.0, new - old) / seconds / unit

    found = {
        host_use.PROCESSORS: rate(before.others, after.others),
        host_use.OWN: rate(before.program + before.waited, after.program + after.waited),
        host_use.DISK_READ: rate(before.disk[0], after.disk[0], MEGABYTE),
        host_use.DISK_WRITTEN: rate(before.disk[1], after.disk[1], MEGABYTE),
        host_use.RECEIVED: rate(before.network[0], after.network[0], MEGABYTE),
        host_use.SENT: rate(before.network[1], after.network[1], MEGABYTE),
    }
    shares = [
        (waited - before.inputs[pid][1]) / (at - before.inputs[pid][0])
        for pid, (at, waited) in after.inputs.items()
        if pid in before.inputs and at > before.inputs[pid][0]
    ]
    return found | ({host_use.INPUT: 100 * min(1.0, max(shares))} if shares else {})


def read_waits(path: Path) -> dict[int, tuple[float, float]]:
    """Return the last note of each process. The program may write to the file, so other lines are skipped."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_BYTES))
            lines = file.read(MOST_BYTES).splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        try:
            noted = json.loads(line)
            found[int(noted["pid"])] = float(noted["at"]), float(noted["waited"])
        except (KeyError, TypeError, ValueError):
            continue
    return found


def _run_delay(folder: Path) -> float:
    """Return the seconds for which the threads of a process were ready to run and had no processor."""
    try:
        threads = list((folder / "task").iterdir())
    except OSError:
        return 0.0
    words = (_text(thread / "schedstat").split() for thread in threads)
    return sum(float(each[1]) for each in words if len(each) > 1) / NANOSECONDS


def _disk_bytes(path: Path) -> tuple[float, float]:
    rows = [line.split() for line in _text(path).splitlines()]
    # a partition counts what its disk counts, too: nvme0n1p1, sda1
    names = {row[2] for row in rows if len(row) > 9}
    disks = [
        row
        for row in rows
        if len(row) > 9
        and not row[2].startswith(OF_NO_DISK)
        and not any(row[2] != name and row[2].startswith(name) for name in names)
    ]
    return tuple(sum(float(row[place]) for row in disks) * SECTOR_BYTES for place in (5, 9))  # type: ignore[return-value]


def _network_bytes(path: Path) -> tuple[float, float]:
    received = sent = 0.0
    for line in _text(path).splitlines()[2:]:
        name, _, numbers = line.partition(":")
        words = numbers.split()
        if name.strip() not in OF_NO_NETWORK and len(words) > 8:
            received, sent = received + float(words[0]), sent + float(words[8])
    return received, sent


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
