"""Requests for dev hosts: their rows, their executions, and executions that are started by hand."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.aws import ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import dev_imaging_row
from lambdas.environment import YardSettings
from lambdas.steps.observability import clock
from lambdas.steps.signals.context import SignalSettings
from lambdas.workflows import signal
from lambdas.workflows.dev_host import admit as dev_host_admit
from lambdas.workflows.dev_host.admit import DevHostAdmitSettings
from lambdas.workflows.snapshot import admit as snapshot_admit
from tests.support.recorded import CONTEXT
from tests.unit.workflows.account import an_account
from trainyard.core.model.job import Job
from trainyard.values import serialization

IMAGE = "ami-12c6146b"
"""An image that moto has from the start."""
LIMITS = {"monthly_dollars": 1000.0, "most_dollars_per_run": 500.0, "most_hosts": 2, "most_hold_hours": 24.0}
STARTED = "2026-11-20T12:00:00.000Z"
RUN, SNAPSHOT = "dev-mine-20261120T120000-abc123", "dev-mine-20261120T130000-abc123"


class Yard:
    """A yard without hosts, in an account with an image."""

    def __init__(self) -> None:
        table = boto3.resource("dynamodb").Table("ledger")
        for row in table.scan()["Items"]:
            table.delete_item(Key={"pk": row["pk"], "sk": row["sk"]})
        self.ec2, self.states = boto3.client("ec2"), boto3.client("stepfunctions")
        living = [{"Name": "instance-state-name", "Values": ["running", "stopped"]}]
        for held in self.ec2.describe_instances(Filters=living)["Reservations"]:
            self.ec2.terminate_instances(InstanceIds=[each["InstanceId"] for each in held["Instances"]])
        self.ledger = Ledger("ledger")
        self.machines = {word: self._machine(f"{word}-{id(self)}") for word in ("dev-host", "snapshot")}

    def _machine(self, name: str) -> str:
        made = self.states.create_state_machine(
            name=name,
            definition=json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}}),
            roleArn="arn:aws:iam::123456789012:role/any",
        )
        return str(made["stateMachineArn"])

    def wish(self, who: str, run: str = RUN, want: str = "up", name: str = "mine", **asked: Any) -> str:
        detail = {"run": run, "name": name, "want": want, "request": asked}
        event = {"source": f"trainyard.people/{who}", "detail-type": "dev", "detail": detail}
        return str(signal.handler(event, CONTEXT)["result"])

    def begun(self, word: str) -> dict[str, Any]:
        """Return the inputs of that workflow's executions by name."""
        listed = self.states.list_executions(stateMachineArn=self.machines[word])["executions"]
        found = [self.states.describe_execution(executionArn=each["executionArn"]) for each in listed]
        return {each["name"]: json.loads(each["input"]) for each in found}

    def host(self, **tags: str) -> str:
        marks = [{"Key": f"trainyard:{key}", "Value": value} for key, value in tags.items()]
        made = self.ec2.run_instances(
            ImageId=IMAGE,
            MinCount=1,
            MaxCount=1,
            InstanceType="t3.micro",
            TagSpecifications=[{"ResourceType": "instance", "Tags": marks}],
        )
        return str(made["Instances"][0]["InstanceId"])


@pytest.fixture(scope="module")
def account() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, an_account(patch):
        yield


@pytest.fixture
def yard(account: None, monkeypatch: pytest.MonkeyPatch) -> Yard:
    made = Yard()
    subnets = [each["SubnetId"] for each in made.ec2.describe_subnets()["Subnets"]]
    given = {"yard": "trainyard", "table_name": "ledger", "bucket_name": "bucket"}
    more: dict[Any, dict[str, Any]] = {
        SignalSettings: {
            f"{word.replace('-', '_')}_state_machine_arn": arn for word, arn in made.machines.items()
        },
        DevHostAdmitSettings: {"subnet_ids": tuple(subnets), "aws_region": "us-east-1"},
        YardSettings: {},
    }
    monkeypatch.setattr(
        environment,
        "read",
        lambda kind: kind(**given, **more[kind], **(LIMITS if kind is DevHostAdmitSettings else {})),
    )
    monkeypatch.setattr(ssm, "find_online", frozenset)  # moto has no Systems Manager's agents
    return made


def admitted(admit: Callable[..., Any], run: str, execution_input: object) -> dict[str, Any]:
    given = {"run": run, "execution": f"arn:{run}", "started": STARTED, "input": execution_input}
    return dict(admit(given, CONTEXT))


