"""CloudFormation refuses like AWS: exports in use, and unsupported properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, WaiterError

from tests.contract.conftest import ACCOUNT, REGION, Cloud, allow
from tests.contract.deploying import Deploy, deploy, ended, reasons, word
from tests.contract.keys import LOGS, OWN, denied, new_key

__all__ = ["deploy", "word"]


def exporting(name: str, value: Any, kept: str = "kept") -> dict[str, Any]:
    """Return a stack with one SSM parameter that exports `value`, or nothing."""
    output = {"It": {"Value": value, "Export": {"Name": name}}} if value is not None else {}
    return {"Resources": {"Kept": parameter(kept)}, **({"Outputs": output} if output else {})}


def importing(name: str) -> dict[str, Any]:
    return {"Resources": {"Read": parameter({"Fn::ImportValue": name})}}


def parameter(value: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}}


def value_of(cloud: Cloud, name: str) -> str | None:
    exports = cloud.client("cloudformation").list_exports()["Exports"]
    return next((export["Value"] for export in exports if export["Name"] == name), None)


def test_an_export_in_use_keeps_its_value(cloud: Cloud, deploy: Deploy, word: str) -> None:
    """Test the whole update, including unrelated changes."""
    deploy(f"{word}-a", exporting(word, "one"))
    deploy(f"{word}-b", importing(word))
    refused = deploy(f"{word}-a", exporting(word, "two", kept="new"))
    assert refused["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert f"Export {word} cannot be updated as it is in use by {word}-b" in reasons(cloud, f"{word}-a")
    assert value_of(cloud, word) == "one"
    assert refused["Outputs"][0]["OutputValue"] == "one"
    resource = cloud.client("cloudformation").describe_stack_resource(
        StackName=f"{word}-a", LogicalResourceId="Kept"
    )["StackResourceDetail"]["PhysicalResourceId"]
    assert cloud.client("ssm").get_parameter(Name=resource)["Parameter"]["Value"] == "kept"


def test_an_export_in_use_cannot_be_left_out(cloud: Cloud, deploy: Deploy, word: str) -> None:
    deploy(f"{word}-a", exporting(word, "one"))
    deploy(f"{word}-b", importing(word))
    deploy(f"{word}-c", importing(word))
    refused = deploy(f"{word}-a", exporting(word, None, kept="new"))
    assert refused["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    users = f"{word}-b and {word}-c"
    assert f"Export {word} cannot be deleted as it is in use by {users}" in reasons(cloud, f"{word}-a")
    assert value_of(cloud, word) == "one"


def test_an_export_that_nobody_uses_any_more_changes_and_goes(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    deploy(f"{word}-a", exporting(word, "one"))
    deploy(f"{word}-b", importing(word))
    deploy(f"{word}-b", {"Resources": {"Read": parameter("its own")}})
    assert deploy(f"{word}-a", exporting(word, "two"))["StackStatus"] == "UPDATE_COMPLETE"
    assert value_of(cloud, word) == "two"
    deploy(f"{word}-a", exporting(word, None, kept="new"))
    assert value_of(cloud, word) is None


def test_another_change_of_a_stack_whose_export_is_in_use_goes_through(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    deploy(f"{word}-a", exporting(word, "one"))
    deploy(f"{word}-b", importing(word))
    changed = deploy(f"{word}-a", exporting(word, "one", kept="new"))
    assert changed["StackStatus"] == "UPDATE_COMPLETE"


def test_a_stack_whose_export_is_in_use_stays_and_says_why(cloud: Cloud, deploy: Deploy, word: str) -> None:
    """Test DeleteStack, which succeeds as on AWS. The stack stays."""
    cloudformation = cloud.client("cloudformation")
    deploy(f"{word}-a", exporting(word, "one"))
    deploy(f"{word}-b", importing(word))
    cloudformation.delete_stack(StackName=f"{word}-a")
    stays = ended(cloud, f"{word}-a")
    said = f"Export {word} cannot be deleted as it is in use by {word}-b"
    assert (stays["StackStatus"], stays["StackStatusReason"]) == ("CREATE_COMPLETE", said)
    assert said in reasons(cloud, f"{word}-a")
    assert value_of(cloud, word) == "one"
    with pytest.raises(WaiterError):
        cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=f"{word}-a", WaiterConfig={"Delay": 1, "MaxAttempts": 2}
        )
    cloudformation.delete_stack(StackName=f"{word}-b")
    assert ended(cloud, f"{word}-b")["StackStatus"] == "DELETE_COMPLETE"
    cloudformation.delete_stack(StackName=f"{word}-a")
    assert ended(cloud, f"{word}-a")["StackStatus"] == "DELETE_COMPLETE"
    assert value_of(cloud, word) is None


@pytest.mark.parametrize("where", ["a property", "an output"])
def test_what_nobody_exports_cannot_be_imported(cloud: Cloud, deploy: Deploy, word: str, where: str) -> None:
    template = importing(word)
    if where == "an output":
        template = {**exporting(word, None), "Outputs": {"It": {"Value": {"Fn::ImportValue": word}}}}
    assert deploy(f"{word}-b", template)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert any(f"No export named {word} found" in reason for reason in reasons(cloud, f"{word}-b"))


def test_an_update_that_imports_what_nobody_exports_is_rolled_back(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    deploy(f"{word}-b", {"Resources": {"Read": parameter("its own")}})
    assert deploy(f"{word}-b", importing(word))["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert any(f"No export named {word} found" in reason for reason in reasons(cloud, f"{word}-b"))


def test_a_name_is_exported_by_one_stack(cloud: Cloud, deploy: Deploy, word: str) -> None:
    deploy(f"{word}-a", exporting(word, "one"))
    assert deploy(f"{word}-b", exporting(word, "one"))["StackStatus"] == "ROLLBACK_COMPLETE"
    said = f"Export with name {word} is already exported by stack {word}-a"
    assert any(said in reason for reason in reasons(cloud, f"{word}-b"))
    (export,) = [
        each for each in cloud.client("cloudformation").list_exports()["Exports"] if each["Name"] == word
    ]
    assert f":stack/{word}-a/" in export["ExportingStackId"]


def test_exports_and_their_importers_are_listed(cloud: Cloud, deploy: Deploy, word: str) -> None:
    cloudformation = cloud.client("cloudformation")
    deploy(f"{word}-a", exporting(word, "one"))
    with pytest.raises(ClientError, match=f"Export '{word}' is not imported by any stack"):
        cloudformation.list_imports(ExportName=word)
    deploy(f"{word}-b", importing(word))
    assert cloudformation.list_imports(ExportName=word)["Imports"] == [f"{word}-b"]
    assert value_of(cloud, word) == "one"


# -------------------------------------------------------------------------------------------------- properties
def one(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Resources": {"It": {"Type": kind, "Properties": properties}}}


def made_by(cloud: Cloud, stack: str) -> str:
    found = cloud.client("cloudformation").describe_stack_resource(StackName=stack, LogicalResourceId="It")
    return str(found["StackResourceDetail"]["PhysicalResourceId"])


@pytest.mark.parametrize(
    ("kind", "name", "given"),
    [
        (
            "AWS::S3::Bucket",
            "ReplicationConfiguration",
            {"Role": "arn:aws:iam::123456789012:role/r", "Rules": []},
        ),
        ("AWS::DynamoDB::Table", "KinesisStreamSpecification", {"StreamArn": "arn:aws:kinesis:::stream/s"}),
        ("AWS::SNS::Topic", "TracingConfig", "Active"),
        ("AWS::SQS::Queue", "MesageRetentionPeriod", 60),
        ("AWS::Events::EventBus", "LogConfig", {"Level": "INFO"}),
    ],
)
def test_a_property_that_nothing_applies_is_refused_by_name(
    cloud: Cloud, deploy: Deploy, word: str, kind: str, name: str, given: Any
) -> None:
    assert deploy(word, one(kind, **{name: given}))["StackStatus"] == "ROLLBACK_COMPLETE"
    assert any(f"does not apply {name} of {kind}" in reason for reason in reasons(cloud, word))


def test_such_a_property_is_refused_in_an_update_too(cloud: Cloud, deploy: Deploy, word: str) -> None:
    deploy(word, one("AWS::SNS::Topic", DisplayName="one"))
    refused = deploy(word, one("AWS::SNS::Topic", DisplayName="two", TracingConfig="Active"))
    assert refused["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    told = cloud.client("sns").get_topic_attributes(TopicArn=made_by(cloud, word))["Attributes"]
    assert told["DisplayName"] == "one"


def test_a_buckets_lifecycle_encryption_and_ownership_are_applied_and_go_again(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    s3 = cloud.client("s3")
    rules = [
        {"Id": "parts", "Status": "Enabled", "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 2}},
        {
            "Id": "old",
            "Status": "Enabled",
            "Prefix": "runs/",
            "ExpiredObjectDeleteMarker": True,
            "NoncurrentVersionExpiration": {"NoncurrentDays": "3"},
            "Transitions": [{"StorageClass": "GLACIER", "TransitionInDays": 30}],
        },
        {
            "Id": "tagged",
            "Status": "Disabled",
            "TagFilters": [{"Key": "k", "Value": "v"}],
            "ExpirationInDays": 9,
        },
    ]
    encrypted = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "alias/mine"}}
    deploy(
        word,
        one(
            "AWS::S3::Bucket",
            LifecycleConfiguration={"Rules": rules},
            BucketEncryption={"ServerSideEncryptionConfiguration": [encrypted]},
            OwnershipControls={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
        ),
    )
    bucket = made_by(cloud, word)
    parts, old, tagged = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert parts["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 2}
    assert old["Filter"] == {"Prefix": "runs/"}
    assert old["NoncurrentVersionExpiration"] == {"NoncurrentDays": 3}
    assert old["Expiration"] == {"ExpiredObjectDeleteMarker": True}
    assert old["Transitions"] == [{"Days": 30, "StorageClass": "GLACIER"}]
    assert (tagged["Status"], tagged["Expiration"]) == ("Disabled", {"Days": 9})
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": "alias/mine",
    }
    owned = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert owned == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    deploy(word, one("AWS::S3::Bucket", Tags=[{"Key": "left", "Value": "alone"}]))
    with pytest.raises(ClientError, match="lifecycle configuration does not exist"):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_a_bucket_under_the_managed_key_takes_objects(cloud: Cloud, deploy: Deploy, word: str) -> None:
    """Test a bucket like CDK's bootstrap bucket, and uploads like CDK's: with the algorithm, without a key."""
    s3 = cloud.client("s3")
    encrypted = {
        "ServerSideEncryptionByDefault": {
            "SSEAlgorithm": "aws:kms",
            "KMSMasterKeyID": {"Ref": "AWS::NoValue"},
        }
    }
    configuration = {"ServerSideEncryptionConfiguration": [encrypted]}
    deploy(word, one("AWS::S3::Bucket", AccessControl="Private", BucketEncryption=configuration))
    bucket = made_by(cloud, word)
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms"}
    written = s3.put_object(Bucket=bucket, Key="asset", Body=b"zip", ServerSideEncryption="aws:kms")
    assert written["ServerSideEncryption"] == "aws:kms"
    assert written["SSEKMSKeyId"].endswith(":alias/aws/s3")
    assert s3.get_object(Bucket=bucket, Key="asset")["Body"].read() == b"zip"
    s3.delete_object(Bucket=bucket, Key="asset")


def test_a_tables_expiry_recovery_and_encryption_are_applied_and_go_again(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    dynamodb = cloud.client("dynamodb")
    keys = {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    }
    deploy(
        word,
        one(
            "AWS::DynamoDB::Table",
            **keys,
            TimeToLiveSpecification={"AttributeName": "expires", "Enabled": True},
            PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
            SSESpecification={"SSEEnabled": True},
        ),
    )
    table = made_by(cloud, word)

    def now() -> list[str]:
        lives = dynamodb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
        backups = dynamodb.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
        return [
            lives["TimeToLiveStatus"],
            backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"],
        ]

    assert now() == ["ENABLED", "ENABLED"]
    assert dynamodb.describe_table(TableName=table)["Table"]["SSEDescription"]["Status"] == "ENABLED"
    deploy(word, one("AWS::DynamoDB::Table", **keys))
    assert now() == ["DISABLED", "DISABLED"]


def test_an_index_with_21_attributes_fails(cloud: Cloud, deploy: Deploy, word: str) -> None:
    """CreateTable allows 20 non-key attributes of an index, and CloudFormation calls it."""
    hash_key = [{"AttributeName": "pk", "KeyType": "HASH"}]
    named = [f"a{number}" for number in range(21)]
    index = {
        "IndexName": "all",
        "KeySchema": hash_key,
        "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": named},
    }
    table = one(
        "AWS::DynamoDB::Table",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=hash_key,
        GlobalSecondaryIndexes=[index],
    )
    assert deploy(word, table)["StackStatus"] == "ROLLBACK_COMPLETE"
    assert any("less than or equal to 20" in reason for reason in reasons(cloud, word))


def test_a_roles_boundary_is_applied(cloud: Cloud, deploy: Deploy, word: str) -> None:
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    boundary = "arn:aws:iam::aws:policy/ReadOnlyAccess"
    deploy(word, one("AWS::IAM::Role", AssumeRolePolicyDocument=trust, PermissionsBoundary=boundary))
    found = cloud.client("iam").get_role(RoleName=made_by(cloud, word))["Role"]
    assert found["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary


# ------------------------------------------------------------------------------------------------------ events
def test_an_update_tells_of_what_it_changes_alone(cloud: Cloud, deploy: Deploy, word: str) -> None:
    cloudformation = cloud.client("cloudformation")

    def statuses() -> dict[str, tuple[str, Any]]:
        found = cloudformation.describe_stack_resources(StackName=word)["StackResources"]
        return {each["LogicalResourceId"]: (each["ResourceStatus"], each["Timestamp"]) for each in found}

    def template(value: str) -> dict[str, Any]:
        topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": "stays"}}
        return {"Resources": {"Stays": topic, "Changes": parameter(value)}}

    deploy(word, template("one"))
    before = statuses()
    deploy(word, template("two"))
    events = cloudformation.describe_stack_events(StackName=word)["StackEvents"]
    told = {each["LogicalResourceId"] for each in events if each["ResourceStatus"].startswith("UPDATE_")}
    assert told == {word, "Changes"}
    assert statuses()["Stays"] == before["Stays"]
    assert statuses()["Changes"][0] == "UPDATE_COMPLETE"


# ------------------------------------------------------------------------------------------------------------- keys


def test_notices_are_sent_with_the_topics_key(cloud: Cloud, deploy: Deploy, word: str) -> None:
    key = new_key(cloud)
    template = {
        "Resources": {
            "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": word, "KmsMasterKeyId": key}}
        }
    }
    assert deploy(word, template)["StackStatus"] == "CREATE_COMPLETE"
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:{word}"
    without = cloud.client("sns", cloud.acting_as(allow("sns:Publish")))
    assert "kms:GenerateDataKey" in denied(without.publish, TopicArn=topic, Message="m")
    uses = allow(["kms:GenerateDataKey", "kms:Decrypt"], key)
    cloud.client("sns", cloud.acting_as(allow("sns:Publish"), uses)).publish(TopicArn=topic, Message="m")


def test_a_log_group_needs_a_key_that_lets_cloudwatch_logs_in(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    def template(key: str) -> dict[str, Any]:
        return {"Resources": {"Log": {"Type": "AWS::Logs::LogGroup", "Properties": {"KmsKeyId": key}}}}

    assert deploy(f"{word}-a", template(new_key(cloud)))["StackStatus"] == "ROLLBACK_COMPLETE"
    assert any("is not allowed to be used with Arn" in reason for reason in reasons(cloud, f"{word}-a"))
    assert deploy(f"{word}-b", template(new_key(cloud, OWN, LOGS)))["StackStatus"] == "CREATE_COMPLETE"


# ------------------------------------------------------------------------------------------------- custom resources

ANSWERS = """
    import json
    import os
    import urllib.request

    import boto3

    def handler(event, context):
        boto3.client("sqs").send_message(QueueUrl=os.environ["QUEUE"], MessageBody=json.dumps(event))
        answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
        answer |= {"PhysicalResourceId": "one", "Data": {"Said": event["ResourceProperties"]["Word"]}}
        answer["Status"] = event["ResourceProperties"]["Status"]
        answer["Reason"] = "it did not want to"
        body = json.dumps(answer).encode()
        request = urllib.request.Request(event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""})
        urllib.request.urlopen(request, timeout=5).close()
