"""A host, a yard and a run's row for tests of the client and of the demo."""

from datetime import UTC, datetime
from typing import Any

from trainyard import __version__
from trainyard.client import Host, Session, Yard
from trainyard.client.bucket import Bucket
from trainyard.protocol.ledger.run import RunRow
from trainyard.values import serialization

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
HOST = Host(
    instance="i-1",
    attempt=1,
    role="",
    type="g6.xlarge",
    zone="us-east-1a",
    market="spot",
    address="",
    price=0.36,
    on_demand_price=0.8,
    launched=NOON,
    ended=None,
    state="running",
)
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:trainyard-train"


def yard_of(session: Session) -> Yard:
    return Yard(
        session=session,
        name="Trainyard",
        version=__version__,
        account="123456789012",
        bucket=Bucket(session, "trainyard-bucket"),
        table="table",
        bus="trainyard",
        recipe="images/gpu.yaml",
        workflows={"train": MACHINE},
        dashboard="trainyard",
        software="1",
        monthly_dollars=1000.0,
        topic="arn:aws:sns:us-east-1:123456789012:trainyard-notices",
        policies={},
    )


def row_of(**values: Any) -> RunRow:
    """Return the ledger's row of a run with these values."""
    usual = {
        "run": "digits-1",
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": NOON,
        "execution_arn": "arn",
    }
    return serialization.from_json(RunRow, usual | values)
