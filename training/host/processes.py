"""The processes of this machine, as /proc/<pid>/stat tells (proc(5)): who started whom, how much was computed, and who
is in the foreground of which terminal."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

PTS_MAJORS = range(136, 144)
TICKS = os.sysconf("SC_CLK_TCK")
"""Of the kernel, a second."""
ZOMBIE = "Z"
PROC = Path("/proc")
PTS = Path("/dev/pts")


@dataclass(frozen=True, slots=True)
class Process:
    """`terminal`: the number of this host's pseudo-terminal that it belongs to; `foreground`: the process group that
    has that terminal now. `ticks`: what it has computed, with its children that have ended; `born`: when it began, in
    ticks."""

    pid: int
    name: str
    parent: int
    group: int
    session: int
    terminal: int | None
    foreground: int
    ticks: int
    state: str = "S"
    born: int = 0
    threads: int = 1

    @property
    def seconds(self) -> float:
        """What it has computed."""
        return self.ticks / TICKS


def find(proc: Path = PROC) -> dict[int, Process]:
    """All of them by their id. One that ends meanwhile is not there."""
    ids = (int(folder.name) for folder in proc.iterdir() if folder.name.isdigit())
    return {pid: process for pid in ids if (process := one(pid, proc))}


def one(pid: int, proc: Path = PROC) -> Process | None:
    """The process of that id; None when there is none."""
    try:
        found = parse((proc / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    in_a_container = found.terminal is not None and _has_terminals_of_its_own(proc / str(pid))
    return replace(found, terminal=None) if in_a_container else found


def parse(stat: str) -> Process:
    """proc(5): the name stands in parentheses and may hold any character."""
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
    """Whether its /dev/pts is another than ours, as a container's is: each counts its terminals from 0 (the kernel's
    devpts.rst). What nobody can tell, of a root without /dev/pts or of a process that ends meanwhile, is ours."""
    try:
        return (process / "root" / PTS.relative_to("/")).stat().st_dev != PTS.stat().st_dev
    except OSError:
        return False


def _terminal(device: int) -> int | None:
    return os.minor(device) if os.major(device) in PTS_MAJORS else None


def ancestors(process: Process, among: Mapping[int, Process]) -> Iterator[Process]:
    """Its parent first."""
    above = among.get(process.parent)
    while above:
        yield above
        above = among.get(above.parent) if above.parent != above.pid else None


def computed(before: Mapping[int, Process], after: Mapping[int, Process]) -> float:
    """Seconds of processors between two looks. A process that ends leaves all it has computed to who waits for it, so
    only the sum of all tells; of what nobody waits for, that minute is lost."""
    return max(
        0.0, sum(each.seconds for each in after.values()) - sum(each.seconds for each in before.values())
    )
