"""Launch of another attempt, and the hosts that were kept for it."""

from datetime import timedelta

import pytest

from lambdas import environment
from lambdas.aws.ec2 import fleet
from lambdas.workflows.train import launch
from lambdas.workflows.train.launch.request import LaunchSettings
from tests.support.recorded import CONTEXT
from tests.support.records import AT
from tests.unit.core.builders import NOON, candidate
from tests.unit.workflows.conftest import Place
from trainyard.protocol.plan import Plan
from trainyard.values import serialization

YARD = LaunchSettings(
    yard="trainyard", table_name="ledger", bucket_name="bucket", launch_templates=("0=lt-0:1",)
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
