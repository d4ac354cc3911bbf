"""STS: session policies, durations, and trust policies."""

import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.contract.conftest import REGION, Cloud, Credentials, allow

POLICY = {"Version": "2012-10-17"}


@pytest.fixture
def bucket(cloud: Cloud) -> str:
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=name)
    for key in ("mine/a", "theirs/a"):
        s3.put_object(Bucket=name, Key=key, Body=b"text")
    return name


def session(cloud: Cloud, role: str, *, by: Credentials | None = None, **more: Any) -> Credentials:
    sts = cloud.client("sts", by) if by else cloud.client("sts")
    given = sts.assume_role(**{"RoleArn": role, "RoleSessionName": "i-0123456789abcdef0"} | more)[
        "Credentials"
    ]
    return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


def unchecked(cloud: Cloud) -> Any:
    """Return a client without local validation."""
    return boto3.client(
        "sts",
        endpoint_url=cloud.endpoint,
        region_name=REGION,
        aws_access_key_id=cloud.root.key,
        aws_secret_access_key=cloud.root.secret,
        config=Config(parameter_validation=False, retries={"max_attempts": 0}),
    )


def code(call: Callable[..., Any], **request: Any) -> str:
    try:
        call(**request)
    except ClientError as refused:
        return str(refused.response["Error"]["Code"])
    return "done"


def test_a_session_may_what_role_and_policy_both_allow(cloud: Cloud, bucket: str) -> None:
    objects = f"arn:aws:s3:::{bucket}"
    role = cloud.role("root", allow("s3:GetObject", f"{objects}/*"))
    policy = json.dumps(POLICY | {"Statement": [allow("s3:*", f"{objects}/mine/*")]})
    s3 = cloud.client("s3", session(cloud, role, Policy=policy))
    assert code(s3.get_object, Bucket=bucket, Key="mine/a") == "done"
    assert code(s3.get_object, Bucket=bucket, Key="theirs/a") == "AccessDenied"
    assert code(s3.put_object, Bucket=bucket, Key="mine/b", Body=b"") == "AccessDenied", "the role may not"
    whole = cloud.client("s3", session(cloud, role))
    assert code(whole.get_object, Bucket=bucket, Key="theirs/a") == "done"


def test_a_sessions_policy_has_conditions_too(cloud: Cloud, bucket: str) -> None:
    arn = f"arn:aws:s3:::{bucket}"
    role = cloud.role("root", allow("s3:ListBucket", arn))
    listing = allow("s3:ListBucket", arn, StringLikeIfExists={"s3:prefix": ["mine/*"]})
    s3 = cloud.client("s3", session(cloud, role, Policy=json.dumps(POLICY | {"Statement": [listing]})))
    assert code(s3.list_objects_v2, Bucket=bucket, Prefix="mine/") == "done"
    assert code(s3.list_objects_v2, Bucket=bucket, Prefix="theirs/") == "AccessDenied"


def test_a_policy_is_no_longer_than_2048_characters_and_is_one(cloud: Cloud) -> None:
    role, sts = cloud.role("root"), cloud.client("sts")
    asked = {"RoleArn": role, "RoleSessionName": "name"}
    long = json.dumps(POLICY | {"Statement": [allow("s3:GetObject", f"arn:aws:s3:::{'b' * 2048}")]})
    assert code(sts.assume_role, **asked, Policy=long) == "ValidationError"
    assert code(sts.assume_role, **asked, Policy="{}") == "MalformedPolicyDocument"


@pytest.mark.parametrize(
    "asked",
    [
        {"DurationSeconds": 899},
        {"DurationSeconds": 43_201},
        {"DurationSeconds": 7200},
        {"RoleSessionName": "a b"},
    ],
    ids=["too short", "too long", "longer than the role lets it", "no name"],
)
def test_what_sts_refuses(cloud: Cloud, asked: dict[str, Any]) -> None:
    request = {"RoleArn": cloud.role("root"), "RoleSessionName": "name"} | asked
    assert code(unchecked(cloud).assume_role, **request) == "ValidationError"


def test_who_has_a_session_itself_gets_one_hour_at_most(cloud: Cloud) -> None:
    role = cloud.role("root")
    name = role.rpartition("/")[2]
    cloud.client("iam").update_role(RoleName=name, MaxSessionDuration=43_200)
    chained = cloud.acting_as(allow("sts:AssumeRole", role))
    sts = cloud.client("sts", chained)
    asked = {"RoleArn": role, "RoleSessionName": "name"}
    assert code(sts.assume_role, **asked, DurationSeconds=3601) == "ValidationError"
    until = sts.assume_role(**asked, DurationSeconds=3600)["Credentials"]["Expiration"]
    assert 3500 < (until - datetime.now(UTC)).total_seconds() <= 3600
    assert code(cloud.client("sts").assume_role, **asked, DurationSeconds=7200) == "done"


def test_a_role_is_taken_by_whom_it_trusts_and_who_may_take_it(cloud: Cloud) -> None:
    signal, other = (cloud.role("root", allow("sts:AssumeRole")) for _ in range(2))
    trust = {"Effect": "Allow", "Principal": {"AWS": signal}, "Action": "sts:AssumeRole"}
    name = f"role-{uuid.uuid4().hex[:12]}"
    role = cloud.client("iam").create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps(POLICY | {"Statement": [trust]})
    )["Role"]["Arn"]
    asked = {"RoleArn": role, "RoleSessionName": "name"}
    for who, said in ((signal, "done"), (other, "AccessDenied")):
        assert code(cloud.client("sts", cloud.acting_in(who)).assume_role, **asked) == said


def test_the_token_belongs_to_the_key(cloud: Cloud, bucket: str) -> None:
    role = cloud.role("root", allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*"))
    first, second = session(cloud, role), session(cloud, role)
    for token in (None, second.token):
        s3 = cloud.client("s3", Credentials(first.key, first.secret, token))
        assert code(s3.get_object, Bucket=bucket, Key="mine/a") != "done"


def test_a_sessions_transitive_tags_stay_with_the_sessions_that_it_begins(cloud: Cloud) -> None:
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole", "sts:TagSession"]}
    document = json.dumps(POLICY | {"Statement": [trust]})
    arns = []
    for _ in range(2):
        name = f"role-{uuid.uuid4().hex[:12]}"
        made = cloud.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]
        rights = json.dumps(POLICY | {"Statement": [allow("sts:AssumeRole"), allow("sts:TagSession")]})
        cloud.client("iam").put_role_policy(RoleName=name, PolicyName="chain", PolicyDocument=rights)
        arns.append(made["Arn"])
    first, second = arns
    tags = [{"Key": "team", "Value": "a"}]
    chained = cloud.client("sts", session(cloud, first, Tags=tags, TransitiveTagKeys=["team"]))
    asked = {"RoleArn": second, "RoleSessionName": "name"}
    with pytest.raises(ClientError, match="conflicts with a transitive tag key from the calling session"):
        chained.assume_role(**asked, Tags=[{"Key": "TEAM", "Value": "b"}])
    assert code(chained.assume_role, **asked, Tags=[{"Key": "other", "Value": "b"}]) == "done"
