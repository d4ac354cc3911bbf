"""Checks that create something small, and delete it again."""

import json
import uuid

from botocore.exceptions import ClientError

from scripts.aws_check.check import Account, Check, Finding, Stage, Verdict, expect

LONGEST_KEY = "k" * 1020


def _name() -> str:
    return f"trainyard-check-{uuid.uuid4().hex[:12]}"


def _bucket(account: Account) -> str:
    name = _name()
    place = {"LocationConstraint": account.region}
    more = {} if account.region == "us-east-1" else {"CreateBucketConfiguration": place}
    account.call("s3", "create_bucket", Bucket=name, **more)
    account.undo.append(lambda: account.call("s3", "delete_bucket", Bucket=name))
    return name


def first_write(account: Account) -> Finding:
    """S3 accepts the first of two conditional writes of one key."""
    bucket = _bucket(account)
    account.undo.append(lambda: account.call("s3", "delete_object", Bucket=bucket, Key="one"))
    account.call("s3", "put_object", Bucket=bucket, Key="one", Body=b"1", IfNoneMatch="*")
    code = account.refusal("s3", "put_object", Bucket=bucket, Key="one", Body=b"2", IfNoneMatch="*")
    return expect(code == "PreconditionFailed", f"the second write: {code or 'accepted'}")


def missing_objects(account: Account) -> Finding:
    bucket = _bucket(account)
    key = account.refusal("s3", "get_object", Bucket=bucket, Key="none")
    head = account.refusal("s3", "head_object", Bucket=bucket, Key="none")
    return expect((key, head) == ("NoSuchKey", "404"), f"GetObject: {key}; HeadObject: {head}")


def long_keys(account: Account) -> Finding:
    bucket = _bucket(account)
    account.call("s3", "put_object", Bucket=bucket, Key=LONGEST_KEY, Body=b"")
    listed = account.call("s3", "list_objects_v2", Bucket=bucket).get("Contents", [])
    given = {"Objects": [{"Key": LONGEST_KEY}]}
    errors = account.call("s3", "delete_objects", Bucket=bucket, Delete=given).get("Errors", [])
    return expect(
        len(listed) == 1 and not errors, f"{len(listed)} listed, {len(errors)} errors of DeleteObjects"
    )


def transactions(account: Account) -> Finding:
    """DynamoDB numbers the reasons by write, and accepts a condition on a path in a map."""
    table = _name()
    account.call(
        "dynamodb",
        "create_table",
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    account.undo.append(lambda: account.call("dynamodb", "delete_table", TableName=table))
    described = account.until(
        lambda: (
            account.call("dynamodb", "describe_table", TableName=table)["Table"]["TableStatus"] == "ACTIVE"
        ),
        120,
    )
    if described is None:
        return Finding(Verdict.UNKNOWN, "the table did not become active within 120 s")
    row = {"pk": {"S": "a"}, "progress": {"M": {"attempt": {"N": "2"}}}}
    account.call("dynamodb", "put_item", TableName=table, Item=row)
    update = {
        "TableName": table,
        "Key": {"pk": {"S": "a"}},
        "UpdateExpression": "SET seen = :one",
        "ConditionExpression": "progress.attempt < :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    other = {"TableName": table, "Item": {"pk": {"S": "b"}}}
    try:
        account.call("dynamodb", "transact_write_items", TransactItems=[{"Put": other}, {"Update": update}])
    except ClientError as error:
        codes = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
        return expect(codes == ["None", "ConditionalCheckFailed"], f"CancellationReasons: {codes}")
    return expect(False, "the transaction was accepted")


def sources(account: Account) -> Finding:
    entry = {
        "Source": "trainyard.host/AROAEXAMPLE:i-0123456789abcdef0",
        "DetailType": "HostSignal",
        "Detail": json.dumps({"signal": "check"}),
    }
    answer = account.call("events", "put_events", Entries=[entry])
    refused = [each.get("ErrorCode") for each in answer["Entries"] if each.get("ErrorCode")]
    return expect(not refused, f"PutEvents with a colon and a slash in its source: {refused or 'accepted'}")


def subjects(account: Account) -> Finding:
    topic = account.call("sns", "create_topic", Name=_name())["TopicArn"]
    account.undo.append(lambda: account.call("sns", "delete_topic", TopicArn=topic))
    longest = account.refusal("sns", "publish", TopicArn=topic, Subject="s" * 100, Message="check")
    longer = account.refusal("sns", "publish", TopicArn=topic, Subject="s" * 101, Message="check")
    return expect(
        not longest and bool(longer), f"100 characters: {longest or 'accepted'}, 101: {longer or 'accepted'}"
    )


def new_roles(account: Account) -> Finding:
    """Step Functions refuses a role that was created seconds ago, or accepts it at once; measure for how long."""
    role, machine = _name(), _name()
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    arn = account.call("iam", "create_role", RoleName=role, AssumeRolePolicyDocument=json.dumps(trust))[
        "Role"
    ]["Arn"]
    account.undo.append(lambda: account.call("iam", "delete_role", RoleName=role))
    definition = json.dumps({"StartAt": "End", "States": {"End": {"Type": "Succeed"}}})
    made: list[str] = []

    def is_made() -> bool:
        answer = account.call(
            "stepfunctions", "create_state_machine", name=machine, definition=definition, roleArn=arn
        )
        made.append(answer["stateMachineArn"])
        return True

    seconds = account.until(is_made, 60)
    if seconds is None:
        return expect(False, "Step Functions did not accept the role within 60 s")
    account.undo.append(
        lambda: account.call("stepfunctions", "delete_state_machine", stateMachineArn=made[0])
    )
    started = account.call("stepfunctions", "start_execution", stateMachineArn=made[0], name="one")[
        "executionArn"
    ]
    account.until(
        lambda: (
            account.call("stepfunctions", "describe_execution", executionArn=started)["status"] != "RUNNING"
        ),
        60,
    )
    again = account.refusal(
        "stepfunctions", "start_execution", stateMachineArn=made[0], name="one", input='{"a": 1}'
    )
    stopped = account.refusal("stepfunctions", "stop_execution", executionArn=started)
    return expect(
        again == "ExecutionAlreadyExists" and stopped in ("", "ValidationException"),
        f"the role was accepted after {seconds:.0f} s; the second start: {again or 'accepted'}; "
        f"StopExecution of an ended execution: {stopped or 'accepted'}",
    )


CHECKS = (
    Check("first-write", "S3 refuses the second of two writes with If-None-Match.", Stage.CENTS, first_write),
    Check("missing-objects", "S3 answers NoSuchKey or 404 for a missing key.", Stage.CENTS, missing_objects),
    Check("long-keys", "S3 lists and deletes keys of nearly 1,024 bytes.", Stage.CENTS, long_keys),
    Check(
        "transactions",
        "DynamoDB numbers cancellation reasons by write, and accepts conditions on a path in a map.",
        Stage.CENTS,
        transactions,
    ),
    Check("sources", "EventBridge accepts the source of a host's signal.", Stage.CENTS, sources),
    Check("subjects", "SNS accepts a subject of 100 characters and no longer one.", Stage.CENTS, subjects),
    Check(
        "executions",
        "Step Functions refuses a used name, and a stop of an ended execution changes nothing.",
        Stage.CENTS,
        new_roles,
    ),
)
