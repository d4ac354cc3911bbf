"""Permissions for customer managed keys of encrypted objects and rows. Stacks test notifications and logs."""

import uuid
from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow
from tests.contract.keys import OWN, denied, new_key


@pytest.fixture
def key(cloud: Cloud) -> str:
    return new_key(cloud)


@pytest.fixture
def bucket(cloud: Cloud, key: str) -> Iterator[str]:
    name, s3 = f"b-{uuid.uuid4().hex[:12]}", cloud.client("s3")
    s3.create_bucket(Bucket=name)
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": [rule]})
    s3.put_object(Bucket=name, Key="a", Body=b"whole")
    yield name
    s3.delete_object(Bucket=name, Key="a")


THROUGH_S3 = {"StringEquals": {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}}


def test_objects_are_read_and_written_with_their_key(cloud: Cloud, bucket: str, key: str) -> None:
    objects = allow(["s3:GetObject", "s3:PutObject", "s3:ListBucket"])
    without = cloud.client("s3", cloud.acting_as(objects))
    refused = denied(without.get_object, Bucket=bucket, Key="a")
    assert f"is not authorized to perform: kms:Decrypt on resource: {key}" in refused
    assert "kms:GenerateDataKey" in denied(without.put_object, Bucket=bucket, Key="a", Body=b"")
    uses = allow(["kms:Decrypt", "kms:GenerateDataKey"], key, **THROUGH_S3)
    within = cloud.client("s3", cloud.acting_as(objects, uses))
    within.put_object(Bucket=bucket, Key="a", Body=b"whole")
    assert within.get_object(Bucket=bucket, Key="a")["Body"].read() == b"whole"


def test_parts_are_put_together_by_who_may_decrypt(cloud: Cloud, bucket: str, key: str) -> None:
    half = allow("kms:GenerateDataKey", key)
    client = cloud.client("s3", cloud.acting_as(allow("s3:PutObject"), half))
    client.put_object(Bucket=bucket, Key="a", Body=b"whole")
    assert "kms:Decrypt" in denied(client.create_multipart_upload, Bucket=bucket, Key="a")


def test_the_etag_of_what_a_key_encrypts_is_no_sum(cloud: Cloud, bucket: str) -> None:
    head = cloud.client("s3").head_object(Bucket=bucket, Key="a")
    assert head["ServerSideEncryption"] == "aws:kms"
    assert head["ETag"] != '"b3ec6d04f7fd1d58ed0e91f7d7ef0dc6"'
    assert len(head["ETag"]) == len('"b3ec6d04f7fd1d58ed0e91f7d7ef0dc6"')


def test_a_key_that_names_others_in_its_policy_helps_nobody_else(cloud: Cloud, bucket: str) -> None:
    strangers = {**OWN, "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:role/keepers"}}
    cloud.client("s3").put_bucket_encryption(
        Bucket=bucket,
        ServerSideEncryptionConfiguration={
            "Rules": [
                {
                    "ApplyServerSideEncryptionByDefault": {
                        "SSEAlgorithm": "aws:kms",
                        "KMSMasterKeyID": new_key(cloud, strangers),
                    }
                }
            ]
        },
    )
    client = cloud.client("s3", cloud.acting_as(allow("s3:PutObject"), allow("kms:*")))
    assert "kms:GenerateDataKey" in denied(client.put_object, Bucket=bucket, Key="a", Body=b"")


def test_rows_are_read_and_written_with_their_key(cloud: Cloud, key: str) -> None:
    word = f"t-{uuid.uuid4().hex[:12]}"
    cloud.client("dynamodb").create_table(
        TableName=word,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": key},
    )
    rows, at = allow(["dynamodb:GetItem", "dynamodb:PutItem"]), {"pk": {"S": "a"}}
    without = cloud.client("dynamodb", cloud.acting_as(rows))
    assert "kms:Decrypt" in denied(without.get_item, TableName=word, Key=at)
    put = {"Put": {"TableName": word, "Item": at}}
    assert "kms:Decrypt" in denied(without.transact_write_items, TransactItems=[put])
    within = cloud.client("dynamodb", cloud.acting_as(rows, allow("kms:Decrypt", key)))
    within.put_item(TableName=word, Item=at)
    assert within.get_item(TableName=word, Key=at)["Item"] == at


