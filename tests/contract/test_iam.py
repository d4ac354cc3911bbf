"""IAM enforcement: every (action, resource) pair of a request, and every passed role."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, allow, packed
from trainyard.protocol import sources

TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/iam-matrix"
BUS = f"arn:aws:events:{REGION}:{ACCOUNT}:event-bus"
PARAMETER = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter"
Call = Callable[[Any], Any]


@pytest.fixture(scope="module", autouse=True)
def things(cloud: Cloud) -> None:
    key = {"AttributeName": "pk", "KeyType": "HASH"}
    cloud.client("dynamodb").create_table(
        TableName="iam-matrix",
        KeySchema=[key],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    cloud.client("s3").create_bucket(Bucket="iam-matrix")
    cloud.client("s3").put_object(Bucket="iam-matrix", Key="a/1", Body=b"1")
    for name in ("one", "two"):
        cloud.client("ssm").put_parameter(Name=f"/matrix/{name}", Value=name, Type="String")
    cloud.client("events").create_event_bus(Name="matrix")


def event(**more: str) -> dict[str, str]:
    return {"Source": "trainyard.host", "DetailType": "ready", "Detail": "{}", **more}


def put_item(client: Any) -> Any:
    return client.put_item(TableName="iam-matrix", Item={"pk": {"S": "1"}})


def transact(client: Any) -> Any:
    put = {"Put": {"TableName": "iam-matrix", "Item": {"pk": {"S": "2"}}}}
    check = {
        "ConditionCheck": {
            "TableName": "iam-matrix",
            "Key": {"pk": {"S": "1"}},
            "ConditionExpression": "attribute_exists(pk) OR attribute_not_exists(pk)",
        }
    }
    return client.transact_write_items(TransactItems=[put, check])


def metric(namespace: str) -> Call:
    return lambda client: client.put_metric_data(
        Namespace=namespace, MetricData=[{"MetricName": "m", "Value": 1.0}]
    )


def put_events(*entries: dict[str, str]) -> Call:
    return lambda client: client.put_events(Entries=list(entries))


def read(bucket: str, key: str) -> Call:
    return lambda client: client.get_object(Bucket=bucket, Key=key)


def get_parameters(*names: str) -> Call:
    return lambda client: client.get_parameters(Names=list(names))


NAMESPACE: dict[str, Any] = {"StringEquals": {"cloudwatch:namespace": "Yard"}}
SOURCE: dict[str, Any] = {"StringEquals": {"events:source": "trainyard.host"}}
TLS: dict[str, Any] = {"Bool": {"aws:SecureTransport": "true"}}
REGIONAL: dict[str, Any] = {"StringEquals": {"aws:RequestedRegion": REGION}}

MATRIX = [
    # name, statements, service, call, refused action (None: allowed)
    (
        "an allowed action on the allowed table",
        [allow("dynamodb:PutItem", TABLE)],
        "dynamodb",
        put_item,
        None,
    ),
    (
        "the same action on another table",
        [allow("dynamodb:PutItem", TABLE + "x")],
        "dynamodb",
        put_item,
        "dynamodb:PutItem",
    ),
    (
        "another action on the table",
        [allow("dynamodb:GetItem", TABLE)],
        "dynamodb",
        put_item,
        "dynamodb:PutItem",
    ),
    (
        "an explicit deny beside an allow",
        [allow("dynamodb:*"), {"Effect": "Deny", "Action": "dynamodb:PutItem", "Resource": "*"}],
        "dynamodb",
        put_item,
        "dynamodb:PutItem",
    ),
    (
        "a transaction with all of its actions",
        [allow(["dynamodb:PutItem", "dynamodb:ConditionCheckItem"], TABLE)],
        "dynamodb",
        transact,
        None,
    ),
    (
        "a transaction without one of its actions",
        [allow("dynamodb:PutItem", TABLE)],
        "dynamodb",
        transact,
        "dynamodb:ConditionCheckItem",
    ),
    (
        "an object",
        [allow("s3:GetObject", "arn:aws:s3:::iam-matrix/a/*")],
        "s3",
        read("iam-matrix", "a/1"),
        None,
    ),
    (
        "an object under another prefix",
        [allow("s3:GetObject", "arn:aws:s3:::iam-matrix/b/*")],
        "s3",
        read("iam-matrix", "a/1"),
        "s3:GetObject",
    ),
    (
        "an object that is not there, for one who may not list",
        [allow("s3:GetObject", "arn:aws:s3:::iam-matrix/a/*")],
        "s3",
        read("iam-matrix", "a/2"),
        "s3:ListBucket",
    ),
    (
        "a policy that demands TLS, on loopback",
        [allow("dynamodb:PutItem", TABLE, **TLS)],
        "dynamodb",
        put_item,
        None,
    ),
    (
        "the region that was asked for",
        [allow("dynamodb:PutItem", TABLE, **REGIONAL)],
        "dynamodb",
        put_item,
        None,
    ),
    (
        "a metric in the allowed namespace",
        [allow("cloudwatch:PutMetricData", **NAMESPACE)],
        "cloudwatch",
        metric("Yard"),
        None,
    ),
    (
        "a metric in another namespace",
        [allow("cloudwatch:PutMetricData", **NAMESPACE)],
        "cloudwatch",
        metric("Other"),
        "cloudwatch:PutMetricData",
    ),
    (
        "an event with the allowed source",
        [allow("events:PutEvents", f"{BUS}/matrix", **SOURCE)],
        "events",
        put_events(event(EventBusName="matrix")),
        None,
    ),
    (
        "an event with another source",
        [allow("events:PutEvents", f"{BUS}/matrix", **SOURCE)],
        "events",
        put_events(event(EventBusName="matrix", Source="somebody.else")),
        "events:PutEvents",
    ),
    (
        "two events, one of them to another bus",
        [allow("events:PutEvents", f"{BUS}/matrix", **SOURCE)],
        "events",
        put_events(event(EventBusName="matrix"), event()),
        "events:PutEvents",
    ),
    (
        "two events, one of them with another source",
        [allow("events:PutEvents", f"{BUS}/matrix", **SOURCE)],
        "events",
        put_events(event(EventBusName="matrix"), event(EventBusName="matrix", Source="x")),
        "events:PutEvents",
    ),
    (
        "two parameters that are both allowed",
        [allow("ssm:GetParameters", f"{PARAMETER}/matrix/*")],
        "ssm",
        get_parameters("/matrix/one", "/matrix/two"),
        None,
    ),
    (
        "two parameters, one of them not allowed",
        [allow("ssm:GetParameters", f"{PARAMETER}/matrix/one")],
        "ssm",
        get_parameters("/matrix/one", "/matrix/two"),
        "ssm:GetParameters",
    ),
]


@pytest.mark.parametrize(
    ("statements", "service", "call", "refused"), [pytest.param(*r[1:], id=r[0]) for r in MATRIX]
)
def test_a_request_is_allowed_when_every_pair_of_it_is(
    cloud: Cloud, statements: list[Any], service: str, call: Call, refused: str | None
) -> None:
    client = cloud.client(service, cloud.acting_as(*statements))
    if refused is None:
        call(client)
        return
    with pytest.raises(ClientError, match=refused) as denied:
        call(client)
    assert denied.value.response["Error"]["Code"] in ("AccessDeniedException", "AccessDenied")


def create_function(client: Any, role: str) -> None:
    client.create_function(
        FunctionName=f"passed-{role.rsplit('-', 1)[-1]}",
        Runtime="python3.11",
        Handler="index.handler",
        Role=role,
        Code={"ZipFile": packed("")},
    )


def create_machine(client: Any, role: str) -> None:
    states = {"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}
    client.create_state_machine(
        name=f"passed-{role.rsplit('-', 1)[-1]}", definition=json.dumps(states), roleArn=role
    )


def put_targets(client: Any, role: str) -> None:
    client.put_rule(Name="passed", EventPattern=json.dumps({"source": ["nobody"]}), State="DISABLED")
    machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:none"
    client.put_targets(Rule="passed", Targets=[{"Id": "1", "Arn": machine, "RoleArn": role}])


def create_schedule(client: Any, role: str) -> None:
    client.create_schedule(
        Name=f"passed-{role.rsplit('-', 1)[-1]}",
        ScheduleExpression="rate(1 hour)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={"Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:none", "RoleArn": role},
    )


@pytest.mark.parametrize(
    ("service", "principal", "actions", "call"),
    [
        ("lambda", "lambda.amazonaws.com", ["lambda:CreateFunction"], create_function),
        ("stepfunctions", "states.amazonaws.com", ["states:CreateStateMachine"], create_machine),
        ("events", "events.amazonaws.com", ["events:PutRule", "events:PutTargets"], put_targets),
        ("scheduler", "scheduler.amazonaws.com", ["scheduler:CreateSchedule"], create_schedule),
    ],
)
def test_handing_a_role_to_a_service_needs_pass_role_for_that_service(
    cloud: Cloud, service: str, principal: str, actions: list[str], call: Callable[[Any, str], None]
) -> None:
    role = cloud.role(principal)
    to_it = {"StringEquals": {"iam:PassedToService": principal}}
    to_another = {"StringEquals": {"iam:PassedToService": "glue.amazonaws.com"}}
    for statements in ([allow(actions)], [allow(actions), allow("iam:PassRole", role, **to_another)]):
        with pytest.raises(ClientError, match=f"iam:PassRole on resource: {role}"):
            call(cloud.client(service, cloud.acting_as(*statements)), role)
    allowed = cloud.acting_as(allow(actions), allow("iam:PassRole", role, **to_it))
    call(cloud.client(service, allowed), role)


@pytest.fixture(scope="module")
def two_hosts(cloud: Cloud) -> Iterator[dict[str, str]]:
    """Yield the ids of two tagged instances: {"ours": id, "theirs": id}."""
    ec2 = cloud.client("ec2")
    image = cloud.client("ssm").get_parameter(
        Name="/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
    )["Parameter"]["Value"]
    found = {}
    for yard in ("ours", "theirs"):
        tags = [{"ResourceType": "instance", "Tags": [{"Key": "trainyard:yard", "Value": yard}]}]
        made = ec2.run_instances(
            ImageId=image, InstanceType="t3.micro", MinCount=1, MaxCount=1, TagSpecifications=tags
        )
        found[yard] = made["Instances"][0]["InstanceId"]
    yield found
    ec2.terminate_instances(InstanceIds=list(found.values()))


SHELL = f"arn:aws:ssm:{REGION}::document/AWS-RunShellScript"
OURS = {"StringEquals": {"ssm:resourceTag/trainyard:yard": "ours"}}
HOSTS = f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/*"
SEND_TO_OURS = [allow("ssm:SendCommand", SHELL), allow("ssm:SendCommand", HOSTS, **OURS)]


@pytest.mark.parametrize(
    ("statements", "target", "refused"),
    [
        pytest.param(SEND_TO_OURS, ["ours"], None, id="the document and the instance are allowed"),
        pytest.param(SEND_TO_OURS, ["theirs"], "theirs", id="another's instance"),
        pytest.param(SEND_TO_OURS, ["ours", "theirs"], "theirs", id="one of two instances is another's"),
        pytest.param(SEND_TO_OURS[1:], ["ours"], "document/AWS-RunShellScript", id="the document is not"),
        pytest.param(SEND_TO_OURS, "ours", None, id="by the tag of ours"),
        pytest.param(SEND_TO_OURS, "theirs", "theirs", id="by the tag of theirs"),
    ],
)
def test_a_command_needs_its_document_and_every_instance_it_reaches(
    cloud: Cloud,
    two_hosts: dict[str, str],
    statements: list[Any],
    target: list[str] | str,
    refused: str | None,
) -> None:
    client = cloud.client("ssm", cloud.acting_as(*statements))
    if isinstance(target, str):
        where: dict[str, Any] = {"Targets": [{"Key": "tag:trainyard:yard", "Values": [target]}]}
    else:
        where = {"InstanceIds": [two_hosts[name] for name in target]}

    def outcome() -> tuple[str, str]:
        """Return the outcome of the command. Without an agent on the hosts it fails after the check of permissions."""
        try:
            client.send_command(DocumentName="AWS-RunShellScript", Parameters={"commands": ["true"]}, **where)
        except ClientError as error:
            return error.response["Error"]["Code"], error.response["Error"]["Message"]
        return "accepted", ""

    code, message = outcome()
    if refused is None:
        assert code in ("accepted", "InvalidInstanceId")
    else:
        assert code == "AccessDeniedException"
        assert "ssm:SendCommand on resource: arn:aws:" in message
        assert two_hosts.get(refused, refused) in message


def test_a_denial_says_who_may_not_do_what_on_what(cloud: Cloud) -> None:
    client = cloud.client("dynamodb", cloud.acting_as(allow("s3:*")))
    with pytest.raises(ClientError) as denied:
        put_item(client)
    message = denied.value.response["Error"]["Message"]
    assert f"is not authorized to perform: dynamodb:PutItem on resource: {TABLE}" in message
    assert "because no identity-based policy allows the dynamodb:PutItem action" in message
    assert f"User: arn:aws:sts::{ACCOUNT}:assumed-role/" in message


def test_a_wrong_secret_key_is_refused(cloud: Cloud) -> None:
    real = cloud.acting_as(allow("dynamodb:PutItem"))
    with pytest.raises(ClientError, match="signature"):
        put_item(cloud.client("dynamodb", Credentials(real.key, "wrong", real.token)))


def test_a_key_nobody_issued_is_refused(cloud: Cloud) -> None:
    with pytest.raises(ClientError, match="security token included in the request is invalid"):
        put_item(cloud.client("dynamodb", Credentials("AKIANOBODYNOBODYNOBO", "x")))


def test_an_answer_to_a_task_is_judged_by_its_state_machine(cloud: Cloud) -> None:
    from localcloud.base import task_tokens

    machine = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:mine"
    client = cloud.client("stepfunctions", cloud.acting_as(allow("states:SendTaskSuccess", machine)))
    with pytest.raises(ClientError) as late:
        client.send_task_success(taskToken=task_tokens.issue(machine), output="1")
    assert late.value.response["Error"]["Code"] == "TaskTimedOut"
    with pytest.raises(ClientError, match="states:SendTaskSuccess") as foreign:
        client.send_task_success(taskToken=task_tokens.issue(machine + "x"), output="1")
    assert foreign.value.response["Error"]["Code"] == "AccessDeniedException"


def test_a_policy_variable_has_its_value_in_the_request(cloud: Cloud) -> None:
    """Test variables in resources and conditions. A missing key matches only with a default."""
    bucket, objects = "iam-matrix", "arn:aws:s3:::iam-matrix"
    acting = cloud.acting_as(
        allow("s3:PutObject", f"{objects}/own/${{aws:userid}}.json"),
        allow("s3:PutObject", f"{objects}/named/${{aws:username}}"),
        allow("s3:PutObject", f"{objects}/default/${{aws:username, 'nobody'}}"),
        allow("events:PutEvents", StringEquals={"events:source": "host/${aws:userid}"}),
    )
    me = cloud.client("sts", acting).get_caller_identity()["UserId"]
    s3, events = cloud.client("s3", acting), cloud.client("events", acting)
    for key in (f"own/{me}.json", "default/nobody"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    for key in ("own/AROAOTHER:i-1.json", "own/${aws:userid}.json", f"own/x{me}.json", "named/", "named/x"):
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.put_object(Bucket=bucket, Key=key, Body=b"")
    events.put_events(Entries=[event(Source=f"host/{me}")])
    for source in ("host/AROAOTHER:i-1", "host/${aws:userid}", f"host/{me}x"):
        with pytest.raises(ClientError, match="AccessDenied"):
            events.put_events(Entries=[event(Source=source)])


EVERY_SOURCE = sources.only_from("trainyard.host", "trainyard.people/ada")
SEVERAL: list[tuple[str, dict[str, Any], tuple[str, ...], bool]] = [
    # name, condition, sources of the entries, expected permission
    ("one of those that are named", EVERY_SOURCE, ("trainyard.host",), True),
    ("twice the same one", EVERY_SOURCE, ("trainyard.host", "trainyard.host"), True),
    ("a stranger behind one's own", EVERY_SOURCE, ("trainyard.host", "trainyard.patrol"), False),
    ("a stranger before one's own", EVERY_SOURCE, ("trainyard.patrol", "trainyard.host"), False),
    (
        "a set operator allows a set",
        {"ForAllValues:StringEquals": {"events:source": ["a", "b"]}},
        ("a", "b"),
        True,
    ),
    (
        "unless one of it is a stranger",
        {"ForAllValues:StringEquals": {"events:source": ["a"]}},
        ("a", "b"),
        False,
    ),
    (
        "how a plain operator compares a set is not documented: it allows none",
        {"StringEquals": {"events:source": ["a", "b"]}},
        ("a", "b"),
        False,
    ),
]


@pytest.mark.parametrize(
    ("case", "condition", "sources", "allowed"), SEVERAL, ids=[case[0] for case in SEVERAL]
)
def test_an_array_in_a_condition_is_compared_as_a_set(
    cloud: Cloud, case: str, condition: dict[str, Any], sources: tuple[str, ...], allowed: bool
) -> None:
    events = cloud.client("events", cloud.acting_as(allow("events:PutEvents", **condition)))
    entries = [event(Source=source) for source in sources]
    if allowed:
        assert events.put_events(Entries=entries)["FailedEntryCount"] == 0, case
        return
    with pytest.raises(ClientError, match="AccessDenied"):
        events.put_events(Entries=entries)


def test_a_user_of_the_account_is_held_to_her_own_name(cloud: Cloud) -> None:
    """Test users by name and by id, with names that share a prefix."""
    bucket, iam = "iam-matrix", cloud.client("iam")
    mine = [f"arn:aws:s3:::{bucket}/by/${{{key}}}/*" for key in ("aws:username", "aws:userid")]
    user = iam.create_user(UserName="alice")["User"]
    policy = {"Version": "2012-10-17", "Statement": [allow("s3:PutObject", mine)]}
    iam.put_user_policy(UserName="alice", PolicyName="own", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    s3 = cloud.client("s3", Credentials(key["AccessKeyId"], key["SecretAccessKey"]))
    try:
        for own in ("by/alice/x.yaml", "by/alice/deep/er.yaml", f"by/{user['UserId']}/x.yaml"):
            s3.put_object(Bucket=bucket, Key=own, Body=b"")
        for other in ("by/bob/x.yaml", "by/alicea/x.yaml", "by/alice", "by/x.yaml", "x.yaml", "by/*/x.yaml"):
            with pytest.raises(ClientError, match="AccessDenied"):
                s3.put_object(Bucket=bucket, Key=other, Body=b"")
    finally:
        iam.delete_access_key(UserName="alice", AccessKeyId=key["AccessKeyId"])
        iam.delete_user_policy(UserName="alice", PolicyName="own")
        iam.delete_user(UserName="alice")


MORE_THAN_A_WRITE = [
    # name of the action, arguments of PutObject
    ("PutObjectTagging", {"Tagging": "a=b"}),
    ("PutObjectTagging", {"Tagging": "a="}),
    ("PutObjectAcl", {"ACL": "bucket-owner-full-control"}),
    ("PutObjectAcl", {"GrantRead": 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'}),
    (
        "PutObjectRetention",
        {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": "2099-01-01T00:00:00Z"},
    ),
    ("PutObjectLegalHold", {"ObjectLockLegalHoldStatus": "ON"}),
]


@pytest.mark.parametrize(("action", "given"), MORE_THAN_A_WRITE, ids=[str(row) for row in MORE_THAN_A_WRITE])
def test_rights_tags_and_locks_of_a_new_object_take_a_permission_of_their_own(
    cloud: Cloud, action: str, given: dict[str, str]
) -> None:
    writer = cloud.client("s3", cloud.acting_as(allow("s3:PutObject", "arn:aws:s3:::iam-matrix/*")))
    writer.put_object(Bucket="iam-matrix", Key="a/2", Body=b"2")
    for call, body in ((writer.put_object, {"Body": b"2"}), (writer.create_multipart_upload, {})):
        with pytest.raises(ClientError) as refused:
            call(Bucket="iam-matrix", Key="a/2", **body, **given)
        assert f"not authorized to perform: s3:{action} on resource" in str(refused.value)


def test_an_object_is_tagged_by_who_may_tag(cloud: Cloud) -> None:
    both = allow(["s3:PutObject", "s3:PutObjectTagging"], "arn:aws:s3:::iam-matrix/*")
    cloud.client("s3", cloud.acting_as(both)).put_object(
        Bucket="iam-matrix", Key="a/2", Body=b"2", Tagging="a=b"
    )
    (found,) = cloud.client("s3").get_object_tagging(Bucket="iam-matrix", Key="a/2")["TagSet"]
    assert found == {"Key": "a", "Value": "b"}
