"""Without one of its permissions, patrol's pass fails and names it, but still terminates hosts that must end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from lambdas import environment
from lambdas.steps.patrol.observe import PatrolSettings
from lambdas.workflows import patrol
from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, answering, free_port, packed
from tests.contract.ec2.conftest import Yard, tags
from tests.infrastructure.assembly import Assembly, plain
from tests.permissions.grants import Grant, less
from tests.permissions.paths import unseen
from tests.support.recorded import CONTEXT
from trainyard.core.model.errors import AccessDenied
from trainyard.values import serialization

pytestmark = pytest.mark.exhaustive
WAITING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 3600, "End": True}}}
MACHINES = ("train", "bake", "snapshot", "dev-host")
LEASES_OVER = timedelta(minutes=20)
"""Time until patrol's pass: leases end after a minute, and hosts have 15 more minutes to end by themselves."""
TOLD = ("signal", "train-conclude", "bake-conclude", "snapshot-conclude", "dev-host-conclude")
BEFORE_JUDGING = (
    "ec2:DescribeInstances",
    "ec2:DescribeImages",
    "states:ListExecutions",
    "dynamodb:BatchGetItem",
)
"""Without these, patrol cannot judge any host, and the next pass tries again."""
ORPHANS = ("orphan", "builder", "launched")


