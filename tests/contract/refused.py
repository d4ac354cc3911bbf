"""The table of refusals, and the resources that its requests name."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from botocore.exceptions import ClientError

TABLE = Path(__file__).with_name("refusals.yaml")


@dataclass(frozen=True)
class Refused:
    """A refused call with AWS's answer."""

    name: str
    service: str
    operation: str
    request: Mapping[str, Any]
    code: str
    status: int
    message: str
    seen: str
    """The recording as file::test#step."""

    def answer(self, client: Any, named: Mapping[str, Any]) -> tuple[str, int, str]:
        """Make the call. Return code, status and message of the refusal, or `("", 200, "")` if it is accepted."""
        try:
            getattr(client, self.operation)(**filled(self.request, named))
        except ClientError as refused:
            error = refused.response["Error"]
            status = refused.response["ResponseMetadata"]["HTTPStatusCode"]
            return str(error["Code"]), int(status), str(error.get("Message", ""))
        return "", 200, ""


def table() -> list[Refused]:
    rows = yaml.safe_load(TABLE.read_text())
    found = []
    for name, row in rows.items():
        (service, operation), (code, status, message) = row["call"], row["says"]
        found.append(Refused(name, service, operation, row["with"], code, status, message, row["seen"]))
    return found


def named_by(client: Callable[[str], Any]) -> dict[str, Any]:
    """Create the resources that the requests name. `client` returns a service's client."""
    mark, now = uuid.uuid4().hex[:8], datetime.now(UTC)
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = client("iam").create_role(RoleName=f"refused-{mark}", AssumeRolePolicyDocument=document)["Role"]
    client("s3").create_bucket(Bucket=f"refused-{mark}")
    client("s3").put_object(Bucket=f"refused-{mark}", Key="key", Body=b"text")
    client("dynamodb").create_table(
        TableName=f"refused-{mark}",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    client("logs").create_log_group(logGroupName=f"refused-{mark}")
    client("logs").create_log_stream(logGroupName=f"refused-{mark}", logStreamName="stream")
    queue = f"arn:aws:sqs:us-east-1:123456789012:refused-{mark}"
    client("events").put_rule(Name=f"refused-{mark}", EventPattern='{"source": ["none"]}')
    client("events").put_targets(Rule=f"refused-{mark}", Targets=[{"Id": "0", "Arn": queue}])
    ends = json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
    machine = client("stepfunctions").create_state_machine(
        name=f"refused-{mark}", definition=ends, roleArn=role["Arn"]
    )
    arn = machine["stateMachineArn"]
    execution = client("stepfunctions").start_execution(stateMachineArn=arn, name="taken", input="0")
    topic = client("sns").create_topic(Name=f"refused-{mark}")["TopicArn"]
    return {
        "$TOPIC": topic,
        "$LARGE": json.dumps({"text": "x" * 262_144}),
        "$EXECUTION": execution["executionArn"],
        "$ROLE": role["Arn"],
        "$ROLE_NAME": role["RoleName"],
        **dict.fromkeys(("$BUCKET", "$TABLE", "$GROUP", "$RULE"), f"refused-{mark}"),
        "$QUEUE": queue,
        "$MACHINE": arn,
        "$NOW": int(time.time() * 1000),
        "$BEFORE": int(time.time() * 1000) - 60_000,
        "$NOW_TIME": now,
        "$DAY_BEFORE": now - timedelta(days=1),
    }


def filled(value: Any, named: Mapping[str, Any]) -> Any:
    """Replace each $NAME with the created resource."""
    match value:
        case str():
            return named.get(value, value)
        case dict():
            return {key: filled(each, named) for key, each in value.items()}
        case list():
            return [filled(each, named) for each in value]
        case _:
            return value
