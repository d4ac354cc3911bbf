"""Measure the time from a loss to the launch request of the next attempt, and how much of it EC2 took."""

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
    """How a loss can be detected."""

    BY_AWS = "AWS reports it"
    BY_NOBODY = "nothing reports it"
    BOOTING = "the host was not ready yet"
    PROGRAMS = "programs hang, hosts are healthy"
    OTHER = "other"


LIMITS = {Told.BY_AWS: 30.0, Told.BY_NOBODY: 180.0}
"""Seconds from the loss to the request. A booting host and a silent program have their own, longer limits."""
TRAINING = ("train", "servers")
"""The scenarios with limits. Bakes and dev hosts have longer timeouts."""
IN_TIME = "a loss is seen in time"
"""The invariant that a late world breaks. Only worlds with one fault are measured."""
EC2_KNOWS = ("host failed", "host reclaimed", "takes a spot host back")
FAULT = "meets a fault: "


@dataclass(frozen=True)
class Detection:
    """The measured times of one fault that led to a new attempt, in virtual seconds since the fault."""

    fault: Fault
    ec2: float
    """Until EC2 itself noticed the loss; 0 if it did not, or did not have to."""
    seen: float
    """Until the workflow noticed the loss."""
    asked: float
    """Until the next attempt was requested: by CreateFleet, or by starting on the remaining hosts."""
    booting: bool = False
    """True if the host had not been ready yet."""

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
            f"the next attempt was requested {self.asked - self.ec2:.0f} s after {self.fault} ({self.told}): "
            f"the limit is {LIMITS[self.told]:.0f} s"
        )


def detected(fault: Fault, trace: Sequence[Entry]) -> Detection | None:
    """Return the detection of a fault; None if the fault hit no host or event, or led to no new attempt."""
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
    """Return True if the entry starts the next attempt, on new hosts or on the remaining ones."""
    return (entry.who, entry.what) == ("ec2", "fleet") or entry.what in ("enters AwaitHosts", "enters Await")


def _since(struck: Entry, when: datetime) -> float:
    return (when - struck.at).total_seconds()


def _first(entries: Iterable[Entry], fits: Callable[[Entry], bool]) -> Entry | None:
    return next((entry for entry in entries if fits(entry)), None)


@dataclass(frozen=True)
class Row:
    """All detections of one fault. Times are medians in seconds."""

    told: Told
    fault: str
    worlds: int
    ec2: float
    seen: float
    asked: float
    most: float
    """The longest time without the part of EC2. The limit applies to it."""
    worst: Fault
    limit: float | None

    @property
    def held(self) -> bool:
        return self.limit is None or self.most <= self.limit


def table(detections: Iterable[Detection]) -> list[Row]:
    """Return one row for each fault."""
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

Virtual seconds of every fault of a host or an event at every fault point of `train` (two workers) that led to a new
attempt. `make simulate DETECT=1` writes this table.

| fault | worlds | EC2 notices | the run notices | next attempt requested | longest without EC2 | limit |
|---|---:|---:|---:|---:|---:|---:|
"""


def markdown(rows: Sequence[Row]) -> str:
    """Return the table as Markdown, for the docs."""
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
    lines.append("\nMedians, except in the last two columns. Each part begins at the end of the part before.")
    return HEAD + "\n".join(lines) + "\n"
