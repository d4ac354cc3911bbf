"""Deletion of a yard: it lists what remains and its cost, or deletes everything on request."""

import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import boto3
import pytest

from tests.contract.conftest import ACCOUNT, REGION, Cloud
from tests.contract.ec2.conftest import BASE_PARAMETER
from trainyard import __version__
from trainyard.client import Session
from trainyard.client.admin import people, teardown
from trainyard.client.admin.teardown import (
    DATA,
    IMAGES,
    Kind,
    Leftover,
    delete_stacks,
    find_leftovers,
    remove,
    stacks,
)
from trainyard.client.deployment import Deployment
from trainyard.client.errors import HolderNotFound, HostsRunning, RunsRunning, StackNotDeleted

WAITS = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 600, "End": True}}}


def session(cloud: Cloud) -> Session:
    who = cloud.root
    return Session(boto3.Session(who.key, who.secret, who.token, REGION), cloud.endpoint)


def tags(yard: str) -> list[dict[str, str]]:
    return [{"Key": "trainyard:yard", "Value": yard.lower()}]


def stacked(cloud: Cloud, yard: str, name: str, template: dict[str, Any]) -> None:
    client = cloud.client("cloudformation")
    client.create_stack(
        StackName=f"{yard}-{name}",
        TemplateBody=json.dumps(template),
        Tags=tags(yard),
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    client.get_waiter("stack_create_complete").wait(StackName=f"{yard}-{name}", WaiterConfig={"Delay": 1})


def kept(cloud: Cloud, yard: str) -> None:
    """Create what the storage stack retains: a versioned bucket with two object versions, a protected table."""
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
    assert said == ["deleting Leaving-Second", "deleting Leaving-First"]
    assert stacks(mine, yard) == []

    found = find_leftovers(mine, yard)
    assert by_kind(found) == {Kind.BUCKET: "leaving-bucket", Kind.TABLE: "Leaving-Ledger"}
    assert "2 objects" in found[0].about

    remove(mine, [each for each in found if each.kind in DATA])
    assert find_leftovers(mine, yard) == []
    assert cloud.client("ec2").describe_images(Owners=["self"])["Images"] == image


def test_what_is_left_costs_what_patrol_has_read_of_its_region(cloud: Cloud) -> None:
    kept(cloud, "Dear")
    mine = session(cloud)

    def bucket() -> Leftover:
        (one,) = (each for each in find_leftovers(mine, "Dear") if each.kind is Kind.BUCKET)
        return one

    assert bucket().dollars == pytest.approx(bucket().gib * 0.023)
    assert f"prices of us-east-1, November 2026: the yard's ledger has none of {REGION}" in bucket().prices
    row = {
        "read": "2026-11-23T00:00:00.000Z",
        "requested": "2026-11-23T00:00:00.000Z",
        "storage": {"bucket": Decimal("0.0273")},
    }
    mine.resource("dynamodb").Table("Dear-Ledger").put_item(Item={"pk": "patrol", "sk": "prices", **row})
    assert bucket().dollars == pytest.approx(bucket().gib * 0.0273)
    assert bucket().prices == f"prices of {REGION}, 2026-11-23"
    remove(mine, find_leftovers(mine, "Dear"))
    assert find_leftovers(mine, "Dear") == []


def test_what_is_another_yards_is_not_touched(cloud: Cloud) -> None:
    kept(cloud, "Other")
    assert find_leftovers(session(cloud), "Othe") == []
    assert find_leftovers(session(cloud), "Others") == []
    assert by_kind(find_leftovers(session(cloud), "Other")).keys() == {Kind.BUCKET, Kind.TABLE}


def test_a_bucket_of_more_versions_than_a_page_has_is_deleted_at_once(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teardown, "PAGE", 10)
    kept(cloud, "Long")
    s3 = cloud.client("s3")
    for key in ("runs/one/model", "runs/two/model") * 12:
        s3.put_object(Bucket="long-bucket", Key=key, Body=b"")
    s3.delete_object(Bucket="long-bucket", Key="runs/two/model")
    mine = session(cloud)
    remove(mine, find_leftovers(mine, "Long"))
    assert find_leftovers(mine, "Long") == []


def test_secrets_are_left_and_go_with_the_data(cloud: Cloud) -> None:
    ssm = cloud.client("ssm")
    ssm.put_parameter(Name="/secretive/secrets/token", Value="x", Type="SecureString")
    ssm.put_parameter(Name="/secretiveother/secrets/token", Value="x", Type="SecureString")
    (found,) = find_leftovers(session(cloud), "Secretive")
    assert (found.kind, found.name) == (Kind.PARAMETER, "/secretive/secrets/token")
    assert (found.dollars, found.about) == (0.0, "a secret of jobs")
    assert found.kind in DATA
    remove(session(cloud), [found])
    assert find_leftovers(session(cloud), "Secretive") == []
    assert ssm.get_parameter(Name="/secretiveother/secrets/token")


POLICIES = ("viewer", "user", "dev", "operator")


@pytest.fixture
def granting(cloud: Cloud) -> Iterator[Deployment]:
    """Yield a yard with policies for users, and create two IAM users."""
    name, iam = f"G{uuid.uuid4().hex[:8]}", cloud.client("iam")
    stacked(
        cloud,
        name,
        "People",
        {"Resources": {word: policy(f"{name.lower()}-{word}") for word in POLICIES}},
    )
    for user in ("ada", "bob"):
        iam.create_user(UserName=f"{name}-{user}")
    arns = {word: f"arn:aws:iam::{ACCOUNT}:policy/{name.lower()}-{word}" for word in POLICIES}
    known = {"yard": name, "account": ACCOUNT, "bucket": "b", "policies": arns, "monthly_dollars": 1.0}
    texts = ("table", "bus", "recipe", "software", "dashboard", "topic")
    more = {"version": __version__, "workflows": {}, **dict.fromkeys(texts, "")}
    cloud.client("ssm").put_parameter(
        Name=f"/{name.lower()}/yard", Value=json.dumps(known | more), Type="String"
    )
    yield Deployment.find(name, session(cloud))
    cloud.client("ssm").delete_parameter(Name=f"/{name.lower()}/yard")


def policy(name: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {
        "Type": "AWS::IAM::ManagedPolicy",
        "Properties": {"ManagedPolicyName": name, "PolicyDocument": document},
    }


def held_by(cloud: Cloud, user: str) -> set[str]:
    found = cloud.client("iam").list_attached_user_policies(UserName=user)["AttachedPolicies"]
    return {each["PolicyName"].rpartition("-")[2] for each in found}


def test_a_grant_is_the_level_that_was_named_last(cloud: Cloud, granting: Deployment) -> None:
    ada = f"{granting.name}-ada"
    people.grant(granting, f"user/{ada}", ("user", "dev", "operator"))
    assert held_by(cloud, ada) == {"user", "dev", "operator"}
    granted = people.grant(granting, f"user/{ada}", ("viewer",))
    assert held_by(cloud, ada) == {"viewer"}
    assert len(granted.detached) == 3
    people.grant(granting, f"user/{ada}", ("user", "dev"))
    assert held_by(cloud, ada) == {"user", "dev"}


def test_a_grant_is_revoked_and_others_policies_stay(cloud: Cloud, granting: Deployment) -> None:
    ada, iam = f"{granting.name}-ada", cloud.client("iam")
    other = iam.create_policy(
        PolicyName=f"{ada}-other",
        PolicyDocument=json.dumps(policy("x")["Properties"]["PolicyDocument"]),
    )["Policy"]["Arn"]
    iam.attach_user_policy(UserName=ada, PolicyArn=other)
    people.grant(granting, f"user/{ada}", ("user", "dev"))
    assert len(people.revoke(granting, f"user/{ada}")) == 2
    assert held_by(cloud, ada) == {"other"}
    assert people.revoke(granting, f"user/{ada}") == []
    with pytest.raises(HolderNotFound, match="the user nobody-there does not exist"):
        people.revoke(granting, "user/nobody-there")


def test_grants_go_with_the_yard_and_are_named_before(cloud: Cloud, granting: Deployment) -> None:
    """Test attached policies. IAM refuses to delete them, and a new policy of the same name would apply at once."""
    for user, levels in (("ada", ("user", "dev")), ("bob", ("viewer",))):
        people.grant(granting, f"user/{granting.name}-{user}", levels)
    said: list[str] = []
    delete_stacks(session(cloud), granting.name, said.append)
    assert said[0] == f"deleting the grants of user/{granting.name}-ada, user/{granting.name}-bob"
    assert stacks(session(cloud), granting.name) == []
    assert held_by(cloud, f"{granting.name}-ada") == held_by(cloud, f"{granting.name}-bob") == set()


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
    (found,) = find_leftovers(session(cloud), "Hosted")
    assert (found.kind, found.name) == (Kind.IMAGE, image)
    assert found.dollars == pytest.approx(found.gib * 0.05)
    assert found.kind in IMAGES
    remove(session(cloud), [found])
    assert find_leftovers(session(cloud), "Hosted") == []


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
