"""IAM's delay: new roles, profiles and policies are unknown for a while, and removed ones keep working."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Cloud, Credentials, allow

IMAGE = "ami-0b5eacf05cf9e0001"


@pytest.fixture
def late(cloud: Cloud) -> Iterator[None]:
    """Delay changes for longer than a test takes."""
    yield None
    cloud.command("fault", "clear")


def delay(cloud: Cloud) -> None:
    cloud.command("fault", "iam-delay", "600")


def refused(call: Any, **request: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(**request)
    return str(error.value.response["Error"]["Message"])


def create_function(cloud: Cloud, role: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("code.py", "def handler(event, context): return event")
    cloud.client("lambda").create_function(
        FunctionName=f"function-{uuid.uuid4().hex[:8]}",
        Runtime="python3.12",
        Handler="code.handler",
        Role=role,
        Code={"ZipFile": packed.getvalue()},
    )


def assumed(cloud: Cloud, role: str) -> Credentials:
    given = cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


def test_lambda_and_ec2_do_not_know_a_new_role_and_a_new_profile(cloud: Cloud, late: None) -> None:
    delay(cloud)
    role, name = cloud.role("lambda.amazonaws.com"), f"profile-{uuid.uuid4().hex[:8]}"
    cloud.client("iam").create_instance_profile(InstanceProfileName=name)
    launch = {"ImageId": IMAGE, "InstanceType": "m7i.large", "MinCount": 1, "MaxCount": 1}
    launch |= {"IamInstanceProfile": {"Name": name}, "DryRun": True}
    unknown = "The role defined for the function cannot be assumed by Lambda."
    assert refused(create_function, cloud=cloud, role=role) == unknown
    assert "Invalid IAM Instance Profile name" in refused(cloud.client("ec2").run_instances, **launch)
    assert "changes in IAM take effect 600 s later" in cloud.command("fault", "list").stdout
    cloud.command("fault", "clear")
    create_function(cloud, role)
    assert "would have succeeded" in refused(cloud.client("ec2").run_instances, **launch)


def test_a_removed_policy_and_a_removed_role_keep_working(cloud: Cloud, late: None) -> None:
    iam, role = cloud.client("iam"), cloud.role("root", allow("sns:ListTopics", "*"))
    name = role.rpartition("/")[2]
    topics = cloud.client("sns", assumed(cloud, role))
    delay(cloud)
    (policy,) = iam.list_role_policies(RoleName=name)["PolicyNames"]
    iam.delete_role_policy(RoleName=name, PolicyName=policy)
    topics.list_topics()
    iam.delete_role(RoleName=name)
    topics.list_topics()
    cloud.command("fault", "clear")
    assert "not authorized" in refused(topics.list_topics)


def test_a_new_policy_is_not_in_force_yet(cloud: Cloud, late: None) -> None:
    role = cloud.role("root", allow("sns:ListTopics", "*"))
    topics = cloud.client("sns", assumed(cloud, role))
    delay(cloud)
    document = json.dumps({"Version": "2012-10-17", "Statement": [allow("sns:ListSubscriptions", "*")]})
    cloud.client("iam").put_role_policy(
        RoleName=role.rpartition("/")[2], PolicyName="new", PolicyDocument=document
    )
    assert "not authorized" in refused(topics.list_subscriptions)
    cloud.command("fault", "clear")
    topics.list_subscriptions()
