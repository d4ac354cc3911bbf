"""Outages of a service before a program starts or after it has ended only delay the attempt."""

from collections.abc import Callable

import pytest
from botocore.config import Config

from tests.contract.agent.host import Yard
from training.host import orders
from trainyard.protocol.orders import Order, OrderKind

OUTAGE_SECONDS = 6.0
ONCE = Config(connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": 1})
"""Client settings without botocore's retries, which would outlast a short outage."""
PROGRAM = """
import os, pathlib, time
model = pathlib.Path(os.environ["TRAINYARD_MODEL"])
model.mkdir(parents=True, exist_ok=True)
(model / "weights").write_text("w")
while not pathlib.Path({go!r}).exists():
    time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def impatient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.host.agent.agent.CALLS", ONCE)
    monkeypatch.setattr("training.host.agent.retries.LONGEST_PAUSE_SECONDS", 1.0)


def fetching(yard: Yard, down: Callable[[], None]) -> None:
    down()
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    end(yard)


def starting(yard: Yard, down: Callable[[], None]) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, ways=())
    down()
    orders.give(Order(OrderKind.START, yard.run, 1), yard.paths)
    yard.hear("started")
    end(yard)


def ending(yard: Yard, down: Callable[[], None]) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("started")
    down()
    end(yard)


def end(yard: Yard) -> None:
    (yard.root / "go").touch()


OUTAGES = [
    # service, phase of the outage
    ("s3", fetching),
    ("s3", starting),
    ("ssm", starting),
    ("s3", ending),
    ("events", ending),
]


@pytest.mark.parametrize(
    ("service", "phase"), OUTAGES, ids=[f"{service}-{phase.__name__}" for service, phase in OUTAGES]
)
def test_an_outage_costs_time_and_no_attempt(
    yard: Yard, service: str, phase: Callable[[Yard, Callable[[], None]], None]
) -> None:
    secrets = {"secrets": {"KEY": "key"}} if service == "ssm" else {}
    yard.cloud.client("ssm").put_parameter(
        Name=f"/{yard.name}/secrets/key", Value="a-secret-value", Type="SecureString", Overwrite=True
    )
    yard.prepare(
        PROGRAM.format(go=str(yard.root / "go")),
        program={"source": f"s3://{yard.bucket}/programs/p.tar.gz", "module": "mine", "args": {}, **secrets},
    )
    fault = {"action": f"{service}:*", "seconds": OUTAGE_SECONDS, "code": "ServiceUnavailable"}
    try:
        phase(yard, lambda: yard.cloud.admin("POST", "/faults/throttle", fault) and None)
        yard.hear("finished")
    finally:
        yard.cloud.admin("POST", "/faults/clear", {})
    assert not [each for each in yard.heard if each["detail-type"] in ("failed", "stopped")]
    assert f"runs/{yard.run}/model/weights" in yard.keys(f"runs/{yard.run}/model/")


def test_a_run_that_is_stopped_in_an_outage_has_been_stopped(yard: Yard) -> None:
    yard.prepare(PROGRAM.format(go=str(yard.root / "go")))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, ways=())
    fault = {"action": "s3:*", "seconds": 3600, "code": "ServiceUnavailable"}
    try:
        yard.cloud.admin("POST", "/faults/throttle", fault)
        orders.give(Order(OrderKind.START, yard.run, 1), yard.paths)
        orders.give(Order(OrderKind.STOP, yard.run, 1), yard.paths)
        assert yard.hear("stopped")["why"] == "asked"
    finally:
        yard.cloud.admin("POST", "/faults/clear", {})
    assert not [each for each in yard.heard if each["detail-type"] == "failed"]
