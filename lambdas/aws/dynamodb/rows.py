"""Writes of the ledger's rows (docs/contracts/ledger.md). The rows' classes are in trainyard/protocol/ledger."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from lambdas.aws.dynamodb.write import Write
from lambdas.core.run import AttemptUpdate, HostUpdate, LaunchRequestUpdate, RunUpdate
from lambdas.core.run.warm_host import WarmHost
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.attempt import TokenRow, WaitRow
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.ledger.lookup import Owner
from trainyard.protocol.ledger.yard import QuarantineRow
from trainyard.protocol.plan import Plan
from trainyard.protocol.timeline import Entry
from trainyard.values import serialization

LOOK_UPS_LIVE = timedelta(days=90)
PRICES = ("patrol", "prices")
"""The key of the region's price list."""
OPEN = "open"
"""The partition key of the rows of open runs, from Admit to Conclude."""
HELD = "held#"
"""The prefix of the sort key of a claim of a dev host that may still run."""
SLOTS = ("counters", "slots")
"""The key of the number of slots given so far."""
POOL = "pool"
"""The partition key of the hosts in the warm pool."""
POOL_ENTRIES = ("counters", "pool")
"""The key of the number of times that hosts entered the warm pool."""
DEV = "dev"
"""The partition key of the names of dev hosts."""
DEV_IMAGING = "dev-imaging"
"""The partition key of the snapshots that may image a dev host."""
IMAGING_LIVES = timedelta(days=1)
QUARANTINE = "quarantine"
"""The partition key of hosts whose hardware has failed."""
ResourceKind = Literal["instance", "image", "command"]
"""The kind of resource of a look-up row."""


def run_row(
    run: str,
    values: RunUpdate,
    *,
    unless: Literal["created", "cut_short", "stopping", "ended", "notified"] | None = None,
    only: Literal["created"] | None = None,
    rising: tuple[tuple[str, Any], ...] = (),
    waits: bool = True,
    grows: bool = True,
    add: Mapping[str, float] | None = None,
) -> Write:
    """Write values of the run's row. Without `waits`, remove the wait; without `grows`, remove the wait for more hosts.
    `add` adds dollars."""
    gone = (*(() if waits else ("waiting",)), *(() if grows else ("grows",)))
    return Write(
        f"run#{run}",
        "run",
        values,
        unless=unless,
        only=only,
        rising=rising,
        stage="state" in values,
        without=gone,
        add=add or {},
    )


def open_row(run: str, kind: str, execution_arn: str, claim: Claim | None = None) -> Write:
    """Mark the run as open, so that open runs can be listed without reading all runs. A training run includes its
    claim."""
    claimed = (
        {}
        if claim is None
        else {name: value for name, value in serialization.to_json(claim).items() if name != "run"}
    )
    return Write(OPEN, run, {"kind": kind, "execution_arn": execution_arn, **claimed}, put=True)


def leaving_row(run: str, leaves_for: str) -> Write:
    """Mark the claim of a run that leaves for another run. Raises AlreadyWrittenError if the run is not open."""
    return Write(OPEN, run, {"leaves_for": leaves_for}, only="hosts")


def held_row(claim: Claim) -> Write:
    """Write the claim of a dev host. It outlives its run; patrol deletes it once the host no longer runs."""
    known = {
        name: value
        for name, value in serialization.to_json(claim).items()
        if name != "run" and value is not None
    }
    return Write(OPEN, HELD + claim.run, known, put=True)


def no_held_row(run: str) -> Write:
    return Write(OPEN, HELD + run, delete=True)


def claim_of(row: Mapping[str, Any]) -> Claim | None:
    """Return the claim of an open run or a dev host; None for a run that needs no slot."""
    run = str(row["sk"]).removeprefix(HELD)
    return serialization.from_json(Claim, {**row, "run": run}) if "hosts" in row else None


def slot_given(before: int) -> Write:
    """Count one more slot. Raises AlreadyWrittenError if another slot was given after `before` was read."""
    return _next_number(SLOTS, before)


def _next_number(key: tuple[str, str], before: int) -> Write:
    if before == 0:
        return Write(*key, {"number": 1}, unless="number")
    return Write(*key, {"number": before + 1}, same=("number", before))


def no_open_row(run: str) -> Write:
    return Write(OPEN, run, delete=True)


def no_run_row(run: str) -> Write:
    """Check that the ledger has no run, and delete what late updates have left of its row."""
    return Write(f"run#{run}", "run", delete=True, unless="created")


def plan_row(run: str, plan: Plan) -> Write:
    """Return the write of a run's plan, which never changes: launch requests name its candidates by their numbers. The
    write raises AlreadyWrittenError if the run has a plan."""
    return Write(f"run#{run}", "plan", serialization.to_json(plan), put=True, unless="pk")


def launch_request_row(
    run: str,
    attempt: int,
    candidate: int,
    round_: int,
    values: LaunchRequestUpdate,
    *,
    unless: Literal["token"] | None = None,
) -> Write:
    return Write(
        f"run#{run}", f"launch-request#{attempt:04d}#{candidate:03d}#{round_:03d}", values, unless=unless
    )


def launch_request_counted(run: str, attempt: int, before: int) -> Write:
    """Count one more launch request of an attempt. Raises AlreadyWrittenError if another was counted after `before` was
    read."""
    return _next_number((f"run#{run}", f"launch-requests#{attempt:04d}"), before)


