"""What the client has read of a run, as its tests and the demo's take it for given."""

from datetime import UTC, datetime

from trainyard.client import Host

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
