"""Volumes under customer managed keys: hosts of callers and roles without permission do not start."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, allow
from tests.contract.ec2.conftest import Yard, members
from tests.contract.keys import new_key

ROLES = {
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
    "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet",
}
OF_VOLUMES = ["CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom"]
THROUGH_EC2 = {"StringEquals": {"kms:ViaService": f"ec2.{REGION}.amazonaws.com"}}
DENIED = "Client.InternalError"


@pytest.fixture
def key(cloud: Cloud) -> str:
    return new_key(cloud)


def granted(cloud: Cloud, key: str, *services: str) -> None:
    for service in services:
        role = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{service}/{ROLES[service]}"
        cloud.client("kms").create_grant(KeyId=key, GranteePrincipal=role, Operations=OF_VOLUMES)


def disk(**more: Any) -> dict[str, Any]:
    return {
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100, "Encrypted": True, **more}}
        ]
    }


def end_of(yard: Yard, instance: str) -> str:
    """Return the code of the instance's state reason."""
    ended = yard.becomes(instance, "terminated")
    return str(ended["StateReason"]["Code"])


@pytest.mark.parametrize(
    ("market", "services", "runs"),
    [
        ("spot", (), False),
        ("spot", ("spot.amazonaws.com",), False),
        ("spot", ("spot.amazonaws.com", "ec2fleet.amazonaws.com"), True),
        ("on-demand", (), False),
        ("on-demand", ("ec2fleet.amazonaws.com",), True),
    ],
)
def test_a_fleet_launches_in_the_name_of_roles_that_need_a_grant(
    yard: Yard, key: str, market: str, services: tuple[str, ...], runs: bool
) -> None:
    granted(yard.cloud, key, *services)
    (host,) = members(yard.fleet(yard.template(**disk(KmsKeyId=key)), ["g6.xlarge/a"], 1, market))
    if runs:
        yard.becomes(host, "running")
    else:
        assert end_of(yard, host) == DENIED


