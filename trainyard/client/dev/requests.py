"""Requests about a dev host: an event in the user's name starts a run, which is followed to its end."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from boto3.dynamodb.conditions import Key
from botocore.exceptions import ClientError

from trainyard.client import people
from trainyard.client.deployment import Deployment
from trainyard.client.identity import caller_name
from trainyard.client.run import Run
from trainyard.core.model import dev
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.yard import DevImaging, DevRow
from trainyard.protocol.requests import DevHost

OnStep = Callable[[str], None]
"""Called with a sentence for each step."""
LOOK_SECONDS = 1.0
IMAGING = "dev-imaging"
"""The partition key of the ledger's rows of snapshots of dev hosts (docs/contracts/ledger.md)."""
WORKFLOWS = {dev.UP: "dev-host", dev.IMAGE: "snapshot"}


def begin(yard: Deployment, name: str, want: str, asked: Mapping[str, Any] | None = None) -> Run:
    """Request the dev host `up`, or an `image` of it, and return the run. Raise NotTaken or RunNotStarted."""
    run = f"{dev.family(name)}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    people.send_request(yard, DevHost(run=run, name=name, want=want, request=dict(asked or {})))
    return _run(yard, want, run).wait_for_start(function="signal")


def find_launch(yard: Deployment, name: str) -> Run | None:
    """Return the running launch of the user's own dev host of this name, if there is one."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    item = table.get_item(Key={"pk": dev.WORD, "sk": name}, ConsistentRead=True).get("Item")
    row = reading.read(DevRow, item, name=name) if item else None
    if row is None or row.owner != caller_name(yard.session):
        return None
    run = _run(yard, dev.UP, row.run)
    return None if _is_over(run) else run


def find_snapshot(yard: Deployment, instance: str) -> Run | None:
    """Return the running snapshot of the dev host, which its owner or patrol requested and which ends the host."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    rows = table.query(KeyConditionExpression=Key("pk").eq(IMAGING), ConsistentRead=True)["Items"]
    found = (reading.read(DevImaging, row, run=str(row["sk"])) for row in rows)
    made_by = (_run(yard, dev.IMAGE, row.run) for row in found if row.instance == instance)
    return next((run for run in made_by if not _is_over(run)), None)


def _is_over(run: Run) -> bool:
    """Return True if the run has ended, or was never started."""
    try:
        return run.execution.is_over
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
            raise
        return True


def _run(yard: Deployment, want: str, run: str) -> Run:
    machine = yard.workflows[WORKFLOWS[want]]
    return Run(yard, f"{machine.replace(':stateMachine:', ':execution:')}:{run}")


def once(on_step: OnStep) -> OnStep:
    """Return a function that leaves out repetitions of the last step."""
    last = ""

    def told(step: str) -> None:
        nonlocal last
        if step != last:
            on_step(step)
        last = step

    return told


def follow(run: Run, on_step: OnStep) -> dict[str, Any]:
    """Report each event of the run until it ends, and return its summary. Raise RunRefused, or RunFailed with the run's
    reason."""
    told = 0
    while True:
        over = run.execution.is_over
        events = run.timeline
        for event in events[told:]:
            on_step(event.reason or event.event)
        told = len(events)
        if over:
            return run.result()
        time.sleep(LOOK_SECONDS)
