"""The processes of this machine, from /proc/<pid>/stat (proc(5)): their parents, processor time, and terminals."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

PTS_MAJORS = range(136, 144)
TICKS = os.sysconf("SC_CLK_TCK")
"""The kernel's ticks per second."""
ZOMBIE = "Z"
PROC = Path("/proc")
PTS = Path("/dev/pts")


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine."""

    pid: int
    name: str
    parent: int
    group: int
    session: int
    terminal: int | None
    """The number of this host's pseudo-terminal that the process belongs to."""
    foreground: int
    """The process group that has the terminal now."""
    ticks: int
    """The processor time of the process and of its children that have ended."""
    state: str = "S"
    born: int = 0
    """When the process began, in ticks since the boot."""
    threads: int = 1

    @property
    def seconds(self) -> float:
        """The processor time in seconds."""
        return self.ticks / TICKS


def find(proc: Path = PROC) -> dict[int, Process]:
    """Return all processes by id, except those that end meanwhile."""
    ids = (int(folder.name) for folder in proc.iterdir() if folder.name.isdigit())
    return {pid: process for pid in ids if (process := one(pid, proc))}


def one(pid: int, proc: Path = PROC) -> Process | None:
    """Return the process with this id; None if there is none."""
    try:
        found = parse((proc / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    in_a_container = found.terminal is not None and _has_terminals_of_its_own(proc / str(pid))
    return replace(found, terminal=None) if in_a_container else found


def parse(stat: str) -> Process:
    """Parse a stat file of proc(5). The name stands in parentheses and may hold any character."""
    begin, _, rest = stat.partition(" (")
    name, _, after = rest.rpartition(") ")
    fields = after.split()
    return Process(
        pid=int(begin),
        name=name,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        terminal=_terminal(int(fields[4])),
        foreground=int(fields[5]),
        ticks=sum(map(int, fields[11:15])),
        state=fields[0],
        born=int(fields[19]),
        threads=int(fields[17]),
    )


def _has_terminals_of_its_own(process: Path) -> bool:
    """Return True if the process has its own /dev/pts, as in a container: each numbers its terminals from 0 (the
    kernel's devpts.rst). Return False if that is unknown: the root has no /dev/pts, or the process ends meanwhile."""
    try:
        return (process / "root" / PTS.relative_to("/")).stat().st_dev != PTS.stat().st_dev
    except OSError:
        return False


def _terminal(device: int) -> int | None:
    return os.minor(device) if os.major(device) in PTS_MAJORS else None


def ancestors(process: Process, among: Mapping[int, Process]) -> Iterator[Process]:
    """Yield the ancestors of a process, its parent first."""
    above = among.get(process.parent)
    while above:
        yield above
        above = among.get(above.parent) if above.parent != above.pid else None


def processor_seconds(before: Mapping[int, Process], after: Mapping[int, Process]) -> float:
    """Return the processor seconds between two looks. A process that ends passes its time on to the parent that waits
    for it, so only the sum over all processes counts. The time of a process without a waiting parent is lost."""
    return max(
        0.0, sum(each.seconds for each in after.values()) - sum(each.seconds for each in before.values())
    )