def test_a_secret_parameter_is_written_and_read_with_its_key(cloud: Cloud, key: str) -> None:
    name = f"/secrets/{uuid.uuid4().hex[:8]}"
    both, put = allow(["ssm:PutParameter", "ssm:GetParameter*"]), {"Name": name, "Type": "SecureString"}
    without = cloud.client("ssm", cloud.acting_as(both))
    assert "kms:Encrypt" in denied(without.put_parameter, **put, Value="v", KeyId=key)
    through = {"StringEquals": {"kms:ViaService": f"ssm.{REGION}.amazonaws.com"}}
    within = cloud.client("ssm", cloud.acting_as(both, allow(["kms:Encrypt", "kms:Decrypt"], key, **through)))
    within.put_parameter(**put, Value="v", KeyId=key)
    assert "kms:Decrypt" in denied(without.get_parameters, Names=[name], WithDecryption=True)
    arn = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter{name}"
    for called in (name, f"{name}:1", arn):
        assert "kms:Decrypt" in denied(without.get_parameter, Name=called, WithDecryption=True)
    assert "kms:Decrypt" in denied(without.get_parameters_by_path, Path="/secrets", WithDecryption=True)
    assert without.get_parameters(Names=[name])["Parameters"][0]["Value"] != "v"
    (read,) = within.get_parameters(Names=[name], WithDecryption=True)["Parameters"]
    assert read["Value"] == "v"
    without.put_parameter(Name=f"{name}-own", Type="SecureString", Value="v")
    (own,) = without.get_parameters(Names=[f"{name}-own"], WithDecryption=True)["Parameters"]
    assert own["Value"] == "v", "AWS's own key asks for nothing"


def test_who_may_grant_a_key_may_be_bound_to_whom(cloud: Cloud, key: str) -> None:
    spot = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
    bound = allow("kms:CreateGrant", key, StringEquals={"kms:GranteePrincipal": [spot]})
    client = cloud.client("kms", cloud.acting_as(bound))
    client.create_grant(KeyId=key, GranteePrincipal=spot, Operations=["Decrypt"])
    other = f"arn:aws:iam::{ACCOUNT}:role/other"
    assert "kms:CreateGrant" in denied(
        client.create_grant, KeyId=key, GranteePrincipal=other, Operations=["Decrypt"]
    )


def test_who_may_make_a_service_linked_role_may_be_bound_to_its_service(cloud: Cloud) -> None:
    path = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/spot.amazonaws.com/*"
    bound = allow(
        "iam:CreateServiceLinkedRole", path, StringEquals={"iam:AWSServiceName": "spot.amazonaws.com"}
    )
    client = cloud.client("iam", cloud.acting_as(bound))
    with pytest.raises(ClientError) as raised:
        client.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    assert raised.value.response["Error"]["Code"] == "InvalidInput", "it may, and the role is there"
    other = "ec2fleet.amazonaws.com"
    assert "iam:CreateServiceLinkedRole" in denied(client.create_service_linked_role, AWSServiceName=other)


def test_a_service_linked_role_is_there_once_under_its_name(cloud: Cloud) -> None:
    roles = cloud.client("iam").list_roles(PathPrefix="/aws-service-role/spot.amazonaws.com/")["Roles"]
    assert [role["RoleName"] for role in roles] == ["AWSServiceRoleForEC2Spot"]
    with pytest.raises(ClientError) as raised:
        cloud.client("iam").create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    assert raised.value.response["Error"]["Code"] == "InvalidInput"
    assert "AWSServiceRoleForEC2Spot has been taken" in raised.value.response["Error"]["Message"]
