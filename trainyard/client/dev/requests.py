"""What is asked of the yard about a dev host, by an event in one's own name, and followed to its end."""

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
from trainyard.client.errors import RunNotStarted
from trainyard.client.identity import known_as
from trainyard.client.run import Run
from trainyard.core.model import dev
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.yard import DevImaging, DevRow
from trainyard.protocol.requests import DevHost

Tell = Callable[[str], None]
"""Of each step, in a sentence."""
LOOK_SECONDS = 1.0
IMAGING = "dev-imaging"
"""The key of the ledger's rows of snapshots that may image a dev host (docs/contracts/ledger.md)."""
WORKFLOWS = {dev.UP: "dev-host", dev.IMAGE: "snapshot"}


def begin(yard: Deployment, name: str, want: str, asked: Mapping[str, Any] | None = None) -> Run:
    """Ask for the dev host `up`, or as an `image`; answers the run that sees to it. Raises NotTaken, RunNotStarted."""
    run = f"{dev.family(name)}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    people.ask(yard, DevHost(run=run, name=name, want=want, asked=dict(asked or {})))
    try:
        return _run(yard, want, run).started()
    except RunNotStarted as late:
        raise RunNotStarted(
            late.what,
            "the function signal has not heard of the event, or has failed",
            f"aws logs tail /{yard.name.lower()}/functions/signal",
        ) from late


def under_way(yard: Deployment, name: str) -> Run | None:
    """The launch of one's own dev host of that name, where it is not over."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    item = table.get_item(Key={"pk": dev.WORD, "sk": name}, ConsistentRead=True).get("Item")
    row = reading.read(DevRow, item, name=name) if item else None
    if row is None or row.owner != known_as(yard.session):
        return None
    run = _run(yard, dev.UP, row.run)
    return None if _is_over(run) else run


def imaging(yard: Deployment, instance: str) -> Run | None:
    """The snapshot that makes an image of the dev host now, as its owner or patrol has asked, after which that ends."""
    table = yard.session.resource("dynamodb").Table(yard.table)
    rows = table.query(KeyConditionExpression=Key("pk").eq(IMAGING), ConsistentRead=True)["Items"]
    found = (reading.read(DevImaging, row, run=str(row["sk"])) for row in rows)
    made_by = (_run(yard, dev.IMAGE, row.run) for row in found if row.instance == instance)
    return next((run for run in made_by if not _is_over(run)), None)


def _is_over(run: Run) -> bool:
    """One that was never started is over, too."""
    try:
        return run.execution.is_over
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
            raise
        return True


def _run(yard: Deployment, want: str, run: str) -> Run:
    machine = yard.workflows[WORKFLOWS[want]]
    return Run(yard, f"{machine.replace(':stateMachine:', ':execution:')}:{run}")


def once(tell: Tell) -> Tell:
    """Without what was told just before."""
    last = ""

    def told(step: str) -> None:
        nonlocal last
        if step != last:
            tell(step)
        last = step

    return told


def follow(run: Run, tell: Tell) -> dict[str, Any]:
    """Tell what happens to it until it is over; its summary. Raises RunRefused, RunFailed with its own reason."""
    told = 0
    while True:
        over = run.execution.is_over
        events = run.timeline
        for event in events[told:]:
            tell(event.reason or event.event)
        told = len(events)
        if over:
            return run.result()
        time.sleep(LOOK_SECONDS)
