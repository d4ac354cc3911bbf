"""A yard that is taken away says what it leaves and what that costs, and leaves nothing where that is asked for."""

import json
from decimal import Decimal
from typing import Any

import boto3
import pytest

from tests.contract.conftest import REGION, Cloud
from tests.contract.ec2.conftest import BASE_PARAMETER
from trainyard.client import Session
from trainyard.client.errors import HostsRunning, RunsRunning, StackNotDeleted
from trainyard.client.upkeep.teardown import DATA, IMAGES, Kind, Leftover, delete_stacks, left, remove, stacks

WAITS = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}


def session(cloud: Cloud) -> Session:
    who = cloud.root
    return Session(boto3.Session(who.key, who.secret, who.token, REGION), cloud.endpoint)


def tags(yard: str) -> list[dict[str, str]]:
    return [{"Key": "trainyard:yard", "Value": yard.lower()}]


def stacked(cloud: Cloud, yard: str, name: str, template: dict[str, Any]) -> None:
    client = cloud.client("cloudformation")
    client.create_stack(StackName=f"{yard}-{name}", TemplateBody=json.dumps(template), Tags=tags(yard))
    client.get_waiter("stack_create_complete").wait(StackName=f"{yard}-{name}", WaiterConfig={"Delay": 1})


def kept(cloud: Cloud, yard: str) -> None:
    """What the storage stack leaves: a versioned bucket with an object in two versions, a protected table."""
    bucket, s3 = f"{yard.lower()}-bucket", cloud.client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags(yard)})
    for content in (b"old", b"new"):
        s3.put_object(Bucket=bucket, Key="runs/one/model", Body=content)
    cloud.client("dynamodb").create_table(
        TableName=f"{yard}-Ledger",
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")],
        BillingMode="PAY_PER_REQUEST",
        DeletionProtectionEnabled=True,
        Tags=tags(yard),
    )


def by_kind(found: list[Leftover]) -> dict[Kind, str]:
    return {each.kind: each.name for each in found}


def test_stacks_go_before_those_they_import_from_and_the_data_stays_until_it_is_asked_for(
    cloud: Cloud,
) -> None:
    yard, mine = "Leaving", session(cloud)
    queue = {"Type": "AWS::SQS::Queue"}
    export = {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}, "Export": {"Name": "leaving-queue"}}
    stacked(cloud, yard, "First", {"Resources": {"Queue": queue}, "Outputs": {"Queue": export}})
    parameter = {"Type": "String", "Value": {"Fn::ImportValue": "leaving-queue"}}
    stacked(
        cloud,
        yard,
        "Second",
        {"Resources": {"Name": {"Type": "AWS::SSM::Parameter", "Properties": parameter}}},
    )
    kept(cloud, yard)
    image = cloud.client("ec2").describe_images(Owners=["self"])["Images"]

    said: list[str] = []
    delete_stacks(mine, yard, said.append)
    assert said == ["Leaving-Second", "Leaving-First"]
    assert stacks(mine, yard) == []

    found = left(mine, yard)
    assert by_kind(found) == {Kind.BUCKET: "leaving-bucket", Kind.TABLE: "Leaving-Ledger"}
    assert "2 objects" in found[0].about

    remove(mine, [each for each in found if each.kind in DATA])
    assert left(mine, yard) == []
    assert cloud.client("ec2").describe_images(Owners=["self"])["Images"] == image


def test_what_is_left_costs_what_patrol_has_read_of_its_region(cloud: Cloud) -> None:
    kept(cloud, "Dear")
    mine = session(cloud)

    def bucket() -> Leftover:
        (one,) = (each for each in left(mine, "Dear") if each.kind is Kind.BUCKET)
        return one

    assert bucket().dollars == pytest.approx(bucket().gib * 0.023)
    assert f"prices of us-east-1, November 2026: the yard's ledger has none of {REGION}" in bucket().prices
    row = {"read": "2026-11-23T00:00:00.000Z", "storage": {"bucket": Decimal("0.0273")}}
    mine.resource("dynamodb").Table("Dear-Ledger").put_item(Item={"pk": "patrol", "sk": "prices", **row})
    assert bucket().dollars == pytest.approx(bucket().gib * 0.0273)
    assert bucket().prices == f"prices of {REGION}, 2026-11-23"
    remove(mine, left(mine, "Dear"))
    assert left(mine, "Dear") == []


