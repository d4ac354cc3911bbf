"""SSM documents behave as on AWS."""

import json
from typing import Any

import pytest
import yaml

from tests.contract.conftest import Cloud, eventually
from tests.contract.hosts.conftest import Hosts, error_code, unique

JOB = {
    "parameters": {
        "JobId": {"type": "String", "allowedPattern": "^[a-z0-9-]{1,40}$", "interpolationType": "ENV_VAR"},
        "Mode": {"type": "String", "default": "slow", "allowedValues": ["slow", "fast"]},
        "executionTimeout": {"type": "String", "default": "600"},
    },
    "mainSteps": [
        {
            "action": "aws:runShellScript",
            "name": "say",
            "precondition": {"StringEquals": ["platformType", "Linux"]},
            "inputs": {
                "timeoutSeconds": "{{ executionTimeout }}",
                "runCommand": ["set -eu", 'echo "job $SSM_JobId mode {{ Mode }}"'],
            },
        }
    ],
}


def shell(*lines: str, name: str = "step", **inputs: Any) -> dict[str, Any]:
    return {"action": "aws:runShellScript", "name": name, "inputs": {"runCommand": list(lines), **inputs}}


def test_a_document_runs_with_its_parameters(shared: Hosts, pair: list[str]) -> None:
    name = shared.document(JOB)
    sent = shared.ssm.send_command(
        DocumentName=name, InstanceIds=pair[:1], Parameters={"JobId": ["digits-1"]}
    )
    ended = shared.over(sent["Command"]["CommandId"], pair[0])
    assert (ended["Status"], ended["ResponseCode"]) == ("Success", 0)
    assert ended["StandardOutputContent"] == "job digits-1 mode slow\n"
    assert ended["PluginName"] == "say"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"JobId": ["digits-1; rm -rf /"]},
        {"JobId": ["two", "values"]},
        {"JobId": ["ok\n"]},
        {"JobId": ["ok"], "Mode": ["medium"]},
        {"JobId": ["ok"], "Unheard": ["of"]},
    ],
    ids=["missing", "pattern", "two values", "newline", "not allowed", "unknown"],
)
def test_parameters_that_a_document_does_not_allow_are_refused(
    shared: Hosts, pair: list[str], parameters: dict[str, list[str]]
) -> None:
    name = shared.document(JOB)
    send = shared.ssm.send_command
    assert error_code(send, DocumentName=name, InstanceIds=pair, Parameters=parameters) == "InvalidParameters"


def test_an_environment_parameter_is_never_pasted_into_the_script(shared: Hosts, pair: list[str]) -> None:
    parameters = {"Text": {"type": "String", "interpolationType": "ENV_VAR"}}
    name = shared.document({"parameters": parameters, "mainSteps": [shell('echo "{{ Text }}" "$SSM_Text"')]})
    evil = '"; echo $(id) `id` $HOME; "'
    sent = shared.ssm.send_command(DocumentName=name, InstanceIds=pair[:1], Parameters={"Text": [evil]})
    assert shared.over(sent["Command"]["CommandId"], pair[0])["StandardOutputContent"] == f"{evil} {evil}\n"


def test_steps_run_in_order_and_each_has_its_own_result(shared: Hosts, pair: list[str]) -> None:
    steps = [
        shell("echo one", "exit 3", name="first"),
        shell("echo two", name="second"),
        {**shell("echo never", name="third"), "precondition": {"StringEquals": ["platformType", "Windows"]}},
    ]
    command = shared.ssm.send_command(
        DocumentName=shared.document({"mainSteps": steps}), InstanceIds=pair[:1]
    )
    command_id = command["Command"]["CommandId"]
    assert shared.over(command_id, pair[0], PluginName="first")["ResponseCode"] == 3
    second = shared.over(command_id, pair[0], PluginName="second")
    assert (second["Status"], second["StandardOutputContent"]) == ("Success", "two\n")
    assert "skipped" in shared.over(command_id, pair[0], PluginName="third")["StandardOutputContent"]
    look = shared.ssm.get_command_invocation
    assert error_code(look, CommandId=command_id, InstanceId=pair[0]) == "InvalidPluginName"

    def whole() -> dict[str, Any]:
        found = shared.ssm.list_command_invocations(CommandId=command_id, Details=True)
        return dict(found["CommandInvocations"][0])

    eventually(lambda: whole()["Status"] == "Failed")
    assert [step["Name"] for step in whole()["CommandPlugins"]] == ["first", "second", "third"]