def test_the_owner_is_who_iam_says_and_what_is_launched_what_the_row_says(yard: Yard) -> None:
    yard.wish("alice", instance_types=["g6.xlarge"])
    assert yard.begun("dev-host") == {RUN: {"dev": "mine"}}
    forged = {"dev": "mine", "instance_types": ["p5.48xlarge"], "submitter": "bob"}
    answer = admitted(dev_host_admit.handler, RUN, forged)
    assert answer["kind"] == "admitted", answer
    run = yard.ledger.run(RUN)
    assert run is not None
    assert run.job is not None
    hardware = serialization.from_json(Job, run.job).hardware
    assert (run.dev, run.submitter, run.name, run.image_id) == ("mine", "alice", "dev-mine", None)
    assert hardware.instance_types == ("g6.xlarge",)
    assert hardware.market == "on_demand"


def brought_up(yard: Yard, name: str, who: str = "alice", **asked: Any) -> dict[str, Any]:
    """Return Admit's answer for that dev host."""
    run = f"dev-{name}-20261120T120000-abc123"
    yard.wish(who, run, name=name, **asked)
    return admitted(dev_host_admit.handler, run, {"dev": name})


TOO_MUCH: list[tuple[str, dict[str, Any], str]] = [
    (
        "a hold of 30 days",
        {"hold_hours": 720},
        "hold_hours: found 720; this yard allows a user's host 24 hours",
    ),
    ("30 days without a hold", {"hours": 720}, "hours: found 720"),
    ("both", {"hours": 25, "hold_hours": 24.5}, "hold_hours: found 24.5"),
    (
        "the largest type for a day",
        {"instance_types": ["p5.48xlarge"], "hours": 24},
        "(most_dollars_per_run)",
    ),
]


@pytest.mark.parametrize(("case", "asked", "says"), TOO_MUCH, ids=[case[0] for case in TOO_MUCH])
def test_a_users_host_stays_within_the_caps(yard: Yard, case: str, asked: dict[str, Any], says: str) -> None:
    answer = brought_up(yard, "mine", **asked)
    assert (answer["kind"], answer["error"]) == ("refused", "DevHostRefused"), case
    assert says in answer["reason"]
    assert yard.ledger.claims()[1] == ()


def test_an_operator_who_starts_a_launch_by_hand_may_hold_it_for_longer(yard: Yard) -> None:
    tags = [{"Key": "trainyard:yard", "Value": "trainyard"}, {"Key": "trainyard:family", "Value": "gpu"}]
    made = yard.ec2.create_image(
        InstanceId=yard.host(yard="trainyard"),
        Name="gpu-of-the-yard",
        TagSpecifications=[{"ResourceType": "image", "Tags": tags}],
    )
    asked = {"image": made["ImageId"], "instance_types": ["g6.xlarge"], "hold_hours": 100}
    answer = admitted(dev_host_admit.handler, "by-hand", asked)
    assert answer["kind"] == "admitted", answer
    (claim,) = yard.ledger.claims()[1]
    assert (claim.run, claim.kind, claim.by, claim.hosts) == ("by-hand", "held", "unknown", 1)
    assert claim.dollars > 100 * 0.8
    run = yard.ledger.run("by-hand")
    assert run is not None
    assert run.submitter == "unknown"


def test_hosts_of_launches_count_toward_the_hosts_of_the_yard(yard: Yard) -> None:
    for name in ("one", "two"):
        assert brought_up(yard, name, instance_types=["g6.xlarge"])["kind"] == "admitted"
    answer = brought_up(yard, "three", who="bob", instance_types=["g6.xlarge"])
    assert (answer["kind"], answer["error"]) == ("refused", "YardFull")
    assert "this dev host needs 1, and the yard has 2 at once (most_hosts)" in answer["reason"]
    assert {(claim.run.split("-")[1], claim.by) for claim in yard.ledger.claims()[1]} == {
        ("one", "alice"),
        ("two", "alice"),
    }