def test_what_is_another_yards_is_not_touched(cloud: Cloud) -> None:
    kept(cloud, "Other")
    assert left(session(cloud), "Othe") == []
    assert left(session(cloud), "Others") == []
    assert by_kind(left(session(cloud), "Other")).keys() == {Kind.BUCKET, Kind.TABLE}


def test_a_yard_with_a_host_stays_and_says_how_to_end_it(cloud: Cloud) -> None:
    stacked(cloud, "Hosted", "Only", {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}})
    ec2 = cloud.client("ec2")
    base = cloud.client("ssm").get_parameter(Name=BASE_PARAMETER)["Parameter"]["Value"]
    wanted = [{"ResourceType": "instance", "Tags": tags("Hosted")}]
    (host,) = ec2.run_instances(
        ImageId=base, InstanceType="g5.xlarge", MinCount=1, MaxCount=1, TagSpecifications=wanted
    )["Instances"]
    with pytest.raises(HostsRunning, match=f"terminate-instances .* {host['InstanceId']}"):
        delete_stacks(session(cloud), "Hosted")
    assert stacks(session(cloud), "Hosted") == ["Hosted-Only"]

    ec2.get_waiter("instance_running").wait(InstanceIds=[host["InstanceId"]], WaiterConfig={"Delay": 1})
    image = ec2.create_image(
        InstanceId=host["InstanceId"],
        Name="hosted-image",
        TagSpecifications=[{"ResourceType": kind, "Tags": tags("Hosted")} for kind in ("image", "snapshot")],
    )["ImageId"]
    ec2.get_waiter("image_available").wait(ImageIds=[image], WaiterConfig={"Delay": 1})
    ec2.terminate_instances(InstanceIds=[host["InstanceId"]])
    delete_stacks(session(cloud), "Hosted")
    (found,) = left(session(cloud), "Hosted")
    assert (found.kind, found.name) == (Kind.IMAGE, image)
    assert found.dollars == pytest.approx(found.gib * 0.05)
    assert found.kind in IMAGES
    remove(session(cloud), [found])
    assert left(session(cloud), "Hosted") == []


def test_a_yard_with_a_run_under_way_stays_and_says_how_to_stop_it(cloud: Cloud) -> None:
    machine = cloud.client("stepfunctions").create_state_machine(
        name="busy-train", definition=json.dumps(WAITS), roleArn=cloud.role("states.amazonaws.com")
    )["stateMachineArn"]
    started = cloud.client("stepfunctions").start_execution(stateMachineArn=machine)["executionArn"]
    with pytest.raises(RunsRunning, match=f"stop-execution .* {started}"):
        delete_stacks(session(cloud), "Busy")
    cloud.client("stepfunctions").stop_execution(executionArn=started)
    delete_stacks(session(cloud), "Busy")


def test_a_stack_that_cannot_be_deleted_says_why(cloud: Cloud) -> None:
    stacked(cloud, "Full", "Only", {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}})
    (resource,) = cloud.client("cloudformation").describe_stack_resources(StackName="Full-Only")[
        "StackResources"
    ]
    cloud.client("s3").put_object(Bucket=resource["PhysicalResourceId"], Key="a", Body=b"b")
    with pytest.raises(StackNotDeleted, match=r"Full-Only was not deleted: Bucket: .*not empty"):
        delete_stacks(session(cloud), "Full")
    cloud.client("s3").delete_object(Bucket=resource["PhysicalResourceId"], Key="a")
    delete_stacks(session(cloud), "Full")


def test_a_stack_that_somebody_elses_imports_from_stays_and_says_who(cloud: Cloud) -> None:
    export = {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}, "Export": {"Name": "lent-queue"}}
    resources = {"Queue": {"Type": "AWS::SQS::Queue"}}
    stacked(cloud, "Lent", "Only", {"Resources": resources, "Outputs": {"Queue": export}})
    parameter = {"Type": "String", "Value": {"Fn::ImportValue": "lent-queue"}}
    borrows = {"Resources": {"Name": {"Type": "AWS::SSM::Parameter", "Properties": parameter}}}
    stacked(cloud, "Borrower", "Only", borrows)
    with pytest.raises(StackNotDeleted, match=r"Lent-Only was not deleted: .*lent-queue.*Borrower-Only"):
        delete_stacks(session(cloud), "Lent")
    delete_stacks(session(cloud), "Borrower")
    delete_stacks(session(cloud), "Lent")
    assert stacks(session(cloud), "Lent") == []