def test_a_step_may_end_the_document(shared: Hosts, pair: list[str]) -> None:
    steps = [
        shell("exit 1", name="check", onFailure="exit"),
        shell("echo no", name="work"),
        shell("echo swept", name="sweep", finallyStep="true"),
    ]
    sent = shared.ssm.send_command(DocumentName=shared.document({"mainSteps": steps}), InstanceIds=pair[:1])
    command_id = sent["Command"]["CommandId"]
    assert "skipped" in shared.over(command_id, pair[0], PluginName="work")["StandardOutputContent"]
    assert shared.over(command_id, pair[0], PluginName="sweep")["StandardOutputContent"] == "swept\n"


def test_a_step_runs_in_its_folder(shared: Hosts, pair: list[str]) -> None:
    name = shared.document({"mainSteps": [shell("pwd", workingDirectory="/var/log")]})
    sent = shared.ssm.send_command(DocumentName=name, InstanceIds=pair[:1])
    assert shared.over(sent["Command"]["CommandId"], pair[0])["StandardOutputContent"] == "/var/log\n"


def test_a_document_may_be_yaml_and_is_given_back_in_either_form(cloud: Cloud) -> None:
    ssm, name = cloud.client("ssm"), unique("document")
    text = yaml.safe_dump({"schemaVersion": "2.2", **JOB})
    ssm.create_document(Name=name, Content=text, DocumentType="Command", DocumentFormat="YAML")
    assert ssm.get_document(Name=name)["Content"] == text
    assert json.loads(ssm.get_document(Name=name, DocumentFormat="JSON")["Content"]) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("{", "InvalidDocumentContent"),
        ('{"schemaVersion": "9"}', "InvalidDocumentSchemaVersion"),
        ('{"schemaVersion": "2.2", "mainSteps": []}', "InvalidDocumentContent"),
        (
            json.dumps({"schemaVersion": "2.2", "mainSteps": [shell("{{ undefined }}")]}),
            "InvalidDocumentContent",
        ),
        (json.dumps({"schemaVersion": "2.2", "mainSteps": [shell("x" * 66000)]}), "MaxDocumentSizeExceeded"),
    ],
)
def test_a_document_that_cannot_run_is_refused(cloud: Cloud, content: str, code: str) -> None:
    create = cloud.client("ssm").create_document
    assert error_code(create, Name=unique("document"), Content=content, DocumentType="Command") == code


def test_a_name_is_taken_once(hosts: Hosts) -> None:
    name = hosts.document(JOB)
    text = json.dumps({"schemaVersion": "2.2", **JOB})
    assert error_code(hosts.ssm.create_document, Name=name, Content=text) == "DocumentAlreadyExists"


def test_a_new_version_runs_only_when_it_is_the_default_or_asked_for(shared: Hosts, pair: list[str]) -> None:
    name = shared.document({"mainSteps": [shell("echo v1")]})
    content = json.dumps({"schemaVersion": "2.2", "mainSteps": [shell("echo v2")]})
    shared.ssm.update_document(Name=name, Content=content, DocumentVersion="$LATEST")

    def output(**more: str) -> str:
        sent = shared.ssm.send_command(DocumentName=name, InstanceIds=pair[:1], **more)["Command"]
        return str(shared.over(sent["CommandId"], pair[0])["StandardOutputContent"])

    assert (output(), output(DocumentVersion="$LATEST"), output(DocumentVersion="2")) == (
        "v1\n",
        "v2\n",
        "v2\n",
    )
    shared.ssm.update_document_default_version(Name=name, DocumentVersion="2")
    assert output() == "v2\n"
    described = shared.ssm.describe_document(Name=name)["Document"]
    assert (described["DefaultVersion"], described["LatestVersion"]) == ("2", "2")
    versions = shared.ssm.list_document_versions(Name=name)["DocumentVersions"]
    assert [(v["DocumentVersion"], v["IsDefaultVersion"]) for v in versions] == [("2", True), ("1", False)]


