"""Invariants of hosts whose hardware has failed: each is given up once the yard knows, and its pool is tried last."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lambdas.core.capacity.quarantine import LASTS
from simulation.aws.ec2 import Instance
from simulation.hosts.faults import Xid
from simulation.invariants.checks import DELETES
from simulation.invariants.model import Invariant
from trainyard.core.model.errors import ProgramFailed
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.scenario import Scenario
    from simulation.yard import Yard

FAULT = f"fault {Xid.__name__}"
"""The note of a host with this fault in the trace of a world."""
Wrong = Iterator[tuple[Invariant, str]]


def check(yard: Yard, scenario: Scenario) -> Wrong:
    """Yield each faulty host that trains again, and each faulty pool without a quarantine."""
    if any(fault.what in DELETES for fault in yard.plan.all_faults):
        return
    noted = {each["sk"]: each for each in yard.rows("quarantine")}
    for entry in [each for each in yard.world.trace if each.what == FAULT]:
        host = yard.ec2.ever[entry.who]
        shared = _attempts_after(yard, host, entry.at)
        if len(shared) > 1:
            yield (
                Invariant.WHOLE_GANG,
                f"{host.id} reported a fatal error, and took part in {len(shared)} attempts after it",
            )
        failed = [each for each in shared if each.get("ending") == "failed"]
        is_own = scenario.outcome_of(host.tags.get(Tag.RUN, "")) == "failed" and all(
            each["error"] == ProgramFailed.__name__ for each in failed
        )
        is_known = bool(failed) and not is_own
        if is_known and len(yard.plan.all_faults) == 1:
            yield from _check_quarantine(yard, host, noted.get(host.id))


def _attempts_after(yard: Yard, host: Instance, at: datetime) -> list[dict[str, Any]]:
    """Return the rows of the attempts with this host that had not ended at that time."""
    run = host.tags.get(Tag.RUN, "")
    with_it = {number for number, each in yard.clusters(run).items() if each.assignment(host.id)}
    rows = [each for each in yard.rows(f"run#{run}") if each["sk"].startswith("attempt#")]
    return [
        each
        for each in rows
        if int(each["sk"].partition("#")[2]) in with_it
        and ("ended" not in each or datetime.fromisoformat(each["ended"]) > at)
    ]


def _check_quarantine(yard: Yard, host: Instance, row: dict[str, Any] | None) -> Wrong:
    place = host.type, host.zone
    if row is None:
        yield Invariant.TRUE_LEDGER, f"{host.id} ended an attempt by a fatal error, and is not in quarantine"
        return
    at, until = (datetime.fromisoformat(row[each]) for each in ("at", "until"))
    if (row["type"], row["zone"], until - at) != (*place, LASTS):
        yield Invariant.TRUE_LEDGER, f"the quarantine of {host.id}, a {place[0]} in {place[1]}, is {row}"
    for each in yard.ec2.ever.values():
        if each.created > at and (each.type, each.zone) == place and not _joins_others(yard, each, host):
            yield (
                Invariant.WHOLE_GANG,
                f"{each.id} was launched in the pool of {host.id}, which has a fatal error",
            )


def _joins_others(yard: Yard, host: Instance, faulty: Instance) -> bool:
    """Return True if other hosts of its run remained when it was launched. A gang is in one pool."""
    return any(
        each is not faulty
        and each.created < host.created
        and (each.ended is None or each.ended > host.created)
        for each in yard.ec2.find_tagged(Tag.RUN, host.tags.get(Tag.RUN, ""))
    )
