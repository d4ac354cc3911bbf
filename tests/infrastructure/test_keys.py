"""A yard with a customer's KMS key: everything is encrypted with it, and each role may use it only for its tasks."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.infrastructure.assembly import Assembly, Permission
from tests.infrastructure.conftest import KEY, OTHER_KEY, ROOT

OBJECTS_READ, OBJECTS_WRITTEN = {"s3:GetObject", "s3:GetObjectVersion"}, {"s3:PutObject"}
ROWS_WRITTEN = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
HOSTS = {"ec2:RunInstances", "ec2:CreateFleet", "ec2:StartInstances", "ec2:CreateImage"}
VOLUMES = {
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
}


def through(service: str) -> dict[str, Any]:
    return {"kms:ViaService": f"{service}.{{AWS::Region}}.amazonaws.com"}


def test_no_role_has_a_word_of_keys_where_the_yard_has_none(yard: Assembly) -> None:
    assert "kms:" not in json.dumps(yard.templates)


def test_all_that_the_yard_keeps_is_under_the_key(keyed: Assembly) -> None:
    (bucket,) = keyed.resources("AWS::S3::Bucket")
    (rule,) = bucket.properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    assert rule["BucketKeyEnabled"] is True
    (table,) = keyed.resources("AWS::DynamoDB::Table")
    assert table.properties["SSESpecification"] == {
        "SSEEnabled": True,
        "SSEType": "KMS",
        "KMSMasterKeyId": KEY,
    }
    (topic,) = keyed.resources("AWS::SNS::Topic")
    assert topic.properties["KmsMasterKeyId"] in (KEY, KEY.rpartition("/")[2])
    logs = keyed.resources("AWS::Logs::LogGroup")
    assert {log.properties.get("KmsKeyId") for log in logs} == {KEY}
    for template in keyed.resources("AWS::EC2::LaunchTemplate"):
        (disk,) = template.properties["LaunchTemplateData"]["BlockDeviceMappings"]
        assert (disk["Ebs"]["Encrypted"], disk["Ebs"]["KmsKeyId"]) == (True, KEY)


def test_whoever_launches_is_told_the_key_for_the_size_of_a_disk(keyed: Assembly) -> None:
    told = {
        name: each.properties.get("Environment", {}).get("Variables", {}).get("KMS_KEY")
        for name, each in keyed.functions.items()
    }
    assert {name: key for name, key in told.items() if key} == {"train_launch": KEY, "bake_launch": KEY}


def keys_of(keyed: Assembly, role: str, service: str) -> set[str]:
    return {
        each.action
        for each in keyed.permissions(role)
        if each.resource == KEY and each.when.get("StringEquals", {}).items() >= through(service).items()
    }


def own(keyed: Assembly, role: str) -> list[Permission]:
    """Return the role's permissions in the yard's bucket and table. Assets of the CDK are elsewhere."""
    return [each for each in keyed.permissions(role) if "cdk-" not in each.resource]


@pytest.mark.parametrize(
    ("calls", "service", "needed"),
    [
        (OBJECTS_READ, "s3", {"kms:Decrypt"}),
        (OBJECTS_WRITTEN, "s3", {"kms:Decrypt", "kms:GenerateDataKey"}),
        ({"dynamodb:GetItem", "dynamodb:Query", "dynamodb:BatchGetItem"}, "dynamodb", {"kms:Decrypt"}),
        (ROWS_WRITTEN, "dynamodb", {"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"}),
        ({"sns:Publish"}, "sns", {"kms:Decrypt", "kms:GenerateDataKey"}),
        (HOSTS, "ec2", VOLUMES),
    ],
)
def test_whoever_asks_a_service_may_use_the_key_through_it_and_nobody_else(
    keyed: Assembly, calls: set[str], service: str, needed: set[str]
) -> None:
    others = {"s3": OBJECTS_READ | OBJECTS_WRITTEN, "ec2": HOSTS, "sns": {"sns:Publish"}}
    for role in keyed.roles:
        does = {each.action for each in own(keyed, role)}
        if does & calls:
            assert keys_of(keyed, role, service) >= needed, role
        elif service in others and not does & others[service]:
            assert keys_of(keyed, role, service) == set(), role


def test_the_key_is_used_through_a_service_and_granted_to_ec2_alone(keyed: Assembly) -> None:
    for role in keyed.roles:
        for each in keyed.permissions(role):
            if not each.action.startswith("kms:"):
                continue
            equals = each.when["StringEquals"]
            if each.resource == OTHER_KEY:  # the key of another bucket that the yard reads
                assert (each.action, equals.keys()) == ("kms:Decrypt", {"kms:ViaService"}), role
                continue
            assert each.resource == KEY, role
            if each.action == "kms:CreateGrant" and "kms:GranteePrincipal" in equals:
                assert role.startswith("PrepareRole")
                roles = [name.rpartition("/")[2] for name in equals["kms:GranteePrincipal"]]
                assert roles == ["AWSServiceRoleForEC2Spot", "AWSServiceRoleForEC2Fleet"]
                continue
            assert set(equals) == {"kms:ViaService"}
            if each.action == "kms:CreateGrant":
                assert each.when["Bool"] == {"kms:GrantIsForAWSResource": "true"}


def test_a_deployment_is_told_the_key_that_ec2_must_be_granted(keyed: Assembly) -> None:
    (prepared,) = keyed.resources("Custom::Prepared")
    assert prepared.properties["Key"] == KEY


def test_cfn_lint_has_nothing_to_say(keyed: Assembly) -> None:
    files = [str(path) for path in sorted(keyed.folder.glob("*.template.json"))]
    command = [str(Path(sys.executable).parent / "cfn-lint"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