"""


def custom(function: str, queued: str = "kept", **properties: Any) -> dict[str, Any]:
    """Return a stack with a custom resource that has the property `Word`, and another resource."""
    token = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"
    given = {"ServiceToken": token, "ServiceTimeout": 20, "Status": "SUCCESS", **properties}
    return {
        "Resources": {
            "Said": {"Type": "Custom::Said", "Properties": given},
            "Beside": parameter(queued),
        },
        "Outputs": {"Said": {"Value": {"Fn::GetAtt": ["Said", "Said"]}}},
    }


def test_a_custom_resource_is_asked_when_its_properties_change_and_says_its_attributes(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    sqs = cloud.client("sqs")
    queue = sqs.create_queue(QueueName=word)["QueueUrl"]
    function = cloud.function(ANSWERS, allow("sqs:SendMessage"), Environment={"Variables": {"QUEUE": queue}})

    def asked() -> list[dict[str, Any]]:
        got = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for message in got:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in got]

    made = deploy(word, custom(function, Word="one", Number=1, Flag=True))
    assert [output["OutputValue"] for output in made["Outputs"]] == ["one"]
    (create,) = asked()
    assert create["RequestType"] == "Create"
    assert create["ResourceProperties"]["Number"] == "1"
    assert create["ResourceProperties"]["Flag"] == "true"
    deploy(word, custom(function, "another", Word="one", Number=1, Flag=True))
    assert asked() == []
    changed = deploy(word, custom(function, "another", Word="two", Number=1, Flag=True))
    assert [output["OutputValue"] for output in changed["Outputs"]] == ["two"]
    (update,) = asked()
    assert (update["RequestType"], update["PhysicalResourceId"]) == ("Update", "one")
    assert update["OldResourceProperties"]["Word"] == "one"
    cloud.client("cloudformation").delete_stack(StackName=word)
    ended(cloud, word)
    (delete,) = asked()
    assert (delete["RequestType"], delete["PhysicalResourceId"]) == ("Delete", "one")


def test_a_custom_resource_that_fails_takes_its_stack_back(cloud: Cloud, deploy: Deploy, word: str) -> None:
    queue = cloud.client("sqs").create_queue(QueueName=word)["QueueUrl"]
    function = cloud.function(ANSWERS, allow("sqs:SendMessage"), Environment={"Variables": {"QUEUE": queue}})
    refused = deploy(word, custom(function, Word="one", Status="FAILED"))
    assert refused["StackStatus"] == "ROLLBACK_COMPLETE"
    assert any("it did not want to" in reason for reason in reasons(cloud, word))


def test_a_custom_resource_that_says_nothing_is_waited_for_as_long_as_it_says(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    function = cloud.function("def handler(event, context): pass")
    assert deploy(word, custom(function, Word="one", ServiceTimeout=1))["StackStatus"] == "ROLLBACK_COMPLETE"
