"""Delivery from an object or event to a rule's target."""

from __future__ import annotations

import json
import uuid
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.base.settings import Settings
from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow, eventually

EVENT = {
    "id": "1",
    "account": ACCOUNT,
    "source": "a",
    "time": "2026-11-20T12:00:00Z",
    "region": REGION,
    "resources": [],
    "detail-type": "b",
}
REMEMBERS = """
import boto3, json, os

def handler(event, context):
    boto3.client("sqs").send_message(QueueUrl=os.environ["QUEUE"], MessageBody=json.dumps(event))
"""


class Remembered:
    """A function that puts its events into a queue."""

    def __init__(self, cloud: Cloud) -> None:
        self.sqs = cloud.client("sqs")
        self.queue = self.sqs.create_queue(QueueName=f"events-{uuid.uuid4().hex[:8]}")["QueueUrl"]
        self.function = cloud.function(
            REMEMBERS, allow("sqs:SendMessage"), Environment={"Variables": {"QUEUE": self.queue}}
        )
        self.arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function}"

    def next(self) -> Any:
        return json.loads(eventually(self._receive)[0]["Body"])

    def none_within(self, seconds: int) -> bool:
        return not self.sqs.receive_message(QueueUrl=self.queue, WaitTimeSeconds=seconds).get("Messages")

    def _receive(self) -> Any:
        messages = self.sqs.receive_message(QueueUrl=self.queue, WaitTimeSeconds=1).get("Messages") or []
        for message in messages:
            self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return messages


def rule(cloud: Cloud, pattern: dict[str, Any], target: dict[str, Any], *, permitted: bool = True) -> str:
    """Create a rule with one target. By default a function as the target permits the rule."""
    events, name = cloud.client("events"), f"rule-{uuid.uuid4().hex[:8]}"
    arn = events.put_rule(Name=name, EventPattern=json.dumps(pattern))["RuleArn"]
    events.put_targets(Rule=name, Targets=[{"Id": "it", **target}])
    if permitted and ":function:" in target["Arn"]:
        cloud.client("lambda").add_permission(
            FunctionName=target["Arn"],
            StatementId=name,
            Action="lambda:InvokeFunction",
            Principal="events.amazonaws.com",
            SourceArn=arn,
        )
    return name


def bucket(cloud: Cloud) -> str:
    s3, name = cloud.client("s3"), f"bucket-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=name)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_notification_configuration(
        Bucket=name, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    return name


