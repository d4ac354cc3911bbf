"""Invariants of the hours that runs are billed for, and of hosts in the warm pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.aws.ec2.ground_truth import bill
from simulation.hosts.agent.agent import NOT_WIPED
from simulation.invariants.checks import DELETES
from simulation.invariants.model import Invariant

if TYPE_CHECKING:
    from simulation.scenario import Scenario
    from simulation.yard import Yard

BILL_SECONDS, BILL_SHARE = 90.0, 0.03
"""How far a host's bill may differ from EC2's, because patrol checks once a minute."""
WIPE_TIME = timedelta(minutes=10)
"""The time that patrol has to terminate a host after its time in the warm pool: the wipe and two passes."""


def check_bill(yard: Yard, scenario: Scenario, run: str, summary: Mapping[str, Any]) -> str | None:
    """Return a description if the hours of the summary are not EC2's. After the deletion of rows, return None."""
    if any(fault.what in DELETES for fault in yard.plan.faults):
        return None
    if scenario.pool_minutes:
        return None  # hosts have several runs: check_pool checks all of them
    seconds, hosts = yard.hours(run)
    billed = float(summary["cost"]["hours"]) * 3600
    if _are_equal(billed, seconds, hosts):
        return None
    return f"{run} is billed for {billed:.0f} s of hosts, but EC2 has {seconds:.0f} s of {hosts} hosts"


def check_pool(yard: Yard, scenario: Scenario) -> Iterator[tuple[Invariant, str]]:
    """Yield each host that was not wiped between two runs or was in the warm pool too long, and a difference between
    the bills of all runs with the time in the warm pool and EC2's."""
    for entry in yard.world.trace:
        if entry.what == NOT_WIPED:
            yield Invariant.WHOLE_GANG, f"{entry.who} {entry.what}"
    rows, now = yard.host_rows(), yard.world.now
    for row in rows if scenario.pool_minutes else ():
        if too_long := _too_long_in_pool(row, scenario.pool_minutes or 0, now):
            yield Invariant.TRUE_LEDGER, too_long
    if not any("claimed_from" in row or "pooled" in row for row in rows):
        return
    if any(fault.what in DELETES for fault in yard.plan.faults):
        return
    billed = sum(
        _seconds(row, "launched", "ended", now) + _seconds(row, "pooled", "expired", now) for row in rows
    )
    seconds = bill(list(yard.ec2.ever.values()), now, gib_month=0.0).hours * 3600
    if not _are_equal(billed, seconds, len(rows)):
        yield (
            Invariant.TRUE_LEDGER,
            f"all runs are billed for {billed:.0f} s of hosts, but EC2 has {seconds:.0f} s",
        )


def _are_equal(billed: float, seconds: float, hosts: int) -> bool:
    return abs(billed - seconds) <= max(BILL_SECONDS * max(hosts, 1), BILL_SHARE * seconds)


def _seconds(row: Mapping[str, Any], begin: str, end: str, now: datetime) -> float:
    if begin not in row:
        return 0.0
    until = datetime.fromisoformat(row[end]) if end in row else now
    return (until - datetime.fromisoformat(row[begin])).total_seconds()


def _too_long_in_pool(row: Mapping[str, Any], minutes: float, now: datetime) -> str | None:
    """Return a description if a host was in the warm pool for longer than its job allows."""
    if "pooled" not in row:
        return None
    pooled = datetime.fromisoformat(row["pooled"])
    expired = datetime.fromisoformat(row["expired"]) if "expired" in row else now
    if expired - pooled <= timedelta(minutes=minutes) + WIPE_TIME:
        return None
    return f"{row['sk']} was in the warm pool for {expired - pooled}, but its job keeps hosts for {minutes:g} minutes"
