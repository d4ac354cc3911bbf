"""A synthesised assembly as deployed by the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulation import template
from simulation.aws.endpoint.api import ACCOUNT, REGION
from simulation.template import Permission, YardTemplate

TRUST = {"Version": "2012-10-17", "Statement": []}
STORAGE = {
    "Resources": {
        "Bucket1": {
            "Type": "AWS::S3::Bucket",
            "Properties": {"VersioningConfiguration": {"Status": "Enabled"}},
        },
        "Table1": {"Type": "AWS::DynamoDB::Table", "Properties": {"TableName": "ledger"}},
        "Policy1": {
            "Type": "AWS::S3::BucketPolicy",
            "Properties": {
                "Bucket": {"Ref": "Bucket1"},
                "PolicyDocument": {
                    "Resource": {"Fn::Join": ["", [{"Fn::GetAtt": ["Bucket1", "Arn"]}, "/*"]]}
                },
            },
        },
    },
    "Outputs": {
        "Exported": {"Value": {"Ref": "Bucket1"}, "Export": {"Name": "storage:bucket"}},
        "TableName": {"Value": {"Ref": "Table1"}},
    },
}
DEFINITION = {
    "QueryLanguage": "JSONata",
    "StartAt": "Work",
    "States": {
        "Work": {"Type": "Task", "Resource": "${WorkArn}", "TimeoutSeconds": "{% ${Seconds} %}", "End": True}
    },
}
QUEUE_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"
BUCKET = {"Fn::ImportValue": "storage:bucket"}
SUBSTITUTED = "arn:${AWS::Partition}:x:${Bucket}:${!Kept}"
WORK: dict[str, Any] = {
    "Parameters": {
        "Version": {
            "Type": "AWS::SSM::Parameter::Value<String>",
            "Default": "/cdk-bootstrap/hnb659fds/version",
        },
        "Zone": {"Type": "Number", "Default": 1},
        "Public": {"Type": "String", "Default": "yes"},
    },
    "Conditions": {
        "IsPublic": {"Fn::Equals": [{"Ref": "Public"}, "yes"]},
        "IsPrivate": {"Fn::Not": [{"Condition": "IsPublic"}]},
    },
    "Resources": {
        "Role1": {
            "Type": "AWS::IAM::Role",
            "Properties": {
                "AssumeRolePolicyDocument": TRUST,
                "Policies": [{"PolicyName": "inline", "PolicyDocument": {"Statement": ["inline"]}}],
            },
        },
        "RolePolicy": {
            "Type": "AWS::IAM::Policy",
            "Properties": {
                "PolicyName": "its own",
                "Roles": [{"Ref": "Role1"}],
                "PolicyDocument": {
                    "Statement": [{"Resource": {"Fn::Sub": [SUBSTITUTED, {"Bucket": BUCKET}]}}]
                },
            },
        },
        "Profile1": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "Role1"}]}},
        "Function1": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "FunctionName": "yard-work",
                "Handler": "lambdas.workflows.work.handler",
                "Role": {"Fn::GetAtt": ["Role1", "Arn"]},
                "Timeout": 60,
                "Environment": {"Variables": {"BUCKET": BUCKET}},
            },
        },
        "Config1": {
            "Type": "AWS::Lambda::EventInvokeConfig",
            "Properties": {
                "FunctionName": {"Ref": "Function1"},
                "Qualifier": "$LATEST",
                "MaximumRetryAttempts": 0,
                "MaximumEventAgeInSeconds": 60,
                "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": ["Queue1", "Arn"]}}},
            },
        },
        "Machine1": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {
                "StateMachineName": "yard-train",
                "DefinitionString": json.dumps(DEFINITION),
                "DefinitionSubstitutions": {"WorkArn": {"Fn::GetAtt": "Function1.Arn"}, "Seconds": "600"},
                "RoleArn": {"Fn::GetAtt": ["Role1", "Arn"]},
            },
        },
        "Rule1": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventBusName": {"Ref": "Bus1"},
                "EventPattern": {"detail": {"machine": [{"Ref": "Machine1"}]}},
                "Targets": [
                    {
                        "Id": "it",
                        "Arn": {"Fn::GetAtt": ["Function1", "Arn"]},
                        "InputTransformer": {"InputPathsMap": {"a": "$.detail.a"}, "InputTemplate": "<a>"},
                        "RetryPolicy": {"MaximumRetryAttempts": 3, "MaximumEventAgeInSeconds": 90},
                        "DeadLetterConfig": {"Arn": {"Fn::GetAtt": ["Queue1", "Arn"]}},
                    }
                ],
            },
        },
        "Permission1": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction",
                "FunctionName": {"Fn::GetAtt": ["Function1", "Arn"]},
                "Principal": "events.amazonaws.com",
                "SourceArn": {"Fn::GetAtt": ["Rule1", "Arn"]},
            },
        },
        "Bus1": {"Type": "AWS::Events::EventBus", "Properties": {"Name": "yard"}},
        "Queue1": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "dead"}},
        "Topic1": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "notices"}},
        "Vpc1": {"Type": "AWS::EC2::VPC", "Properties": {}},
        "Subnet1": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {
                "AvailabilityZone": {"Fn::Select": [{"Ref": "Zone"}, {"Fn::GetAZs": ""}]},
                "VpcId": {"Ref": "Vpc1"},
                "CidrBlock": {"Fn::Select": [1, {"Fn::Split": ["|", "a|10.0.0.0/24"]}]},
                "MapPublicIpOnLaunch": {"Fn::If": ["IsPublic", True, {"Ref": "AWS::NoValue"}]},
            },
        },
        "Subnet2": {"Type": "AWS::EC2::Subnet", "Condition": "IsPrivate", "Properties": {}},
        "Hosts": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {
                "LaunchTemplateData": {"IamInstanceProfile": {"Arn": {"Fn::GetAtt": ["Profile1", "Arn"]}}}
            },
        },
        "Doc1": {
            "Type": "AWS::SSM::Document",
            "Properties": {
                "Name": "yard-start",
                "Content": {"schemaVersion": "2.2"},
                "DocumentType": "Command",
            },
        },
        "Parameter1": {"Type": "AWS::SSM::Parameter", "Properties": {"Name": "/yard/image", "Value": "none"}},
    },
}


@pytest.fixture(scope="module")
def yard() -> YardTemplate:
    return template.deploy_templates({"Storage": STORAGE, "Work": WORK})


def test_a_name_that_the_template_does_not_give_is_made_as_cloudformation_would(yard: YardTemplate) -> None:
    prefix, _, mark = yard.bucket.name.rpartition("-")
    assert (prefix, len(mark), yard.bucket.name.islower()) == ("storage-bucket1", 12, True)
    assert yard.bucket.arn == f"arn:aws:s3:::{yard.bucket.name}"
    assert yard.table.name == "ledger"


def test_a_function_has_its_module_its_environment_and_how_events_are_tried_again(yard: YardTemplate) -> None:
    function = yard.functions["yard-work"]
    assert function.module == "lambdas.workflows.work"
    assert function.environment == {"BUCKET": yard.bucket.name}
    assert function.timeout == 60
    assert (function.retries, function.max_age) == (0, 60)
    assert yard.failure_queues == {"yard-work": QUEUE_ARN}


def test_a_role_has_its_own_policies_and_those_that_name_it(yard: YardTemplate) -> None:
    role = yard.roles[yard.functions["yard-work"].role]
    assert role.arn == f"arn:aws:iam::{ACCOUNT}:role/{role.name}"
    assert role.policies == (
        {"Statement": ["inline"]},
        {"Statement": [{"Resource": f"arn:aws:x:{yard.bucket.name}:${{Kept}}"}]},
    )
    assert list(yard.instance_profiles.values()) == [role.arn]


def test_a_machine_has_its_definition_with_all_substitutions(yard: YardTemplate) -> None:
    machine = yard.machine("train")
    assert machine.arn == f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:yard-train"
    work = machine.definition["States"]["Work"]
    assert work["Resource"] == f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:yard-work"
    assert work["TimeoutSeconds"] == "{% 600 %}"


def test_a_rule_on_a_bus_of_ones_own_has_that_in_its_arn(yard: YardTemplate) -> None:
    [rule] = yard.rules
    assert rule.arn == f"arn:aws:events:{REGION}:{ACCOUNT}:rule/yard/{rule.name}"
    assert (rule.bus, rule.pattern) == ("yard", {"detail": {"machine": [yard.machine("train").arn]}})
    [target] = rule.targets
    assert (target.paths, target.template) == ({"a": "$.detail.a"}, "<a>")
    assert (target.max_retries, target.max_age, target.dead_letters) == (3, 90, QUEUE_ARN)
    assert Permission(target.arn, "events.amazonaws.com", rule.arn) in yard.permissions


def test_conditions_parameters_and_lists_are_resolved(yard: YardTemplate) -> None:
    [subnet] = yard.subnets.values()
    assert (subnet.zone, subnet.cidr, subnet.gives_public_addresses) == (f"{REGION}b", "10.0.0.0/24", True)
    assert subnet.vpc.startswith("vpc-")
    assert yard.outputs == {"TableName": "ledger"}


def test_a_bucket_has_its_policy(yard: YardTemplate) -> None:
    assert yard.resource_policies == {yard.bucket.arn: {"Resource": f"{yard.bucket.arn}/*"}}


def test_the_same_templates_give_the_same_ids(yard: YardTemplate) -> None:
    assert template.deploy_templates({"Storage": STORAGE, "Work": WORK}) == yard


@pytest.mark.parametrize(
    ("value", "fault"),
    [({"Fn::Cidr": ["10.0.0.0/8", 2, 8]}, "Fn::Cidr"), ({"Fn::GetAtt": ["Bus1", "Policy"]}, "Policy of")],
)
def test_an_unresolvable_reference_is_refused(value: Any, fault: str) -> None:
    changed = json.loads(json.dumps(WORK))
    changed["Resources"]["Parameter1"]["Properties"]["Value"] = value
    with pytest.raises(ValueError, match=fault):
        template.deploy_templates({"Storage": STORAGE, "Work": changed})


def test_a_folder_is_read_once(tmp_path: Path, yard: YardTemplate) -> None:
    artifacts = {}
    for name, stack in (("Storage", STORAGE), ("Work", WORK)):
        (tmp_path / f"{name}.json").write_text(json.dumps(stack))
        properties = {"templateFile": f"{name}.json", "stackName": name}
        artifacts[f"Yard{name}"] = {"type": "aws:cloudformation:stack", "properties": properties}
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    assert template.read(tmp_path) == yard
    assert template.read(tmp_path) is template.read(tmp_path)


def test_a_folder_without_templates_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="synthesise first"):
        template.read(tmp_path)
