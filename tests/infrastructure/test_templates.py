"""The templates as a whole: promises by name, SSM documents, and alarms."""

import base64
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

from stacks.settings import YardSettings
from tests.infrastructure.assembly import Assembly, text

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("start", "stop", "generalize", "pause", "resume", "install", "test")
WORKFLOWS = ("train", "study", "bake", "snapshot", "dev-host")


def lint(files: Iterable[Path]) -> str:
    """Return the findings of cfn-lint in these templates."""
    command = [str(Path(sys.executable).parent / "cfn-lint"), *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert bool(done.stdout) == bool(done.returncode), done.stderr
    return done.stdout


@pytest.mark.parametrize("which", ["yard", "private_yard"])
def test_cfn_lint_has_nothing_to_say(which: str, request: pytest.FixtureRequest) -> None:
    assembly: Assembly = request.getfixturevalue(which)
    assert lint(sorted(assembly.folder.glob("*.template.json"))) == ""


def with_numbers(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with its state machines only, and a number in place of each JSONata expression, because
    cfn-lint's schema wants one. The templates' own machines are checked otherwise."""
    machines = {
        name: {"Type": each["Type"], "Properties": {**each["Properties"]}}
        for name, each in template["Resources"].items()
        if each["Type"] == "AWS::StepFunctions::StateMachine"
    }
    for each in machines.values():
        document = each["Properties"]["DefinitionString"]
        document = re.sub(
            r'("\w*Seconds": )"\{%[^"]*%\}"', r"\g<1>60", document.replace("${Partition}", "aws")
        )
        function = "arn:aws:lambda:us-east-1:123456789012:function:f"
        each["Properties"] = {
            "RoleArn": "arn:aws:iam::123456789012:role/machine",
            "DefinitionString": re.sub(r"\$\{\w+\}", function, document),
        }
    return {"Resources": machines}


def test_the_language_of_the_state_machines_is_that_of_step_functions(yard: Assembly, tmp_path: Path) -> None:
    copies = {name: with_numbers(template) for name, template in yard.templates.items()}
    copies = {name: each for name, each in copies.items() if each["Resources"]}
    assert sum(len(each["Resources"]) for each in copies.values()) == 7
    for name, each in copies.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(each))
    assert lint(tmp_path.glob("*.json")) == ""
    (planted,) = (name for name in copies if "TrainWorkflow" in str(copies[name]))
    wrong = json.dumps(copies[planted]).replace("HeartbeatSeconds", "HeartBeatSeconds")
    (tmp_path / "planted.json").write_text(wrong)
    assert "E3601" in lint([tmp_path / "planted.json"])


def test_the_promised_outputs_are_there(yard: Assembly) -> None:
    outputs = {
        stack: {name for name in template.get("Outputs", {}) if not name.startswith("ExportsOutput")}
        for stack, template in yard.templates.items()
    }
    assert outputs == {
        "Trainyard-Network": set(),
        "Trainyard-Storage": {"BucketName", "TableName"},
        "Trainyard-Images": {"BakeStateMachineArn", "BakeRecipe", "RetireStateMachineArn"},
        "Trainyard-Training": {
            "EventBusName",
            "TrainStateMachineArn",
            "SnapshotStateMachineArn",
            "StudyStateMachineArn",
            "VersionStateMachineArn",
            "DevHostStateMachineArn",
            "Limits",
            "Prepared",
        },
        "Trainyard-Patrol": set(),
        "Trainyard-Watch": set(),
        "Trainyard-People": {"ViewerPolicyArn", "UserPolicyArn", "DevPolicyArn", "OperatorPolicyArn"},
    }


NEVER_REPLACED = {
    ("AWS::S3::Bucket", "Ref"): set(),
    ("AWS::S3::Bucket", "Arn"): set(),
    ("AWS::DynamoDB::Table", "Ref"): {"AttributeDefinitions", "KeySchema"},
    ("AWS::DynamoDB::Table", "Arn"): {"AttributeDefinitions", "KeySchema"},
    ("AWS::EC2::VPC", "Ref"): {"CidrBlock", "InstanceTenancy"},
    ("AWS::EC2::Subnet", "Ref"): {"AvailabilityZone", "CidrBlock", "VpcId"},
    ("AWS::EC2::SecurityGroup", "GroupId"): {"GroupDescription", "VpcId"},
}
"""Allowed exports: AWS chose the name, which stays until a replacement. Beside each, the properties whose change
would replace the resource."""
AS_DEPLOYED = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [
        {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "month", "created")
    ],
    "GroupDescription": "Hosts of the yard: no access from outside",
}
"""Deployed yards have these values: the next update with another value would be refused."""
REPLACING = {
    "BucketName",
    "TableName",
    "GroupName",
    "AvailabilityZoneId",
    "OutpostArn",
    "ImportSourceSpecification",
}
"""Further properties of this kind that no resource sets."""


@pytest.mark.parametrize("which", ["yard", "private_yard"])
def test_no_update_changes_an_export(which: str, request: pytest.FixtureRequest) -> None:
    """CloudFormation refuses an update that changes or removes an export in use, so exports are few and permanent."""
    assembly: Assembly = request.getfixturevalue(which)
    exported = [
        (stack, output["Value"])
        for stack, template in assembly.templates.items()
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    ]
    assert 0 < len(exported) <= 10
    for stack, value in exported:
        name, attribute = (value["Ref"], "Ref") if "Ref" in value else value["Fn::GetAtt"]
        resource = assembly.templates[stack]["Resources"][name]
        assert (resource["Type"], attribute) in NEVER_REPLACED, (stack, value)
        given = resource["Properties"]
        assert not REPLACING & set(given), (stack, name)
        for key in NEVER_REPLACED[resource["Type"], attribute] & set(AS_DEPLOYED):
            assert given[key] == AS_DEPLOYED[key], (stack, name)
    assert "Fn::GetStackOutput" not in json.dumps(assembly.templates)  # would become outdated silently


@pytest.mark.parametrize("which", ["yard", "private_yard"])
def test_what_is_spoken_of_by_its_name_is_there(which: str, request: pytest.FixtureRequest) -> None:
    """References by name are not checked by CloudFormation."""
    assembly: Assembly = request.getfixturevalue(which)
    arn = r"arn:\{AWS::Partition\}:(?:lambda|states|sqs|sns):\{AWS::Region\}:\{AWS::AccountId\}:[\w:-]+"
    spoken = {each for whole in joined(assembly.templates) for each in re.findall(arn, whole)}
    named = {re.sub(r":execution:([\w-]+)", r":stateMachine:\1", each).rstrip(":") for each in spoken}
    known = set(dict(assembly.named()))
    assert named
    beginnings = {each for each in named if each.endswith("-")}  # followed by *
    assert named - beginnings <= known
    assert all(any(each.startswith(beginning) for each in known) for beginning in beginnings)


def joined(value: Any) -> Iterator[str]:
    """Yield every joined text in a tree."""
    match value:
        case {"Fn::Join": _}:
            yield text(value)
        case dict():
            for each in value.values():
                yield from joined(each)
        case list():
            for each in value:
                yield from joined(each)


def test_the_templates_are_the_same_for_every_account_and_region(yard: Assembly) -> None:
    for stack, template in yard.templates.items():
        assert not re.search(r"\b\d{12}\b|\b[a-z]{2}-[a-z]+-\d\b", json.dumps(template)), stack


def test_a_second_yard_shares_no_name_with_the_first(yard: Assembly, private_yard: Assembly) -> None:
    def names(assembly: Assembly) -> set[str]:
        keys = (
            "FunctionName",
            "StateMachineName",
            "Name",
            "LogGroupName",
            "QueueName",
            "TopicName",
            "AlarmName",
        )
        return {
            each.properties[key]
            for each in assembly.all()
            for key in keys
            if isinstance(each.properties.get(key), str)
        }

    assert names(yard)
    assert not names(yard) & names(private_yard)
    assert set(private_yard.templates) == {name.replace("Trainyard", "Other") for name in yard.templates}


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"yard": "my yard"}, "the name of a yard is a capital letter"),
        ({"private": "perhaps"}, "private='perhaps': expected true or false"),
        ({"zones": "us-east-1a;us-east-1b"}, "zones='us-east-1a;us-east-1b': expected different zones"),
        ({"zones": "us-east-1a,us-east-1a"}, "expected different zones"),
        ({"keep_images": "0"}, "keep_images='0': expected a whole number above zero"),
        ({"volume_initialization_rate": "50"}, "volume_initialization_rate='50': expected 100, 200 or 300"),
        ({"bake_schedule": "sundays"}, "bake_schedule='sundays': expected rate"),
        ({"bake_recipe": "My Recipe"}, "bake_recipe='My Recipe': expected the name"),
        ({"vpc": "my-vpc"}, "vpc='my-vpc': expected the id of a VPC"),
        ({"vpc": "vpc-0123456789abcdef0"}, "vpc and subnets: give both"),
        ({"subnets": "subnet-0123456789abcdef0 subnet-1"}, "expected different ids"),
        ({"permissions_boundary": "Bound"}, "permissions_boundary='Bound': expected the ARN"),
        ({"kms_key": "alias/mine"}, "kms_key='alias/mine': expected the ARN of a key"),
        ({"bake_on_deploy": "later"}, "bake_on_deploy='later': expected true or false"),
        ({"log_days": 31}, "log_days='31': CloudWatch keeps logs for 1, 3, 5"),
    ],
)
def test_an_impossible_choice_is_refused_with_what_is_allowed(context: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        YardSettings.of(cdk.App(context=context))


# --------------------------------------------------------------------------------------------------- workflows


@pytest.mark.parametrize("word", WORKFLOWS)
def test_a_workflow_logs_everything(yard: Assembly, word: str) -> None:
    (machine,) = [
        each.properties
        for each in yard.resources("AWS::StepFunctions::StateMachine")
        if each.properties["StateMachineName"] == f"trainyard-{word}"
    ]
    assert machine["LoggingConfiguration"]["Level"] == "ALL"
    assert machine["LoggingConfiguration"]["IncludeExecutionData"] is True
    assert "TracingConfiguration" not in machine, "X-Ray asks for permissions that no run needs"


@pytest.mark.parametrize("word", WORKFLOWS)
def test_a_workflow_ends_by_itself_one_day(yard: Assembly, word: str) -> None:
    (machine,) = [
        each.properties
        for each in yard.resources("AWS::StepFunctions::StateMachine")
        if each.properties["StateMachineName"] == f"trainyard-{word}"
    ]
    definition = json.loads(text(machine["DefinitionString"]))
    assert definition["TimeoutSeconds"] > 0
    assert definition["QueryLanguage"] == "JSONata"


OF_LAMBDA = [
    {
        "ErrorEquals": [
            "Lambda.ServiceException",
            "Lambda.SdkClientException",
            "Lambda.TooManyRequestsException",
            "Lambda.ClientExecutionTimeoutException",
        ],
        "IntervalSeconds": 2,
        "MaxAttempts": 5,
        "BackoffRate": 2,
        "JitterStrategy": "FULL",
    },
    {"ErrorEquals": ["Lambda.AWSLambdaException"], "IntervalSeconds": 1, "MaxAttempts": 1},
    {
        "ErrorEquals": ["Runtime.ExitError", "Runtime.OutOfMemory", "Lambda.Unknown", "Sandbox.Timedout"],
        "IntervalSeconds": 2,
        "MaxAttempts": 3,
        "BackoffRate": 2,
    },
    {
        "ErrorEquals": ["ServiceUnavailable"],
        "IntervalSeconds": 4,
        "MaxAttempts": 16,
        "BackoffRate": 2,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    },
]
OF_A_DENIAL = {"ErrorEquals": ["AccessDenied"], "IntervalSeconds": 15, "MaxAttempts": 2, "BackoffRate": 2}
"""A permission may be missing for seconds while IAM applies a change; a token fails with the error of a host."""
OF_ITS_OWN = {
    ("train", "Generalize"): ("NotRegistered", 5, 12),
    ("bake", "Install"): ("NotRegistered", 5, 120),
    ("dev-host", "Await"): ("NotRegistered", 5, 240),
    ("snapshot", "Pause"): ("NotRegistered", 5, 12),
    ("snapshot", "Stop"): ("StillStopping", 5, 240),
    ("snapshot", "Undo"): ("StillStopping", 10, 120),
}


@pytest.mark.parametrize("word", [*WORKFLOWS, "retire"])
def test_every_task_tries_again_what_lambda_failed_at_after_what_is_its_own(
    yard: Assembly, word: str
) -> None:
    (machine,) = [
        each.properties
        for each in yard.resources("AWS::StepFunctions::StateMachine")
        if each.properties["StateMachineName"] == f"trainyard-{word}"
    ]
    states = json.loads(text(machine["DefinitionString"]))["States"]
    assert not [name for name, state in states.items() if {"Branches", "ItemProcessor"} & set(state)]
    for name, state in states.items():
        own = [
            {"ErrorEquals": [error], "IntervalSeconds": seconds, "MaxAttempts": attempts, "BackoffRate": 1}
            for (workflow, task), (error, seconds, attempts) in OF_ITS_OWN.items()
            if (workflow, task) == (word, name)
        ]
        expected = [*own, *OF_LAMBDA, OF_A_DENIAL] if state["Type"] == "Task" else None
        assert state.get("Retry") == expected, name


# --------------------------------------------------------------------------------------------------- documents


def document(yard: Assembly, word: str) -> dict[str, Any]:
    (found,) = [
        each.properties
        for each in yard.resources("AWS::SSM::Document")
        if each.properties["Name"] == f"trainyard-{word}"
    ]
    return found


@pytest.mark.parametrize("word", DOCUMENTS)
def test_a_parameter_reaches_the_shell_as_a_variable_and_only_in_its_pattern(
    yard: Assembly, word: str
) -> None:
    content = document(yard, word)["Content"]
    assert content["schemaVersion"] == "2.2"
    for name, parameter in content.get("parameters", {}).items():
        assert parameter["interpolationType"] == "ENV_VAR", name
        pattern = parameter["allowedPattern"]
        assert pattern.startswith("^")
        assert pattern.endswith("$")
        for evil in ("", "a b", "a;b", "$(id)", "`id`", "a'b", 'a"b', "a\nb", "../a b", "-x"):
            assert not re.search(pattern, evil), (name, evil)
    assert "{{" not in json.dumps(content["mainSteps"]), "nothing is pasted into a script"


@pytest.mark.parametrize("word", DOCUMENTS)
def test_a_change_of_a_document_makes_a_new_version(yard: Assembly, word: str) -> None:
    assert document(yard, word)["UpdateMethod"] == "NewVersion"


@pytest.mark.parametrize("word", DOCUMENTS)
def test_every_step_stops_at_its_first_error_and_has_a_time_limit(yard: Assembly, word: str) -> None:
    for step in document(yard, word)["Content"]["mainSteps"]:
        assert step["inputs"]["runCommand"][0].startswith("set -eu")
        assert 0 < int(step["inputs"]["timeoutSeconds"]) <= 172_800


@pytest.mark.parametrize("word", DOCUMENTS)
def test_a_document_is_a_script_that_a_shell_understands(word: str) -> None:
    content = yaml.safe_load((ROOT / f"stacks/documents/{word}.yaml").read_text())
    for step in content["mainSteps"]:
        script = "\n".join(step["inputs"]["runCommand"])
        done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_persons_command_reaches_the_hosts_shell_as_letters_and_digits(yard: Assembly) -> None:
    """The command is pasted into a command line, as in any session document, so it arrives as base64."""
    found = document(yard, "command")
    assert (found["DocumentType"], found["UpdateMethod"]) == ("Session", "NewVersion")
    pattern = found["Content"]["parameters"]["command"]["allowedPattern"]
    for evil in ("", "a b", "a;b", "$(id)", "`id`", "a'b", 'a"b', "a\nb", "-x", "a=b"):
        assert not re.search(pattern, evil), evil
    text = "echo 'it is' \"$HOME\"; exit 3"
    line = found["Content"]["properties"]["linux"]["commands"]
    argv = shlex.split(line.replace("{{ command }}", base64.b64encode(text.encode()).decode()))
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={"HOME": "/h", "PATH": os.environ["PATH"]}
    )
    assert (done.stdout, done.returncode) == ("it is /h\n", 3)


def test_the_parameters_that_functions_send_are_the_documents_own(yard: Assembly) -> None:
    """SendCommand refuses an unknown parameter, so the names must match."""
    sent = {
        "start": {"Run", "Attempt"},
        "stop": {"Run", "Attempt"},
        "generalize": {"Depth"},
        "pause": set(),
        "resume": set(),
        "install": {"Software", "Recipe", "Sha256", "Run"},
        "test": {"Recipe", "Sha256", "Run"},
    }
    for word, parameters in sent.items():
        assert set(document(yard, word)["Content"].get("parameters", {})) == parameters


# ------------------------------------------------------------------------------------------------------- watch


def test_a_person_is_told_by_mail_when_the_yard_has_an_address(
    yard: Assembly, private_yard: Assembly
) -> None:
    def by_mail(of: Assembly) -> list[str]:
        found = [each.properties for each in of.resources("AWS::SNS::Subscription")]
        return [each["Endpoint"] for each in found if each["Protocol"] == "email"]

    assert (by_mail(yard), by_mail(private_yard)) == ([], ["someone@example.org"])


def test_logs_do_not_stay_for_ever(yard: Assembly) -> None:
    for group in yard.resources("AWS::Logs::LogGroup"):
        assert group.properties["RetentionInDays"] > 0