def test_a_roles_name_in_the_keys_policy_does_as_well(yard: Yard) -> None:
    roles = [f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{each}/{ROLES[each]}" for each in ROLES]
    own = {
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
        "Action": "kms:*",
        "Resource": "*",
    }
    key = new_key(yard.cloud, own, own | {"Principal": {"AWS": roles}})
    (host,) = members(yard.fleet(yard.template(**disk(KmsKeyId=key)), ["g6.xlarge/a"], 1))
    yard.becomes(host, "running")


LAUNCHES = [allow(["ec2:*", "iam:PassRole", "ssm:GetParameters"])]
USES = [
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
]


@pytest.mark.parametrize("lacks", ["nothing", "use", "grant"])
def test_who_launches_needs_the_key_too(yard: Yard, key: str, lacks: str) -> None:
    for_instance = {**THROUGH_EC2, "Bool": {"kms:GrantIsForAWSResource": "true"}}
    needed = {"use": allow(USES, key, **THROUGH_EC2), "grant": allow("kms:CreateGrant", key, **for_instance)}
    statements = [*LAUNCHES, *(each for name, each in needed.items() if name != lacks)]
    client = yard.cloud.client("ec2", yard.cloud.acting_as(*statements))
    made = client.run_instances(
        ImageId=yard.base, InstanceType="t3.micro", MinCount=1, MaxCount=1, **disk(KmsKeyId=key)
    )["Instances"]
    yard.started += [made[0]["InstanceId"]]
    if lacks == "nothing":
        yard.becomes(made[0]["InstanceId"], "running")
    else:
        assert end_of(yard, made[0]["InstanceId"]) == DENIED


def test_a_key_that_is_disabled_starts_nothing(yard: Yard, key: str) -> None:
    yard.cloud.client("kms").disable_key(KeyId=key)
    (host,) = yard.run(**disk(KmsKeyId=key))
    assert end_of(yard, host) == "Client.InvalidKMSKey.InvalidState"


@pytest.fixture
def by_default(yard: Yard, key: str) -> Iterator[str]:
    """Encrypt every volume of the account with its own key."""
    yard.ec2.enable_ebs_encryption_by_default()
    yard.ec2.modify_ebs_default_kms_key_id(KmsKeyId=key)
    yield key
    yard.ec2.reset_ebs_default_kms_key_id()
    yard.ec2.disable_ebs_encryption_by_default()


def test_an_accounts_own_key_counts_where_nobody_names_one(yard: Yard, by_default: str) -> None:
    assert yard.ec2.get_ebs_default_kms_key_id()["KmsKeyId"] == by_default
    client = yard.cloud.client("ec2", yard.cloud.acting_as(*LAUNCHES))
    (made,) = client.run_instances(ImageId=yard.base, InstanceType="t3.micro", MinCount=1, MaxCount=1)[
        "Instances"
    ]
    yard.started.append(made["InstanceId"])
    assert end_of(yard, made["InstanceId"]) == DENIED


def test_aws_s_own_key_is_the_default_and_asks_for_nothing(yard: Yard) -> None:
    assert yard.ec2.get_ebs_default_kms_key_id()["KmsKeyId"] == "alias/aws/ebs"
    client = yard.cloud.client("ec2", yard.cloud.acting_as(*LAUNCHES))
    (made,) = client.run_instances(
        ImageId=yard.base, InstanceType="t3.micro", MinCount=1, MaxCount=1, **disk()
    )["Instances"]
    yard.started.append(made["InstanceId"])
    yard.becomes(made["InstanceId"], "running")


def test_a_stopped_host_starts_again_for_who_may_use_its_key(yard: Yard, key: str) -> None:
    (host,) = yard.run(**disk(KmsKeyId=key))
    yard.becomes(host, "running")
    yard.ec2.stop_instances(InstanceIds=[host])
    yard.becomes(host, "stopped")
    client = yard.cloud.client("ec2", yard.cloud.acting_as(*LAUNCHES))
    client.start_instances(InstanceIds=[host])
    assert yard.becomes(host, "stopped")["StateReason"]["Code"] == DENIED
    yard.ec2.start_instances(InstanceIds=[host])
    yard.becomes(host, "running")


def test_an_image_keeps_its_hosts_key(yard: Yard, key: str) -> None:
    (host,) = yard.run(**disk(KmsKeyId=key))
    yard.becomes(host, "running")
    image = yard.ec2.create_image(InstanceId=host, Name=f"of-{host}")["ImageId"]
    yard.ec2.get_waiter("image_available").wait(
        ImageIds=[image], WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    client = yard.cloud.client("ec2", yard.cloud.acting_as(*LAUNCHES))
    (made,) = client.run_instances(ImageId=image, InstanceType="t3.micro", MinCount=1, MaxCount=1)[
        "Instances"
    ]
    yard.started.append(made["InstanceId"])
    assert end_of(yard, made["InstanceId"]) == DENIED


def test_who_may_not_make_ec2s_roles_launches_nothing_until_somebody_has(own_cloud: Cloud) -> None:
    yard = Yard(own_cloud)
    template = yard.template()

    def spot(who: Credentials) -> list[str]:
        override = {"InstanceType": "g6.xlarge", "SubnetId": yard.subnets["us-east-1a"]}
        answer = own_cloud.client("ec2", who).create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                    "Overrides": [override],
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
        )
        return members(answer)

    who = own_cloud.acting_as(*LAUNCHES)
    with pytest.raises(ClientError) as raised:
        spot(who)
    assert raised.value.response["Error"]["Code"] == "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    assert spot(own_cloud.acting_as(*LAUNCHES, allow("iam:CreateServiceLinkedRole")))
    assert spot(who)
    roles = {
        role["RoleName"]
        for role in own_cloud.client("iam").list_roles(PathPrefix="/aws-service-role/")["Roles"]
    }
    assert roles == set(ROLES.values())