def uploads(name: str) -> dict[str, Any]:
    detail = {"bucket": {"name": [name]}, "object": {"key": [{"wildcard": "jobs/*.yaml"}]}}
    return {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": detail}


def test_an_upload_reaches_the_function_with_its_version(cloud: Cloud) -> None:
    remembered, name = Remembered(cloud), bucket(cloud)
    rule(cloud, uploads(name), {"Arn": remembered.arn})
    s3 = cloud.client("s3")
    s3.put_object(Bucket=name, Key="other/x.yaml", Body=b"no")
    first = s3.put_object(Bucket=name, Key="jobs/x.yaml", Body=b"1")
    assert remembered.next()["detail"]["object"]["version-id"] == first["VersionId"]
    second = s3.put_object(Bucket=name, Key="jobs/x.yaml", Body=b"22")
    event = remembered.next()
    assert event["detail"]["object"]["version-id"] == second["VersionId"] != first["VersionId"]
    assert (event["detail"]["object"]["key"], event["detail"]["object"]["size"]) == ("jobs/x.yaml", 2)
    assert (event["source"], event["detail-type"]) == ("aws.s3", "Object Created")
    assert remembered.none_within(1)


def test_a_function_that_did_not_permit_a_rule_is_not_invoked_by_it(cloud: Cloud) -> None:
    remembered = Remembered(cloud)
    source = f"test.{uuid.uuid4().hex[:8]}"
    rule(cloud, {"source": [source]}, {"Arn": remembered.arn}, permitted=False)
    put(cloud, source)
    assert remembered.none_within(2)


def test_a_failing_function_is_tried_twice_more(cloud: Cloud) -> None:
    code = """
    import boto3, json, os, time

    def handler(event, context):
        boto3.client("sqs").send_message(QueueUrl=os.environ["QUEUE"], MessageBody=json.dumps(time.time()))
        raise RuntimeError("always")
    """
    remembered = Remembered(cloud)
    function = cloud.function(
        code, allow("sqs:SendMessage"), Environment={"Variables": {"QUEUE": remembered.queue}}
    )
    source = f"test.{uuid.uuid4().hex[:8]}"
    rule(cloud, {"source": [source]}, {"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"})
    put(cloud, source)
    first, second, third = (remembered.next() for _ in range(3))
    retry_seconds = Settings.load(cloud.settings).latencies.function_retry
    assert second - first >= retry_seconds
    assert third - second >= 2 * retry_seconds
    assert remembered.none_within(5)
    assert Settings.load().latencies.function_retry == 60, "as on AWS, unless a test shortens it"


def test_a_rule_starts_a_machine_only_under_a_role_that_may(cloud: Cloud) -> None:
    machine = cloud.machine({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
    states = cloud.client("stepfunctions")
    may = cloud.role("events.amazonaws.com", allow("states:StartExecution", machine))
    may_not = cloud.role("events.amazonaws.com")
    for role, started in ((may_not, 0), (may, 1)):
        source = f"test.{uuid.uuid4().hex[:8]}"
        rule(cloud, {"source": [source]}, {"Arn": machine, "RoleArn": role})
        put(cloud, source)
        if started:
            eventually(lambda: states.list_executions(stateMachineArn=machine)["executions"])
        assert len(states.list_executions(stateMachineArn=machine)["executions"]) == started


def test_what_could_not_be_delivered_is_in_the_targets_dead_letter_queue(cloud: Cloud) -> None:
    remembered, source = Remembered(cloud), f"test.{uuid.uuid4().hex[:8]}"
    dead = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{remembered.queue.rsplit('/', 1)[-1]}"
    target = {"Arn": remembered.arn, "DeadLetterConfig": {"Arn": dead}}
    rule(cloud, {"source": [source]}, target, permitted=False)
    put(cloud, source)
    assert remembered.next()["source"] == source


def test_an_event_on_a_bus_of_ones_own_reaches_its_rule(cloud: Cloud) -> None:
    events, remembered = cloud.client("events"), Remembered(cloud)
    bus = f"bus-{uuid.uuid4().hex[:8]}"
    events.create_event_bus(Name=bus)
    pattern = {"source": ["trainyard.host"], "detail-type": ["ready"]}
    arn = events.put_rule(Name=bus, EventBusName=bus, EventPattern=json.dumps(pattern))["RuleArn"]
    events.put_targets(Rule=bus, EventBusName=bus, Targets=[{"Id": "it", "Arn": remembered.arn}])
    cloud.client("lambda").add_permission(
        FunctionName=remembered.arn,
        StatementId="bus",
        Action="lambda:InvokeFunction",
        Principal="events.amazonaws.com",
        SourceArn=arn,
    )
    entry = {"Source": "trainyard.host", "DetailType": "ready", "Detail": '{"attempt": 1}'}
    assert events.put_events(Entries=[{**entry, "EventBusName": bus}])["FailedEntryCount"] == 0
    assert remembered.next()["detail"] == {"attempt": 1}


def test_an_entry_that_cannot_be_put_fails_alone(cloud: Cloud) -> None:
    sound = {"Source": "test", "DetailType": "test", "Detail": "{}"}
    wrong = [{**sound, "Detail": "no json"}, {**sound, "Detail": "[1]"}, {"Source": "test", "Detail": "{}"}]
    answer = cloud.client("events").put_events(Entries=[sound, *wrong, sound])
    codes = [entry.get("ErrorCode") for entry in answer["Entries"]]
    assert codes == [None, "MalformedDetail", "MalformedDetail", "InvalidArgument", None]
    assert answer["FailedEntryCount"] == 3
    assert "EventId" in answer["Entries"][4]


def put(cloud: Cloud, source: str) -> None:
    entry = {"Source": source, "DetailType": "test", "Detail": "{}"}
    cloud.client("events").put_events(Entries=[entry])


@pytest.mark.parametrize("event", ["text", "[]", "{", '"text"'])
def test_an_event_to_be_tested_is_a_json_object(cloud: Cloud, event: str) -> None:
    pattern = json.dumps({"source": ["a"]})
    with pytest.raises(ClientError) as refused:
        cloud.client("events").test_event_pattern(Event=event, EventPattern=pattern)
    assert refused.value.response["Error"] == {
        "Code": "ValidationException",
        "Message": "Parameter Event is not valid.",
    }


def test_a_pattern_that_eventbridge_refuses_makes_no_rule(cloud: Cloud) -> None:
    events = cloud.client("events")
    for pattern in (
        {"source": [{"wildcard": "*:*:*:*:*:x"}]},
        {"source": "a"},
        {"source": [{"PREFIX": "a"}]},
    ):
        for call in (
            partial(events.put_rule, Name="refused"),
            partial(events.test_event_pattern, Event=json.dumps(EVENT)),
        ):
            with pytest.raises(ClientError, match=r"Event pattern is not valid\. Reason: ") as refused:
                call(EventPattern=json.dumps(pattern))
            assert refused.value.response["Error"]["Code"] == "InvalidEventPatternException"


def test_an_event_is_tested_as_it_was_given(cloud: Cloud) -> None:
    events, pattern = cloud.client("events"), json.dumps({"detail": {"state": {"status": ["ok"]}}})
    for detail, is_match in (({"state.status": "ok"}, True), ('{"state": {"status": "ok"}}', False)):
        event = json.dumps({**EVENT, "detail": detail})
        assert events.test_event_pattern(Event=event, EventPattern=pattern)["Result"] is is_match
