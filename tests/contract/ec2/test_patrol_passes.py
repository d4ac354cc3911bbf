"""Passes of patrol's own code with the local cloud's answers."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.steps.patrol.observe import PatrolSettings
from lambdas.workflows import patrol
from tests.contract.conftest import REGION, answering, eventually
from tests.contract.ec2.conftest import Yard, tags, unique
from tests.support.recorded import CONTEXT
from trainyard.values import serialization

WAITING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}
POLICY = {"window_minutes": 5, "grace_minutes": 0.01}


class Place:
    """A ledger, two state machines, a topic, and a clock that tests advance by minutes."""

    def __init__(self, yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
        self.yard, self.minutes, self.name, self.region = yard, 0, unique("yard"), REGION
        cloud = yard.cloud
        cloud.ledger(self.name)
        self.machine, self.snapshots = cloud.machine(WAITING), cloud.machine(WAITING)
        self.topic = cloud.client("sns").create_topic(Name=self.name)["TopicArn"]
        monkeypatch.setattr(patrol, "clock", self.clock)
        monkeypatch.setattr(environment, "read", lambda _: self.settings())

    def clock(self) -> datetime:
        return datetime.now(UTC) + timedelta(minutes=self.minutes)

    def settings(self) -> PatrolSettings:
        return PatrolSettings(
            aws_region=self.region,
            yard=self.name,
            table_name=self.name,
            bucket_name="none",
            topic_arn=self.topic,
            snapshot_state_machine_arn=self.snapshots,
            state_machine_arns=(self.machine, self.snapshots),
            policy=json.dumps(POLICY),
        )

    def host(self, **more: str) -> str:
        marks = {"trainyard:yard": self.name, **{f"trainyard:{key}": value for key, value in more.items()}}
        (made,) = self.yard.run(InstanceType="g6.xlarge", TagSpecifications=tags("instance", **marks))
        self.yard.becomes(made, "running")
        return made

    def goes_on(self, run: str) -> None:
        """Add a running job to the ledger."""
        self.yard.cloud.client("stepfunctions").start_execution(
            stateMachineArn=self.machine, name=run, input="{}"
        )
        row = {"kind": "train", "state": "Launch", "attempt": 1, "execution_arn": "its own"}
        created = serialization.timestamp(self.clock())
        boto3.resource("dynamodb").Table(self.name).put_item(
            Item={"pk": f"run#{run}", "sk": "run", "created": created, **row}
        )

    def looks(self) -> dict[str, Any]:
        self.minutes += 1
        return patrol.handler({}, CONTEXT)

    def metrics(self, host: str, share: float) -> None:
        """Add metrics of the last quarter of an hour, as the agent sends them."""
        now = datetime.now(UTC)
        self.yard.cloud.client("cloudwatch").put_metric_data(
            Namespace="Trainyard",
            MetricData=[
                {
                    "MetricName": "nvidia_smi_utilization_gpu",
                    "Dimensions": [{"Name": "InstanceId", "Value": host}],
                    "Timestamp": now + timedelta(minutes=minute),
                    "Value": share,
                    "Unit": "Percent",
                }
                for minute in range(-10, 20)
            ],
        )

    def tag(self, host: str) -> str:
        found = {tag["Key"]: tag["Value"] for tag in self.yard.instance(host)["Tags"]}
        return str(found.get("trainyard:verdict", ""))

    def written(self) -> list[dict[str, Any]]:
        table = boto3.resource("dynamodb").Table(self.name)
        rows = table.scan(ConsistentRead=True)["Items"]
        return [each for row in rows if row["pk"].startswith("patrol#") for each in row["verdicts"]]


@pytest.fixture
def place(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with answering(yard.cloud):
        yield Place(yard, monkeypatch)


def test_hosts_that_no_execution_explains_end_at_the_second_pass_and_a_live_runs_do_not(place: Place) -> None:
    ghost, live = place.host(run="ghost-1"), place.host(run="live-1")
    place.goes_on("live-1")
    place.looks()
    assert place.tag(ghost).startswith("warn-orphan ")
    place.looks()
    place.yard.becomes(ghost, "terminated")
    assert place.yard.state(live) == "running"
    assert place.tag(live).startswith("keep ")
    said = {(each["instance"], each["verdict"], each.get("outcome")) for each in place.written()}
    assert {(ghost, "warn-orphan", None), (ghost, "terminate-orphan", "done"), (live, "keep", None)} <= said


def test_the_prices_of_its_region_are_read_at_the_first_pass_and_count_at_the_second(place: Place) -> None:
    place.region = "eu-central-1"
    host = place.host(run="over-1", disk="100")
    place.looks()
    read = Ledger(place.name).prices()
    assert read is not None
    assert read.trouble == ""
    assert read.on_demand["g6.xlarge"] == pytest.approx(1.19 * 0.805)
    assert read.storage == {
        "disk": pytest.approx(1.19 * 0.08),
        "snapshot": pytest.approx(1.19 * 0.05),
        "bucket": pytest.approx(1.19 * 0.023),
        "table": pytest.approx(1.19 * 0.25),
        "logs": pytest.approx(1.19 * 0.03),
    }
    place.looks()
    first, second = sorted(
        (each for each in place.written() if each["instance"] == host), key=itemgetter("at")
    )
    assert "Stopped: $8.00 a month" in first["reason"]
    assert (
        "prices of us-east-1, 2026-07-20: patrol has not read the price list of eu-central-1"
        in first["reason"]
    )
    assert "Stopped: $9.52 a month for its disk of 100 GiB. Archived: at most $5.95" in second["reason"]
    assert "prices of" not in second["reason"]


def test_an_idle_host_is_stopped_a_busy_one_and_an_unknown_one_are_kept(place: Place) -> None:
    place.minutes = 6
    idle, busy, unknown = (place.host(run="over-1", after="stop") for _ in range(3))
    place.yard.cloud.admin("POST", "/faults/metrics", {})
    place.metrics(idle, 0.0)
    place.metrics(busy, 88.0)
    place.looks()
    place.yard.becomes(idle, "stopped")
    assert place.yard.state(busy) == place.yard.state(unknown) == "running"
    assert (
        "its busiest GPU was at 88 %" in next(e for e in place.written() if e["instance"] == busy)["reason"]
    )
    assert place.tag(unknown).startswith("keep-unknown ")


def test_a_host_that_was_stopped_long_ago_goes_to_the_snapshot_workflow(place: Place) -> None:
    old = place.host(run="over-1", after="stop", **{"policy-archive_days": "0.0001"})
    place.yard.ec2.stop_instances(InstanceIds=[old])
    place.yard.becomes(old, "stopped")
    place.looks()
    states = place.yard.cloud.client("stepfunctions")
    (begun,) = states.list_executions(stateMachineArn=place.snapshots)["executions"]
    assert begun["name"].startswith(f"archive-{old}-")
    asked = json.loads(states.describe_execution(executionArn=begun["executionArn"])["input"])
    assert asked == {"instance": old, "quiesce": "stop", "then": "terminate"}
    place.looks()
    assert place.tag(old).startswith("keep ")  # during the snapshot


def test_a_pass_counts_the_money_and_tells_the_topic(place: Place) -> None:
    place.host(run="live-1", price="60.000000")
    place.goes_on("live-1")
    place.looks()
    said = place.looks()
    assert 0.9 < said["dollars_this_month"] < 1.3
    assert eventually(lambda: place.looks()["in_runs"] == 1)
