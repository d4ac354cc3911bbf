"""How long it takes from a loss to the request for the next attempt, and whose time that is: EC2's or ours."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from simulation.faults import BootFault, Fault, HostFault, Kind
from simulation.world.world import Entry

AWS_TELLS = frozenset(
    map(str, (HostFault.DIES, HostFault.WARNED_120, HostFault.WARNED_30, HostFault.WARNED_0))
)
NOBODY_TELLS = frozenset(map(str, (HostFault.HANGS, HostFault.IS_CUT_OFF)))
BOOTS = frozenset(map(str, BootFault))


class Told(StrEnum):
    """Who could tell the yard of a loss."""

    BY_AWS = "AWS tells"
    BY_NOBODY = "nobody tells"
    BOOTING = "a host that is not ready yet"
    PROGRAMS = "programs stand still, hosts are well"
    OTHER = "other"


LIMITS = {Told.BY_AWS: 30.0, Told.BY_NOBODY: 180.0}
"""Seconds, from the loss to the request. A host may take long to boot, and a program to say something."""
TRAINING = ("train", "servers")
"""The scenarios that the limits are for: a bake or a launch has its own patience."""
IN_TIME = "a loss is seen in time"
"""What a world breaks that is late. Of one fault alone: who is silent beside another is counted from the last."""
EC2_KNOWS = ("host failed", "host reclaimed", "takes a spot host back")
FAULT = "meets a fault: "


@dataclass(frozen=True)
class Detection:
    """Of one fault that made a new attempt. All in virtual seconds since the fault."""

    fault: Fault
    ec2: float
    """Until EC2 itself knew of it; 0 where it never did, or needed to."""
    seen: float
    """Until the workflow had heard of it."""
    asked: float
    """Until the next attempt was asked for: its CreateFleet, or its start on hosts that are left."""
    booting: bool = False
    """Whether the host that was struck had not been ready yet."""

    @property
    def told(self) -> Told:
        what = self.fault.what
        if what in AWS_TELLS:
            return Told.BY_AWS
        if what in BOOTS or (self.booting and what in NOBODY_TELLS):
            return Told.BOOTING
        if what in NOBODY_TELLS:
            return Told.BY_NOBODY
        return Told.PROGRAMS if what == HostFault.GANG_HANGS else Told.OTHER

    @property
    def late(self) -> bool:
        return self.asked - self.ec2 > LIMITS.get(self.told, float("inf"))

    @property
    def how_late(self) -> str:
        return (
            f"the next attempt was asked for {self.asked - self.ec2:.0f} s after {self.fault}, where {self.told}: "
            f"the limit is {LIMITS[self.told]:.0f} s"
        )


def detected(fault: Fault, trace: Sequence[Entry]) -> Detection | None:
    """None for a fault that struck no host or event, or made no new attempt."""
    if fault.kind not in (Kind.HOST, Kind.EVENT):
        return None
    struck = _first(trace, lambda entry: _is_of(fault, entry))
    if struck is None:
        return None
    before, after = trace[: trace.index(struck)], trace[trace.index(struck) + 1 :]
    known = _first(after, lambda entry: entry.who == "ec2" and entry.what in EC2_KNOWS)
    recovers = _first(after, lambda entry: entry.what == "enters Recover")
    if recovers is None:
        return None
    following = after[after.index(recovers) :]
    caught = [entry.at for entry in after if entry.what.startswith("catches ") and entry.at <= recovers.at]
    asked = _first(following, _asks)
    if asked is None:
        return None
    seen = caught[-1] if caught else recovers.at
    ec2 = _since(struck, min(known.at, seen)) if known else 0.0
    booting = not any((entry.who, entry.what) == (struck.who, "says ready") for entry in before)
    return Detection(fault, ec2, _since(struck, seen), _since(struck, asked.at), booting)


def _is_of(fault: Fault, entry: Entry) -> bool:
    return entry.what == FAULT + fault.what and entry.details.get("place") == fault.place


def _asks(entry: Entry) -> bool:
    """The next attempt: of hosts that are new, or of those that are left."""
    return (entry.who, entry.what) == ("ec2", "fleet") or entry.what in ("enters AwaitHosts", "enters Await")


def _since(struck: Entry, when: datetime) -> float:
    return (when - struck.at).total_seconds()


def _first(entries: Iterable[Entry], fits: Callable[[Entry], bool]) -> Entry | None:
    return next((entry for entry in entries if fits(entry)), None)


@dataclass(frozen=True)
class Row:
    """All detections of one fault."""

    told: Told
    fault: str
    worlds: int
    ec2: float
    seen: float
    asked: float
    most: float
    worst: Fault
    limit: float | None

    @property
    def held(self) -> bool:
        return self.limit is None or self.most <= self.limit


def table(detections: Iterable[Detection]) -> list[Row]:
    """A row by fault; medians, and the most, which is what the limit is about: ours, without EC2's part."""
    by_fault: dict[tuple[Told, str], list[Detection]] = {}
    for each in detections:
        by_fault.setdefault((each.told, each.fault.what), []).append(each)
    rows = [_row(told, what, found) for (told, what), found in by_fault.items()]
    return sorted(rows, key=lambda row: (list(Told).index(row.told), row.fault))


def _row(told: Told, what: str, found: Sequence[Detection]) -> Row:
    worst = max(found, key=lambda each: each.asked - each.ec2)
    return Row(
        told,
        what,
        len(found),
        statistics.median(each.ec2 for each in found),
        statistics.median(each.seen - each.ec2 for each in found),
        statistics.median(each.asked - each.seen for each in found),
        worst.asked - worst.ec2,
        worst.fault,
        LIMITS.get(told),
    )


HEAD = """\
# From a loss to the new attempt's request

Virtual seconds, of every fault of a host and of an event, at every place of `train` (two workers), that made a new
attempt. `make simulate DETECT=1` makes this table.

| fault | worlds | EC2 knows | the run hears of it | the next attempt is asked for | most of ours | limit |
|---|---:|---:|---:|---:|---:|---:|
"""


def markdown(rows: Sequence[Row]) -> str:
    """The table for the docs."""
    lines = []
    told: Told | None = None
    for row in rows:
        if row.told is not told:
            told = row.told
            lines.append(f"| **{told}** | | | | | | |")
        limit = f"{row.limit:.0f}" if row.limit else ""
        cells = (
            row.fault,
            row.worlds,
            f"{row.ec2:.1f}",
            f"+{row.seen:.1f}",
            f"+{row.asked:.1f}",
            f"{row.most:.1f}",
            limit,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines.append(
        "\nMedians but for the last two columns; each part is counted from the end of the one before."
    )
    return HEAD + "\n".join(lines) + "\n"