class Place:
    """The resources of patrol's role: ledger, bucket, topic, state machines, functions, and two live runs."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.yard = cloud, Yard(cloud)
        cloud.ledger("ledger")
        cloud.client("s3").create_bucket(Bucket="bucket")
        self.topic = str(cloud.client("sns").create_topic(Name="notices")["TopicArn"])
        self.machines = {word: self._machine(word) for word in MACHINES}
        for word in TOLD:
            self._function(word)
        for run, word in (("live-1", "train"), ("live-2", "snapshot")):
            states = cloud.client("stepfunctions")
            states.start_execution(stateMachineArn=self.machines[word], name=run, input="{}")

    def _machine(self, word: str) -> str:
        made = self.cloud.client("stepfunctions").create_state_machine(
            name=f"trainyard-{word}",
            definition=json.dumps({"QueryLanguage": "JSONata", **WAITING}),
            roleArn=self.cloud.role("states.amazonaws.com"),
        )
        return str(made["stateMachineArn"])

    def _function(self, word: str) -> None:
        self.cloud.client("lambda").create_function(
            FunctionName=f"trainyard-{word}",
            Runtime="python3.11",
            Handler="index.handler",
            Role=self.cloud.role("lambda.amazonaws.com"),
            Code={"ZipFile": packed("def handler(event, context): return event")},
        )

    @property
    def settings(self) -> PatrolSettings:
        return PatrolSettings(
            aws_region="us-east-1",
            yard="trainyard",
            table_name="ledger",
            bucket_name="bucket",
            topic_arn=self.topic,
            snapshot_state_machine_arn=self.machines["snapshot"],
            state_machine_arns=tuple(self.machines.values()),
            policy=json.dumps({"grace_minutes": 0.0001}),
        )

    def statements(self, assembly: Assembly) -> list[dict[str, Any]]:
        """Return the statements of patrol's role with the ARNs of these resources."""
        made = {
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            r"Bucket\w+\.Arn": "arn:aws:s3:::bucket",
            r"Ledger\w+\.Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/ledger",
            r"Notices\w+": self.topic,
            r"PatrolLog\w+\.Arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:patrol",
            **{rf"{word.title().replace('-', '')}Workflow\w+": arn for word, arn in self.machines.items()},
            **{
                rf"{word.title().replace('-', '')}Function\w+\.Arn": (
                    f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:trainyard-{word}"
                )
                for word in TOLD
            },
        }
        text = json.dumps([plain(each) for each in assembly.statements(assembly.role_of("patrol"))])
        for name, value in made.items():
            text = re.sub(rf"\{{{name}\}}", value, text)
        return list(json.loads(text))

    # ------------------------------------------------------------------------------------------------- the scene

    def scene(self, now: datetime) -> dict[str, str]:
        """Launch a host for each action of patrol, and return them by the expected outcome."""
        self._rows(serialization.timestamp(now - timedelta(minutes=10)))
        since = serialization.timestamp(now - timedelta(minutes=5))
        over = {
            "kind": "dev-host",
            "ready": since,
            "lease": serialization.timestamp(now + timedelta(minutes=1)),
        }
        spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
        hosts = {
            "orphan": self._host({"run": "over-1", "verdict": f"warn-orphan {since}"}),
            "builder": self._host({"run": "over-2", "kind": "bake", "verdict": f"warn-orphan {since}"}),
            "launched": self._host({"run": "over-3", "kind": "dev-host", "verdict": f"warn-orphan {since}"}),
            "stopped": self._host({"run": "over-4", "verdict": f"stop-lease {since}", **over}),
            "archived": self._host(
                {"run": "over-5", "verdict": f"archive-lease {since}", "policy-idle_spot": "archive", **over},
                **spot,
            ),
            "started": self._host(
                {
                    "verdict": f"keep-stopped {since}",
                    "hold": serialization.timestamp(now + timedelta(hours=1)),
                }
            ),
            "asked": self._host({"verdict": f"stop-idle {since}"}),
        }
        for host in hosts.values():
            self.yard.becomes(host, "running")
        return hosts

    def _host(self, marks: Mapping[str, str], **more: Any) -> str:
        tagged = {
            "trainyard:yard": "trainyard",
            **{f"trainyard:{key}": value for key, value in marks.items()},
        }
        (made,) = self.yard.run(
            InstanceType="g6.xlarge", TagSpecifications=tags("instance", **tagged), **more
        )
        return made

    def _rows(self, ago: str) -> None:
        """Write the rows of the runs before the first pass.

        One run trains past its deadline, with an unread final report. One waits for its image. Four have ended
        without a conclusion. One launch claims a terminated host.
        """
        with answering(self.cloud):
            table = boto3.resource("dynamodb").Table("ledger")
        for row in table.scan(ConsistentRead=True)["Items"]:
            table.delete_item(Key={"pk": row["pk"], "sk": row["sk"]})
        row = {"sk": "run", "attempt": 1, "created": ago, "execution_arn": "its-own"}
        for run, kind, state, more in (
            ("live-1", "train", "Train", {"deadline": ago}),
            ("live-2", "snapshot", "Capture", {}),
            ("over-1", "train", "Train", {}),
            ("over-2", "bake", "Install", {}),
            ("over-3", "dev-host", "Launch", {}),
            ("over-6", "snapshot", "Capture", {}),
        ):
            table.put_item(Item={**row, "pk": f"run#{run}", "kind": kind, "state": state, **more})
            execution = self.machines[kind].replace(":stateMachine:", ":execution:") + f":{run}"
            table.put_item(Item={"pk": "open", "sk": run, "kind": kind, "execution_arn": execution})
        claim = {"hosts": 1, "created": ago, "waits": False, "dollars": 1, "by": "ada"}
        table.put_item(Item={"pk": "open", "sk": "held#over-7", "kind": "held", **claim})
        wait = {"pk": "run#live-2", "sk": "wait#0001#capture", "since": ago, "image": "ami-0123456789abcdef0"}
        table.put_item(Item=wait)
        host = "i-0123456789abcdef0"
        text = {"run": "live-1", "attempt": 1, "instance": host, "at": ago, "signal": "finished"}
        key = f"runs/live-1/attempts/1/signals/AROA:{host}.json"
        self.cloud.client("s3").put_object(Bucket="bucket", Key=key, Body=json.dumps(text).encode())

    def left(self, hosts: Mapping[str, str]) -> set[str]:
        """Return the hosts that still run."""
        return {word for word, host in hosts.items() if self.yard.state(host) == "running"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    cloud = Cloud(tmp_path_factory.mktemp("patrol"), free_port())
    cloud.up()
    yield Place(cloud)
    cloud.down()


@pytest.fixture
def hosts(place: Place) -> Iterator[dict[str, str]]:
    place.yard.started.clear()
    yield place.scene(datetime.now(UTC))
    place.yard.ec2.terminate_instances(InstanceIds=place.yard.started)


def passes(place: Place, who: Credentials, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run one pass with these credentials after the leases have ended, in the hour of the daily summary."""
    monkeypatch.setattr(environment, "read", lambda _: place.settings)
    later = datetime.now(UTC) + LEASES_OVER
    monkeypatch.setattr(patrol, "clock", lambda: later)
    monkeypatch.setattr(patrol, "SUMMARY_HOUR", later.hour)
    with answering(place.cloud, who):
        return patrol.handler({}, CONTEXT)


def test_the_shipped_role_allows_a_whole_pass(
    place: Place, hosts: dict[str, str], assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = passes(place, place.cloud.acting_as(*place.statements(assembly)), monkeypatch)
    assert (done["stops"], done["archives"], done["terminates"]) == (1, 1, 3)
    assert place.left(hosts) == {"archived", "started", "asked"}


def test_a_pass_without_this_permission_fails_and_names_it(
    place: Place,
    hosts: dict[str, str],
    assembly: Assembly,
    patrols_grant: Grant,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if reason := unseen(patrols_grant):
        pytest.skip(reason)
    role = place.cloud.role("root", *less(place.statements(assembly), patrols_grant))
    who = place.cloud.acting_in(role)
    with pytest.raises(AccessDenied) as denied:
        passes(place, who, monkeypatch)
    assert patrols_grant.action in denied.value.reason
    assert role.rpartition("/")[2] in denied.value.reason
    without = patrols_grant.action
    gone = set() if without in (*BEFORE_JUDGING, "ec2:TerminateInstances") else set(ORPHANS)
    stopped = set() if without in (*BEFORE_JUDGING, "ec2:StopInstances") else {"stopped"}
    assert place.left(hosts) == set(hosts) - gone - stopped
