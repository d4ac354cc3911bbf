"""Launch of another attempt, and the hosts that were kept for it."""

from datetime import timedelta

import pytest

from lambdas import environment
from lambdas.aws.dynamodb.write import Write
from lambdas.aws.ec2 import fleet
from lambdas.core.run.warm_host import WarmHost
from lambdas.workflows.train import launch
from lambdas.workflows.train.launch.request import LaunchSettings
from tests.support.recorded import CONTEXT
from tests.support.records import AT
from tests.unit.core.builders import NOON, candidate
from tests.unit.workflows.conftest import TOPIC, Place
from trainyard.protocol.plan import Market, Plan
from trainyard.values import serialization

YARD = LaunchSettings(
    yard="trainyard",
    table_name="ledger",
    bucket_name="bucket",
    topic_arn=TOPIC,
    launch_templates=("0=lt-0:1",),
)


def test_a_kept_host_that_ec2_takes_back_ends_before_its_gang_is_made_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    place.row(
        "plan",
        serialization.to_json(
            Plan((candidate("g6.xlarge", "us-east-1a"),), (), "ami-1", 2, 99.0, NOON, "", 0)
        ),
    )
    place.row("run", {"state": "Launch", "deadline": serialization.timestamp(NOON + timedelta(hours=2))})
    place.row(f"host#{place.worker}", {"warned": AT})
    monkeypatch.setattr(environment, "read", lambda _: YARD)
    monkeypatch.setattr(launch, "clock", lambda: NOON)
    monkeypatch.setattr(fleet, "launch", lambda *given, **_: asked.append(given))
    said = launch.handler({"run": "digits-1", "attempt": 2}, CONTEXT)
    assert (said["kind"], said["keep"], asked) == ("retire", "remaining", [])
    assert (
        said["reason"]
        == f"hosts that were kept for this attempt are ending ({place.worker}: EC2 takes it back)"
    )


def test_a_trial_waits_for_hosts_of_its_study_that_are_being_wiped(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    plan = Plan((candidate("g6.xlarge", "us-east-1a"),), (), "ami-1", 2, 99.0, NOON, "", 0)
    place.row("plan", serialization.to_json(plan))
    trial = {"study": "digits-0a1b2c3d", "number": 2, "submitter": "ada"}
    soon = serialization.timestamp(NOON + timedelta(hours=2))
    place.row("run", {"state": "Launch", "deadline": soon, "trial": trial})
    for number, name in enumerate(place.hosts):
        place.row(f"host#{name}", {"ended": AT})
        wiping = WarmHost(
            instance=f"i-{number}",
            run="digits-0a1b2c3d-0001-trial",
            study="digits-0a1b2c3d",
            type="g6.xlarge",
            zone="us-east-1a",
            market=Market.SPOT,
            image="ami-1",
            price=0.3,
            disk_gib=0,
            gib_month=0.08,
            since=NOON - timedelta(seconds=5),
            until=NOON + timedelta(minutes=5),
            minutes=3,
        )
        row = {name: value for name, value in serialization.to_json(wiping).items() if value is not None}
        place.ledger.write(Write("pool", wiping.instance, row))
    monkeypatch.setattr(environment, "read", lambda _: YARD)
    monkeypatch.setattr(launch, "clock", lambda: NOON)
    monkeypatch.setattr(fleet, "launch", lambda *given, **_: asked.append(given))
    said = launch.handler({"run": "digits-1", "attempt": 2}, CONTEXT)
    assert (said["kind"], said["seconds"], asked) == ("wait", 2, [])
    assert said["reason"] == "hosts of digits-0a1b2c3d are being wiped for its next trial"
