"""CloudFormation keeps existing resources: names in use, retained resources, and refused deletions."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.services.cloudformation.creations import NAMED
from tests.contract.conftest import ACCOUNT, Cloud
from tests.contract.deploying import Deploy, deploy, ended, reasons, word

__all__ = ["deploy", "word"]

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
GRANT = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}],
}
WAIT = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 1, "End": True}}}
KEYED: dict[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "BillingMode": "PAY_PER_REQUEST",
}
SHELL = {
    "schemaVersion": "2.2",
    "description": "Nothing",
    "mainSteps": [
        {"action": "aws:runShellScript", "name": "nothing", "inputs": {"runCommand": ["true"]}},
    ],
}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/deploying"


def program() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("index.py", "def handler(event, context): pass")
    return held.getvalue()


Make = Callable[[Cloud, str], Any]
EXISTING: dict[str, tuple[Make, dict[str, Any]]] = {
    "AWS::CloudWatch::Alarm": (
        lambda cloud, name: cloud.client("cloudwatch").put_metric_alarm(
            AlarmName=name,
            MetricName="Runs",
            Namespace="Own",
            Statistic="Sum",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            ComparisonOperator="GreaterThanThreshold",
        ),
        {
            "MetricName": "Runs",
            "Namespace": "Own",
            "Statistic": "Sum",
            "Period": 60,
            "EvaluationPeriods": 1,
            "Threshold": 1,
            "ComparisonOperator": "GreaterThanThreshold",
        },
    ),
    "AWS::CloudWatch::Dashboard": (
        lambda cloud, name: cloud.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody='{"widgets": []}'
        ),
        {"DashboardBody": '{"widgets": []}'},
    ),
    "AWS::DynamoDB::Table": (
        lambda cloud, name: cloud.client("dynamodb").create_table(TableName=name, **KEYED),
        KEYED,
    ),
    "AWS::ECR::Repository": (
        lambda cloud, name: cloud.client("ecr").create_repository(repositoryName=name),
        {},
    ),
    "AWS::Events::EventBus": (lambda cloud, name: cloud.client("events").create_event_bus(Name=name), {}),
    "AWS::Events::Rule": (
        lambda cloud, name: cloud.client("events").put_rule(Name=name, ScheduleExpression="rate(1 day)"),
        {"ScheduleExpression": "rate(1 day)"},
    ),
    "AWS::IAM::InstanceProfile": (
        lambda cloud, name: cloud.client("iam").create_instance_profile(InstanceProfileName=name),
        {"Roles": []},
    ),
    "AWS::IAM::ManagedPolicy": (
        lambda cloud, name: cloud.client("iam").create_policy(
            PolicyName=name, PolicyDocument=json.dumps(GRANT)
        ),
        {"PolicyDocument": GRANT},
    ),
    "AWS::IAM::Role": (
        lambda cloud, name: cloud.client("iam").create_role(
            RoleName=name, AssumeRolePolicyDocument=json.dumps(TRUST)
        ),
        {"AssumeRolePolicyDocument": TRUST},
    ),
    "AWS::Lambda::Function": (
        lambda cloud, name: cloud.client("lambda").create_function(
            FunctionName=name,
            Role=cloud.role("lambda.amazonaws.com"),
            Runtime="python3.13",
            Handler="index.handler",
            Code={"ZipFile": program()},
        ),
        {
            "Role": ROLE,
            "Runtime": "python3.13",
            "Handler": "index.handler",
            "Code": {"ZipFile": "def handler(event, context): pass"},
        },
    ),
    "AWS::Logs::LogGroup": (lambda cloud, name: cloud.client("logs").create_log_group(logGroupName=name), {}),
    "AWS::S3::Bucket": (lambda cloud, name: cloud.client("s3").create_bucket(Bucket=name), {}),
    "AWS::SNS::Topic": (lambda cloud, name: cloud.client("sns").create_topic(Name=name), {}),
    "AWS::SQS::Queue": (lambda cloud, name: cloud.client("sqs").create_queue(QueueName=name), {}),
    "AWS::SSM::Parameter": (
        lambda cloud, name: cloud.client("ssm").put_parameter(Name=name, Value="before", Type="String"),
        {"Type": "String", "Value": "after"},
    ),
    "AWS::StepFunctions::StateMachine": (
        lambda cloud, name: cloud.client("stepfunctions").create_state_machine(
            name=name, definition=json.dumps(WAIT), roleArn=cloud.role("states.amazonaws.com")
        ),
        {"DefinitionString": json.dumps(WAIT), "RoleArn": ROLE},
    ),
    "AWS::SSM::Document": (
        lambda cloud, name: cloud.client("ssm").create_document(
            Name=name, DocumentType="Command", Content=json.dumps(SHELL)
        ),
        {"DocumentType": "Command", "Content": SHELL},
    ),
}


def stack_of(kind: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Resources": {"It": {"Type": kind, "Properties": properties, **more}}}


def test_every_type_that_is_guarded_is_tried() -> None:
    assert set(NAMED) <= set(EXISTING)


@pytest.mark.parametrize("kind", EXISTING)
def test_a_name_that_exists_fails_the_stack(cloud: Cloud, deploy: Deploy, word: str, kind: str) -> None:
    make, properties = EXISTING[kind]
    make(cloud, word)
    key = NAMED[kind][0] if kind in NAMED else "Name"
    refused = deploy(f"{word}-stack", stack_of(kind, {key: word, **properties}))
    assert refused["StackStatus"] in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED")
    told = [*reasons(cloud, f"{word}-stack"), refused.get("StackStatusReason", "")]
    assert any("exists" in reason or "NAME_CONFLICT" in reason or "Validation" in reason for reason in told)


def test_a_retained_table_keeps_its_rows_when_its_stack_is_made_again(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    kept = stack_of("AWS::DynamoDB::Table", KEYED, DeletionPolicy="Retain")
    kept["Outputs"] = {"Name": {"Value": {"Ref": "It"}}}
    (before,) = deploy(word, kept)["Outputs"]
    cloud.client("dynamodb").put_item(TableName=before["OutputValue"], Item={"pk": {"S": "row"}})
    cloud.client("cloudformation").delete_stack(StackName=word)
    assert ended(cloud, word)["StackStatus"] == "DELETE_COMPLETE"
    cloud.client("cloudformation").create_stack(StackName=word, TemplateBody=json.dumps(kept))
    (after,) = ended(cloud, word)["Outputs"]
    assert after["OutputValue"] != before["OutputValue"]
    assert cloud.client("dynamodb").scan(TableName=before["OutputValue"])["Count"] == 1


def test_a_retained_table_and_bucket_are_imported_with_what_is_in_them(cloud: Cloud, word: str) -> None:
    """Test the change set of `cdk deploy --import-existing-resources`."""
    s3, dynamodb = cloud.client("s3"), cloud.client("dynamodb")
    s3.create_bucket(Bucket=word)
    s3.put_object(Bucket=word, Key="key", Body=b"kept")
    dynamodb.create_table(TableName=word, **KEYED)
    dynamodb.put_item(TableName=word, Item={"pk": {"S": "row"}})
    template = {
        "Resources": {
            "Bucket": {
                "Type": "AWS::S3::Bucket",
                "DeletionPolicy": "Retain",
                "Properties": {"BucketName": word},
            },
            "Ledger": {
                "Type": "AWS::DynamoDB::Table",
                "DeletionPolicy": "Retain",
                "Properties": {"TableName": word, **KEYED},
            },
        }
    }
    formation = cloud.client("cloudformation")
    formation.create_change_set(
        StackName=f"{word}-stack",
        ChangeSetName="adopt",
        ChangeSetType="CREATE",
        ImportExistingResources=True,
        TemplateBody=json.dumps(template),
    )
    formation.get_waiter("change_set_create_complete").wait(
        StackName=f"{word}-stack", ChangeSetName="adopt", WaiterConfig={"Delay": 1}
    )
    formation.execute_change_set(StackName=f"{word}-stack", ChangeSetName="adopt")
    done = ended(cloud, f"{word}-stack")
    assert done["StackStatus"] == "CREATE_COMPLETE", reasons(cloud, f"{word}-stack")
    assert s3.get_object(Bucket=word, Key="key")["Body"].read() == b"kept"
    assert dynamodb.scan(TableName=word)["Count"] == 1


def test_a_policy_that_is_attached_by_hand_keeps_its_stack(cloud: Cloud, deploy: Deploy, word: str) -> None:
    iam = cloud.client("iam")
    iam.create_user(UserName=word)
    arn = f"arn:aws:iam::{ACCOUNT}:policy/{word}"
    deploy(word, stack_of("AWS::IAM::ManagedPolicy", {"ManagedPolicyName": word, "PolicyDocument": GRANT}))
    iam.attach_user_policy(UserName=word, PolicyArn=arn)
    cloud.client("cloudformation").delete_stack(StackName=word)
    assert ended(cloud, word)["StackStatus"] == "DELETE_FAILED"
    assert any("DeleteConflict" in reason for reason in reasons(cloud, word))
    iam.detach_user_policy(UserName=word, PolicyArn=arn)
    cloud.client("cloudformation").delete_stack(StackName=word)
    assert ended(cloud, word)["StackStatus"] == "DELETE_COMPLETE"


def test_a_role_that_was_given_a_policy_by_hand_keeps_its_stack(
    cloud: Cloud, deploy: Deploy, word: str
) -> None:
    iam = cloud.client("iam")
    deploy(word, stack_of("AWS::IAM::Role", {"RoleName": word, "AssumeRolePolicyDocument": TRUST}))
    iam.put_role_policy(RoleName=word, PolicyName="own", PolicyDocument=json.dumps(GRANT))
    cloud.client("cloudformation").delete_stack(StackName=word)
    assert ended(cloud, word)["StackStatus"] == "DELETE_FAILED"
    iam.delete_role_policy(RoleName=word, PolicyName="own")
    cloud.client("cloudformation").delete_stack(StackName=word)
    assert ended(cloud, word)["StackStatus"] == "DELETE_COMPLETE"


def test_a_bus_with_a_rule_of_another_keeps_its_stack(cloud: Cloud, deploy: Deploy, word: str) -> None:
    events = cloud.client("events")
    deploy(word, stack_of("AWS::Events::EventBus", {"Name": word}))
    events.put_rule(Name="own", EventBusName=word, EventPattern='{"source": ["own"]}')
    cloud.client("cloudformation").delete_stack(StackName=word)
    assert ended(cloud, word)["StackStatus"] == "DELETE_FAILED"
    events.delete_rule(Name="own", EventBusName=word)
    with pytest.raises(ClientError):
        events.describe_rule(Name="own", EventBusName=word)
    cloud.client("cloudformation").delete_stack(StackName=word)
    assert ended(cloud, word)["StackStatus"] == "DELETE_COMPLETE"