def test_a_pinned_hash_must_be_the_documents(shared: Hosts, pair: list[str]) -> None:
    name = shared.document({"mainSteps": [shell("true")]})
    given = shared.ssm.describe_document(Name=name)["Document"]["Hash"]
    send = shared.ssm.send_command
    assert send(DocumentName=name, InstanceIds=pair, DocumentHash=given, DocumentHashType="Sha256")
    assert error_code(send, DocumentName=name, InstanceIds=pair, DocumentHash="0" * 64) == "InvalidDocument"


def test_the_same_content_is_no_new_version(hosts: Hosts) -> None:
    name = hosts.document(JOB)
    content = hosts.ssm.get_document(Name=name)["Content"]
    update = hosts.ssm.update_document
    assert error_code(update, Name=name, Content=content) == "DuplicateDocumentContent"


def test_a_deleted_document_is_not_there(hosts: Hosts) -> None:
    name = hosts.document(JOB)
    hosts.ssm.delete_document(Name=name)
    for call in (hosts.ssm.get_document, hosts.ssm.describe_document, hosts.ssm.delete_document):
        assert error_code(call, Name=name) == "InvalidDocument"


def test_own_documents_are_listed_by_owner(hosts: Hosts) -> None:
    name = hosts.document(JOB)
    pages = hosts.ssm.get_paginator("list_documents").paginate(Filters=[{"Key": "Owner", "Values": ["Self"]}])
    found = [document["Name"] for page in pages for document in page["DocumentIdentifiers"]]
    assert name in found
    assert "AWS-RunShellScript" not in found


def template(content: dict[str, Any], **more: Any) -> str:
    properties = {"Content": {"schemaVersion": "2.2", **content}, "DocumentType": "Command", **more}
    resource = {"Type": "AWS::SSM::Document", "Properties": properties}
    return json.dumps({"Resources": {"Job": resource}, "Outputs": {"Name": {"Value": {"Ref": "Job"}}}})


def test_a_stack_makes_a_document_and_a_change_of_it_becomes_the_default(cloud: Cloud) -> None:
    stacks, ssm, stack, name = (
        cloud.client("cloudformation"),
        cloud.client("ssm"),
        unique("stack"),
        unique("doc"),
    )

    def status() -> str:
        return str(stacks.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])

    named = {"Name": name, "UpdateMethod": "NewVersion"}
    stacks.create_stack(StackName=stack, TemplateBody=template({"mainSteps": [shell("echo v1")]}, **named))
    eventually(lambda: status() == "CREATE_COMPLETE")
    assert stacks.describe_stacks(StackName=stack)["Stacks"][0]["Outputs"][0]["OutputValue"] == name
    stacks.update_stack(StackName=stack, TemplateBody=template({"mainSteps": [shell("echo v2")]}, **named))
    eventually(lambda: status() == "UPDATE_COMPLETE")
    assert ssm.describe_document(Name=name)["Document"]["DefaultVersion"] == "2"
    assert "echo v2" in ssm.get_document(Name=name)["Content"]
    stacks.delete_stack(StackName=stack)
    eventually(lambda: name not in [d["Name"] for d in ssm.list_documents()["DocumentIdentifiers"]])


def test_documents_survive_a_restart(own_cloud: Cloud) -> None:
    name = Hosts(own_cloud, "").document(JOB)
    own_cloud.down()
    own_cloud.up()
    assert own_cloud.client("ssm").describe_document(Name=name)["Document"]["Status"] == "Active"