def test_launches_at_once_do_not_pass_the_budget_together(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call claims a slot while the first is about to write, after it read that there is room."""
    monkeypatch.setitem(LIMITS, "most_hosts", 0)
    monkeypatch.setitem(LIMITS, "monthly_dollars", 800.0)
    dearest: dict[str, Any] = {"instance_types": ["p4d.24xlarge"], "hours": 20}
    monkeypatch.setitem(LIMITS, "most_dollars_per_run", 0.0)
    answers: list[dict[str, Any]] = []
    claims_of = Ledger.claims

    def read(ledger: Ledger) -> Any:
        found = claims_of(ledger)
        if not answers:
            answers.append({})
            answers.append(brought_up(yard, "second", who="bob", **dearest))
        return found

    monkeypatch.setattr(Ledger, "claims", read)
    first = brought_up(yard, "first", **dearest)
    assert answers[1]["kind"] == "admitted"
    assert (first["kind"], first["error"]) == ("refused", "BudgetSpent")
    assert "to bob ($" in first["reason"]
    assert "are left of the yard's $800.00 a month" in first["reason"]
    assert [claim.by for claim in claims_of(yard.ledger)[1]] == ["bob"]


def test_an_event_that_comes_twice_changes_nothing(yard: Yard) -> None:
    yard.wish("alice")
    yard.wish("alice")
    assert [*yard.begun("dev-host")] == [RUN]
    admitted(dev_host_admit.handler, RUN, {"dev": "mine"})
    assert yard.wish("bob") == "this request was handled before"
    row = yard.ledger.dev("mine")
    assert row is not None
    assert row.owner == "alice"


def test_whoever_asks_for_somebody_elses_is_told_so_by_the_run_that_was_asked_for(yard: Yard) -> None:
    yard.wish("alice")
    bobs = f"{RUN}-b"
    yard.wish("bob", bobs)
    told = yard.begun("dev-host")[bobs]
    answer = admitted(dev_host_admit.handler, bobs, told)
    assert (answer["kind"], answer["error"]) == ("refused", "DevHostRefused")
    assert "belongs to alice" in answer["reason"]
    assert yard.ledger.run(bobs) is not None


def test_by_hand_nobody_names_a_dev_host(yard: Yard) -> None:
    yard.wish("alice")
    for run in ("by-hand", f"{RUN}-x"):
        answer = admitted(dev_host_admit.handler, run, {"dev": "mine"})
        assert (answer["kind"], answer["error"]) == ("refused", "DevHostRefused")
        assert "trainyard dev up" in answer["reason"]
    assert admitted(dev_host_admit.handler, "none", {"dev": "nobodys"})["kind"] == "refused"


def test_by_hand_nobody_images_a_dev_host_and_its_owner_does(yard: Yard) -> None:
    host = yard.host(yard="trainyard", dev="mine", submitter="alice", kind="dev-host")
    asked = {"instance": host, "quiesce": "stop", "then": "terminate"}
    for run in ("by-hand", f"archive-{host}-2026112012"):
        answer = admitted(snapshot_admit.handler, run, asked)
        assert (answer["kind"], answer["error"]) == ("refused", "SnapshotRefused")
    yard.wish("bob", SNAPSHOT, "image")
    assert "refused" in yard.begun("snapshot")[SNAPSHOT]
    mine = f"{SNAPSHOT}-a"
    yard.wish("alice", mine, "image")
    assert yard.begun("snapshot")[mine] == asked
    answer = admitted(snapshot_admit.handler, mine, asked)
    assert answer["kind"] == "admitted", answer
    assert admitted(snapshot_admit.handler, f"{mine}-more", asked)["kind"] == "refused"


def test_patrol_archives_a_dev_host_too(yard: Yard) -> None:
    host = yard.host(yard="trainyard", dev="mine", submitter="alice", kind="dev-host")
    run = f"archive-{host}-2026112012"
    yard.ledger.write(dev_imaging_row(run, host, clock()))
    asked = {"instance": host, "quiesce": "stop", "then": "terminate"}
    assert admitted(snapshot_admit.handler, run, asked)["kind"] == "admitted"
    other = yard.host(yard="trainyard", dev="mine", submitter="alice", kind="dev-host")
    assert admitted(snapshot_admit.handler, run + "0", asked | {"instance": other})["kind"] == "refused"


def test_a_host_that_is_there_is_not_launched_again(yard: Yard) -> None:
    host = yard.host(yard="trainyard", dev="mine", submitter="alice", kind="dev-host")
    assert "already exists" in yard.wish("alice")
    assert host in yard.begun("dev-host")[RUN]["refused"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"run": "digits-1"},
        {"name": "Mine"},
        {"name": "mine\u202e"},
        {"want": "sold"},
        {"zones": ["x" * 5000]},
    ],
)
def test_what_is_no_wish_begins_nothing(yard: Yard, wrong: dict[str, Any]) -> None:
    yard.wish("alice", **wrong)
    assert yard.begun("dev-host") == yard.begun("snapshot") == {}


def test_a_run_that_is_somebodys_is_not_taken(yard: Yard) -> None:
    admitted(dev_host_admit.handler, RUN, {"latest": "gpu"})
    assert yard.wish("alice") == "this request was handled before"
    assert yard.ledger.dev("mine") is None
