"""A hold requested by a host, from the event to the tag: the signal function under its own permissions."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws import clients, cloudwatch
from lambdas.aws.cloudwatch import GPUS
from lambdas.steps.signals.context import SignalSettings
from lambdas.workflows import signal
from simulation.assembly import find_assembly
from tests.contract.agent.host import become
from tests.contract.conftest import ACCOUNT, REGION
from tests.contract.ec2.conftest import Yard, tags, unique
from tests.infrastructure.assembly import Assembly, plain
from tests.support.nvidia import EIGHT, nvidia_smi
from tests.support.recorded import CONTEXT
from training.host.agent.deadlines import hold
from training.host.metadata import Identity
from training.host.reporting import gpus
from training.host.reporting.gpus import UNITS, GpuMetrics
from trainyard.core.model.errors import Infrastructure
from trainyard.values import serialization

MINE = {"trainyard:yard": "trainyard", "trainyard:run": "digits-1"}


@pytest.fixture(scope="module")
def statements() -> list[dict[str, Any]]:
    """Return signal's EC2 statements in the template."""
    assembly = Assembly.read(find_assembly())
    found = [plain(each) for each in assembly.statements(assembly.role_of("signal"))]
    text = json.dumps([each for each in found if "ec2:" in json.dumps(each["Action"])])
    for placeholder, value in (("Partition", "aws"), ("Region", REGION), ("AccountId", ACCOUNT)):
        text = text.replace(f"{{AWS::{placeholder}}}", value)
    return list(json.loads(text))


class Signal:
    """The function under the role of the template, unless changed."""

    def __init__(self, yard: Yard, monkeypatch: pytest.MonkeyPatch, statements: list[dict[str, Any]]) -> None:
        self.yard, self._monkeypatch, self._statements = yard, monkeypatch, statements
        known = SignalSettings(
            yard="trainyard",
            table_name=unique("ledger"),
            bucket_name="none",
            stop_document="none",
            host_role_id="none",
            run_role="none",
            dev_role="none",
            dev_host_state_machine_arn="arn:dev-host",
            snapshot_state_machine_arn="arn:snapshot",
            version_state_machine_arn="arn:version",
            study_state_machine_arn="arn:study",
        )
        monkeypatch.setattr(environment, "read", lambda _: known)
        monkeypatch.setenv("AWS_ENDPOINT_URL", yard.cloud.endpoint)
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
        self.may(*statements)

    def may(self, *statements: dict[str, Any]) -> None:
        become(self._monkeypatch, self.yard.cloud.acting_as(*statements))
        self._monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        clients.client.cache_clear()

    def hears(self, host: str, until: datetime | None, *, run: str = "digits-1") -> str:
        """Process a host's event and return the outcome."""
        names = {
            "trainyard:run": run,
            "trainyard:attempt": "1",
            "trainyard:bus": "trainyard",
            "trainyard:role": "AROAHOST",
        }
        entry = hold.entry_of(Identity(host, REGION, "", "", names), until, now=datetime.now(UTC))
        event = {
            "source": entry["Source"],
            "detail-type": entry["DetailType"],
            "detail": json.loads(entry["Detail"]),
        }
        return str(signal.handler(event, CONTEXT)["result"])

    def host(self, **marks: str) -> str:
        (made,) = self.yard.run(TagSpecifications=tags("instance", **marks))
        self.yard.becomes(made, "running")
        return made

    def tag(self, host: str) -> str:
        found = {tag["Key"]: tag["Value"] for tag in self.yard.instance(host).get("Tags", [])}
        return str(found.get("trainyard:hold", ""))


@pytest.fixture
def function(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, statements: list[dict[str, Any]]
) -> Iterator[Signal]:
    yield Signal(yard, monkeypatch, statements)
    clients.client.cache_clear()


def ahead(hours: float) -> datetime:
    return (datetime.now(UTC) + timedelta(hours=hours)).replace(microsecond=0)


def test_a_host_is_held_longer_and_released_though_no_run_is_known(function: Signal) -> None:
    mine = function.host(**MINE)
    long, longer = ahead(2), ahead(5)
    function.hears(mine, long)
    assert serialization.parse_timestamp(function.tag(mine)) == long
    function.hears(mine, longer)
    assert function.hears(mine, long) == f"{mine} is held until {serialization.timestamp(longer)}"
    assert serialization.parse_timestamp(function.tag(mine)) == longer
    function.hears(mine, None)
    assert serialization.parse_timestamp(function.tag(mine)) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("marks", "run", "hours", "says"),
    [
        (MINE, "digits-2", 2, "belongs to digits-1, not to digits-2"),
        ({"trainyard:yard": "trainyard"}, "digits-1", 2, "belongs to no run"),
        (MINE, "digits-1", 25, "at most 24 h"),
    ],
)
def test_what_is_not_held(function: Signal, marks: dict[str, str], run: str, hours: float, says: str) -> None:
    host = function.host(**marks)
    assert says in function.hears(host, ahead(hours), run=run)
    assert function.tag(host) == ""


def test_a_host_without_the_yards_tag_is_not_touched(function: Signal) -> None:
    other = function.host(**{"trainyard:run": "digits-1"})
    with pytest.raises(Infrastructure, match="ec2:CreateTags"):
        function.hears(other, ahead(2))
    assert function.tag(other) == ""


def test_an_instance_that_nobody_knows_is_not_held(function: Signal) -> None:
    assert "instance i-00000000000000000 is not running" in function.hears("i-00000000000000000", ahead(2))


@pytest.mark.parametrize("missing", ["ec2:CreateTags", "ec2:DescribeInstances"])
def test_without_a_permission_the_event_is_lost_and_the_run_is_not(
    function: Signal, statements: list[dict[str, Any]], missing: str
) -> None:
    """Test missing permissions. They must not appear as an access error, with which signal would end the run."""
    mine = function.host(**MINE)
    function.may(*(each for each in statements if missing not in json.dumps(each["Action"])))
    with pytest.raises(Infrastructure, match=missing):
        function.hears(mine, ahead(2))
    assert function.tag(mine) == ""


def test_what_a_host_publishes_itself_is_what_patrol_reads(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Test that patrol reads the host's own publication:

    CloudWatch has no data, so the busiest of eight GPUs counts.
    """
    nvidia_smi(tmp_path, EIGHT)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("AWS_ENDPOINT_URL", yard.cloud.endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    become(monkeypatch, yard.cloud.root)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    clients.client.cache_clear()
    host, now = "i-0123456789abcde99", datetime.now(UTC)
    service = yard.cloud.client("cloudwatch")
    metrics = GpuMetrics(service, host, born=now - timedelta(minutes=10))
    for minute in range(-5, 1):
        metrics.turn(now + timedelta(minutes=minute))
    window = cloudwatch.read_windows([(GPUS, host)], minutes=4, now=now)[GPUS, host]
    assert (window.peak, set(metrics.publishes)) == (97.0, set(UNITS))
    since = now - timedelta(minutes=5)
    found = gpus.read_arrived(service, host, since=since, now=now + timedelta(minutes=1))
    assert found == {gpus.UTILIZATION: 97.0, gpus.MEMORY: 70123.0}
    clients.client.cache_clear()
