"""Hosts whose hardware has failed, and their capacity pools, which are tried last for a day. Pure.

A terminated instance never comes back, but EC2 may place the next instance on the same machine. Therefore pools of its
type and zone have fewer chances. They are not refused, because a run without another pool would wait for nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.ledger.yard import QuarantineRow
from trainyard.protocol.plan import Candidate

LASTS = timedelta(days=1)
Place = tuple[str, str]
"""An instance type and a zone."""


def make_row(host: BilledHost, run: str, fault: str, now: datetime) -> QuarantineRow:
    return QuarantineRow(
        instance=host.instance,
        type=host.type,
        zone=host.zone,
        run=run,
        reason=fault,
        at=now,
        until=now + LASTS,
    )


def describe(row: QuarantineRow) -> str:
    """Return the sentence of the timeline."""
    return (
        f"{row.instance} is terminated and not used again: {row.reason}; {row.type} in {row.zone} is tried last until "
        f"{row.until:%Y-%m-%d %H:%M} UTC"
    )


def sort_last(
    candidates: Sequence[Candidate], rows: Iterable[QuarantineRow], now: datetime
) -> tuple[tuple[Candidate, ...], str]:
    """Return the candidates, quarantined pools last and otherwise in the same order, and a sentence about them; empty
    without such a pool."""
    live = _live(rows, now)
    hit = [row for place, row in sorted(live.items()) if place in {_place(each) for each in candidates}]
    ordered = tuple(sorted(candidates, key=lambda each: _place(each) in live))
    said = "; ".join(f"{row.type} in {row.zone} is tried last ({row.instance}: {row.reason})" for row in hit)
    return ordered, f" {said}." if said else ""


def find_indexes(
    candidates: Sequence[Candidate], rows: Iterable[QuarantineRow], now: datetime
) -> tuple[int, ...]:
    """Return the candidates in quarantined pools. A run may plan long before it launches, and a host of another run
    may fail meanwhile."""
    live = _live(rows, now)
    return tuple(number for number, each in enumerate(candidates) if _place(each) in live)


def _live(rows: Iterable[QuarantineRow], now: datetime) -> Mapping[Place, QuarantineRow]:
    return {(row.type, row.zone): row for row in rows if row.until > now}


def _place(candidate: Candidate) -> Place:
    return candidate.type, candidate.zone