def attempt_row(
    run: str,
    attempt: int,
    values: AttemptUpdate,
    *,
    unless: Literal[
        "ending",
        "gang_ready",
        "started",
        "resumed",
        "ordered_to_leave",
        "ordered_to_stop",
        "capped",
        "growing",
        "preempted",
    ]
    | None = None,
    rising: tuple[tuple[str, Any], ...] = (),
    write_once: frozenset[str] = frozenset(),
) -> Write:
    return Write(
        f"run#{run}", f"attempt#{attempt:04d}", values, unless=unless, rising=rising, write_once=write_once
    )


def pooled_rows(hosts: Iterable[WarmHost], before: int) -> list[Write]:
    """Move these hosts of a run to the warm pool. Raises AlreadyWrittenError if other hosts entered it after `before`
    was read, or if one of these is in it."""
    writes = [_next_number(POOL_ENTRIES, before)]
    for host in hosts:
        known = {name: value for name, value in serialization.to_json(host).items() if value is not None}
        del known["instance"]
        writes.append(Write(POOL, host.instance, known, unless="run"))
        writes.append(host_row(host.run, host.instance, {"pooled": host.since, "ended": host.since}))
    return writes


def wiped_row(instance: str, ready: datetime, until: datetime) -> Write:
    """Make a wiped host available. Raises AlreadyWrittenError if it left the warm pool or is available already."""
    return Write(POOL, instance, {"ready": ready, "until": until}, only="run", unless="ready")


def pool_exit_rows(hosts: Iterable[WarmHost], at: datetime) -> list[Write]:
    """Remove these hosts from the warm pool and bill their time to their runs. Raises AlreadyWrittenError if one of
    them left before."""
    writes: list[Write] = []
    dollars: dict[str, float] = {}
    for host in hosts:
        writes.append(Write(POOL, host.instance, only="run", delete=True))
        writes.append(host_row(host.run, host.instance, {"expired": at}))
        dollars[host.run] = round(dollars.get(host.run, 0.0) + host.dollars(at), 5)
    for run, more in dollars.items():
        added = {"dollars": more, "pool_dollars": more}
        writes.append(Write(f"run#{run}", "run", only="created", add=added))
    return writes


def delete_warm_row(instance: str) -> Write:
    """Remove a host of a deleted run from the warm pool."""
    return Write(POOL, instance, delete=True)


def launched_row(
    run: str,
    host: BilledHost,
    *,
    attempt: int,
    gang: Gang,
    claimed_from: str | None = None,
    releasing: datetime | None = None,
) -> Write:
    """Write the row of a launched host. `claimed_from` is the run that retained the host in the warm pool before;
    `releasing` marks a host that ends as soon as it is recorded.

    The first write sets the time of the launch. A second call of Launch does not move the start of the bill."""
    values = serialization.to_json(host) | {"attempt": attempt, "gang": gang, "claimed_from": claimed_from}
    if releasing:
        values["releasing"] = releasing
    del values["instance"]
    return Write(f"run#{run}", f"host#{host.instance}", values, write_once=frozenset({"launched"}))


def host_row(
    run: str, instance: str, values: HostUpdate, *, rising: tuple[tuple[str, Any], ...] = ()
) -> Write:
    """Write values of a host. Raises AlreadyWrittenError if this run has not launched the host."""
    return Write(f"run#{run}", f"host#{instance}", values, only="launched", rising=rising)


def token_row(run: str, attempt: int, wait: str, task_token: str, now: datetime) -> Write:
    """Store the task token of a new wait as unanswered. Raises AlreadyWrittenError if it is stored: AWS called the
    function twice, and the other call may have answered it."""
    return Write(
        f"run#{run}",
        f"token#{attempt:04d}#{wait}",
        {"token": task_token, "stored": now},
        without=("answered",),
        other=("token", task_token),
    )


def wait_row(run: str, row: WaitRow) -> Write:
    """Record the command or image of the wait after the request for it."""
    values = {"since": row.since, "command": row.command, "image": row.image}
    known = {name: value for name, value in values.items() if value is not None}
    return Write(f"run#{run}", f"wait#{row.attempt:04d}#{row.wait}", known, put=True)


def answered_row(run: str, token: TokenRow, now: datetime) -> Write:
    return Write(f"run#{run}", f"token#{token.attempt:04d}#{token.wait}", {"answered": now}, only="token")


def event_row(run: str, entry: Entry) -> Write:
    return Write(f"timeline#{run}", entry.key, serialization.to_json(entry), put=True)


def quarantine_row(row: QuarantineRow) -> Write:
    """Record a host whose hardware has failed. DynamoDB deletes the row after the end of the quarantine."""
    known = {name: value for name, value in serialization.to_json(row).items() if name != "instance"}
    return Write(QUARANTINE, row.instance, known | {"expires": int(row.until.timestamp())}, put=True)


def look_up_row(kind: ResourceKind, name: str, owner: Owner, now: datetime) -> Write:
    """Record the run that owns the resource."""
    expires = int((now + LOOK_UPS_LIVE).timestamp())
    known = {name: value for name, value in serialization.to_json(owner).items() if value is not None}
    return Write(f"{kind}#{name}", "run", known | {"expires": expires}, put=True)


def dev_imaging_row(run: str, instance: str, now: datetime) -> Write:
    """Allow the snapshot of this name to image a dev host."""
    expires = int((now + IMAGING_LIVES).timestamp())
    return Write(DEV_IMAGING, run, {"instance": instance, "at": now, "expires": expires}, put=True)
