"""Measure the time from a loss to the launch request of the next attempt, and how much of it EC2 took."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from simulation.faults import BootFault, Fault, HostFault, Kind
from simulation.world.world import Entry

REPORTED_FAULTS = frozenset(
    map(str, (HostFault.DIES, HostFault.WARNED_120, HostFault.WARNED_30, HostFault.WARNED_0))
)
UNREPORTED_FAULTS = frozenset(map(str, (HostFault.HANGS, HostFault.IS_CUT_OFF)))
BOOTS = frozenset(map(str, BootFault))


class Visibility(StrEnum):
    """How a loss can be detected."""

    REPORTED = "AWS reports it"
    UNREPORTED = "nothing reports it"
    BOOTING = "the host was not ready yet"
    PROGRAMS = "programs hang, hosts are healthy"
    OTHER = "other"


LIMITS = {Visibility.REPORTED: 30.0, Visibility.UNREPORTED: 180.0}
"""Seconds from the loss to the request. A booting host and a silent program have their own, longer limits."""
TRAINING = ("train", "servers")
"""The scenarios with limits. Bakes and dev hosts have longer timeouts."""
DETECTED_IN_TIME = "a loss is seen in time"
"""The invariant that a late world breaks. Only worlds with one fault are measured."""
EC2_ENTRIES = ("host failed", "host reclaimed", "takes a spot host back")
FAULT = "fault: "


@dataclass(frozen=True)
class Detection:
    """The measured times of one fault that led to a new attempt, in virtual seconds since the fault."""

    fault: Fault
    ec2: float
    """Until EC2 itself noticed the loss; 0 if it did not, or did not have to."""
    noticed: float
    """Until the workflow noticed the loss."""
    requested: float
    """Until the next attempt was requested: by CreateFleet, or by starting on the remaining hosts."""
    booting: bool = False
    """True if the host had not been ready yet."""

    @property
    def visibility(self) -> Visibility:
        what = self.fault.what
        if what in REPORTED_FAULTS:
            return Visibility.REPORTED
        if what in BOOTS or (self.booting and what in UNREPORTED_FAULTS):
            return Visibility.BOOTING
        if what in UNREPORTED_FAULTS:
            return Visibility.UNREPORTED
        return Visibility.PROGRAMS if what == HostFault.GANG_HANGS else Visibility.OTHER

    @property
    def late(self) -> bool:
        return self.requested - self.ec2 > LIMITS.get(self.visibility, float("inf"))

    @property
    def describe_delay(self) -> str:
        return (
            f"the next attempt was requested {self.requested - self.ec2:.0f} s after {self.fault} ({self.visibility}): "
            f"the limit is {LIMITS[self.visibility]:.0f} s"
        )


def measure_detection(fault: Fault, trace: Sequence[Entry]) -> Detection | None:
    """Return the detection of a fault; None if the fault hit no host or event, or led to no new attempt."""
    if fault.kind not in (Kind.HOST, Kind.EVENT):
        return None
    injection = _first(trace, lambda entry: _is_injection(fault, entry))
    if injection is None:
        return None
    before, after = trace[: trace.index(injection)], trace[trace.index(injection) + 1 :]
    known = _first(after, lambda entry: entry.who == "ec2" and entry.what in EC2_ENTRIES)
    recovers = _first(after, lambda entry: entry.what == "enters Recover")
    if recovers is None:
        return None
    following = after[after.index(recovers) :]
    caught = [entry.at for entry in after if entry.what.startswith("catches ") and entry.at <= recovers.at]
    requested = _first(following, _starts_attempt)
    if requested is None:
        return None
    noticed = caught[-1] if caught else recovers.at
    ec2 = _since(injection, min(known.at, noticed)) if known else 0.0
    booting = not any((entry.who, entry.what) == (injection.who, "sends ready") for entry in before)
    return Detection(fault, ec2, _since(injection, noticed), _since(injection, requested.at), booting)


def _is_injection(fault: Fault, entry: Entry) -> bool:
    return entry.what == FAULT + fault.what and entry.details.get("point") == fault.point


def _starts_attempt(entry: Entry) -> bool:
    """Return True if the entry starts the next attempt, on new hosts or on the remaining ones."""
    return (entry.who, entry.what) == ("ec2", "fleet") or entry.what in ("enters AwaitHosts", "enters Await")


def _since(injection: Entry, when: datetime) -> float:
    return (when - injection.at).total_seconds()


def _first(entries: Iterable[Entry], fits: Callable[[Entry], bool]) -> Entry | None:
    return next((entry for entry in entries if fits(entry)), None)


@dataclass(frozen=True)
class Row:
    """All detections of one fault. Times are medians in seconds."""

    visibility: Visibility
    fault: str
    worlds: int
    ec2: float
    noticed: float
    requested: float
    most: float
    """The longest time without the part of EC2. The limit applies to it."""
    worst: Fault
    limit: float | None

    @property
    def held(self) -> bool:
        return self.limit is None or self.most <= self.limit


def table(detections: Iterable[Detection]) -> list[Row]:
    """Return one row for each fault."""
    by_fault: dict[tuple[Visibility, str], list[Detection]] = {}
    for each in detections:
        by_fault.setdefault((each.visibility, each.fault.what), []).append(each)
    rows = [_row(visibility, what, found) for (visibility, what), found in by_fault.items()]
    return sorted(rows, key=lambda row: (list(Visibility).index(row.visibility), row.fault))


def _row(visibility: Visibility, what: str, found: Sequence[Detection]) -> Row:
    worst = max(found, key=lambda each: each.requested - each.ec2)
    return Row(
        visibility,
        what,
        len(found),
        statistics.median(each.ec2 for each in found),
        statistics.median(each.noticed - each.ec2 for each in found),
        statistics.median(each.requested - each.noticed for each in found),
        worst.requested - worst.ec2,
        worst.fault,
        LIMITS.get(visibility),
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
    visibility: Visibility | None = None
    for row in rows:
        if row.visibility is not visibility:
            visibility = row.visibility
            lines.append(f"| **{visibility}** | | | | | | |")
        limit = f"{row.limit:.0f}" if row.limit else ""
        cells = (
            row.fault,
            row.worlds,
            f"{row.ec2:.1f}",
            f"+{row.noticed:.1f}",
            f"+{row.requested:.1f}",
            f"{row.most:.1f}",
            limit,
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines.append("\nMedians, except in the last two columns. Each part begins at the end of the part before.")
    return HEAD + "\n".join(lines) + "\n"
