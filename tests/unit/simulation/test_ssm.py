"""The simulated Systems Manager through its API."""

from typing import Any

import pytest

from simulation.aws.endpoint.api import ServiceError
from simulation.aws.ssm import Ssm
from simulation.aws.ssm.model import Settings
from tests.unit.simulation.ec2_yard import ME, Yard

AT_ONCE = Settings(register=(5, 5), deliver=(1, 1), unknown=(0, 0), lost=(300, 300), forgotten=(30, 30))
CONTENT = {
    "parameters": {"Run": {"type": "String", "allowedPattern": "^[a-z0-9]+$"}},
    "mainSteps": [
        {"action": "aws:runShellScript", "name": "fetch", "inputs": {"timeoutSeconds": "60"}},
        {"action": "aws:runShellScript", "name": "start", "inputs": {"timeoutSeconds": "60"}},
    ],
}


class Managed(Yard):
    """Two running hosts with registered agents."""

    def __init__(self, settings: Settings = AT_ONCE) -> None:
        super().__init__()
        self.announced: list[tuple[str, str]] = []
        self.details: list[dict[str, Any]] = []
        self.ssm = Ssm(self.world, self.ec2, self._announced, settings=settings)
        self.ssm.add_document("yard-start", CONTENT)
        self.first, self.second = self.launch(2, market="on-demand")
        self.on(10)
        for host in (self.first, self.second):
            self.ssm.register(host)
        self.on(10)

    def _announced(self, source: str, detail_type: str, detail: dict[str, Any], resources: list[str]) -> None:
        assert source == "aws.ssm"
        assert resources
        self.details.append(detail)
        self.announced.append(("one" if "instance-id" in detail else "all", detail["status"]))

    def send(self, *hosts: str, **more: Any) -> str:
        given = {
            "DocumentName": "yard-start",
            "InstanceIds": list(hosts or (self.first, self.second)),
            "Parameters": {"Run": ["r1"]},
            "MaxConcurrency": "100%",
            "TimeoutSeconds": 300,
        }
        return str(self.ssm.send_command(ME, given | more)["Command"]["CommandId"])

    def listed(self, **how: Any) -> dict[str, str]:
        found = self.ssm.list_command_invocations(ME, how)["CommandInvocations"]
        return {each["InstanceId"]: each["Status"] for each in found}

    def online(self) -> dict[str, str]:
        found = self.ssm.describe_instance_information(ME, {})["InstanceInformationList"]
        return {each["InstanceId"]: each["PingStatus"] for each in found}

    def details_of(self, command: str, host: str) -> str:
        return self.ssm.commands[command].invocations[host].details


@pytest.fixture
def yard() -> Managed:
    return Managed()


def refusal(yard: Managed, *hosts: str, **more: Any) -> str:
    with pytest.raises(ServiceError) as refused:
        yard.send(*hosts, **more)
    return refused.value.code


def test_a_host_is_online_some_seconds_after_its_agent_registered() -> None:
    yard = Managed()
    (host,) = yard.launch(1, run="r2")
    yard.on(10)
    yard.ssm.register(host)
    yard.on(4)
    assert host not in yard.online()
    yard.on(1)
    assert yard.online()[host] == "Online"
    only = {"Filters": [{"Key": "InstanceIds", "Values": [host, "i-0"]}]}
    assert len(yard.ssm.describe_instance_information(ME, only)["InstanceInformationList"]) == 1


def test_a_host_that_is_cut_off_is_lost_after_minutes_only(yard: Managed) -> None:
    yard.ssm.cut_off(yard.first)
    yard.on(299)
    assert yard.online()[yard.first] == "Online"
    yard.on(1)
    assert yard.online()[yard.first] == "ConnectionLost"
    yard.ssm.reconnect(yard.first)
    assert yard.online()[yard.first] == "Online"


def test_a_host_that_is_gone_is_listed_for_a_little_while(yard: Managed) -> None:
    yard.ask("terminate_instances", InstanceIds=[yard.first])
    yard.on(30)
    assert yard.first in yard.online()
    yard.on(30)
    assert yard.first not in yard.online()


def test_a_command_reaches_its_hosts_and_ends_when_all_have_done_it(yard: Managed) -> None:
    command = yard.send()
    yard.on(1)
    assert yard.hosts.calls[-2:] == [("yard-start", yard.first), ("yard-start", yard.second)]
    yard.ssm.done(command, yard.first, "Success")
    assert yard.listed(CommandId=command) == {yard.first: "Success", yard.second: "InProgress"}
    yard.ssm.done(command, yard.second, "Success")
    assert [status for what, status in yard.announced if what == "all"] == ["InProgress", "Success"]
    whole = yard.details[-1]
    assert (whole["command-id"], whole["document-name"]) == (command, "yard-start")
    assert whole["parameters"] == {"Run": ["r1"]}
    assert not yard.world.busy(), "no deadline is left behind"


def test_a_step_that_failed_is_named_with_what_it_printed(yard: Managed) -> None:
    command = yard.send(yard.first)
    yard.on(1)
    yard.ssm.done(command, yard.first, "Failed", 3, "no route", step="fetch", error="exit 3")
    how = {"CommandId": command, "InstanceId": yard.first, "Details": True}
    (invocation,) = yard.ssm.list_command_invocations(ME, how)["CommandInvocations"]
    steps = [(step["Name"], step["Status"]) for step in invocation["CommandPlugins"]]
    assert (invocation["Status"], steps) == ("Failed", [("fetch", "Failed"), ("start", "Success")])
    named = {"CommandId": command, "InstanceId": yard.first, "PluginName": "fetch"}
    printed = yard.ssm.get_command_invocation(ME, named)
    assert (printed["ResponseCode"], printed["StandardOutputContent"]) == (3, "no route")
    with pytest.raises(ServiceError, match="InvalidPluginName"):
        yard.ssm.get_command_invocation(ME, named | {"PluginName": "nothing"})


def test_a_command_is_not_listed_in_its_first_second() -> None:
    yard = Managed(Settings(unknown=(1, 1), register=(1, 1)))
    command = yard.send(yard.first)
    assert yard.listed(CommandId=command) == {}
    with pytest.raises(ServiceError, match="InvocationDoesNotExist"):
        yard.ssm.get_command_invocation(ME, {"CommandId": command, "InstanceId": yard.first})
    yard.on(1)
    assert list(yard.listed(CommandId=command)) == [yard.first]


def test_a_command_to_a_host_that_is_cut_off_times_out_undelivered(yard: Managed) -> None:
    yard.ssm.cut_off(yard.first)
    command = yard.send()
    yard.on(2)
    yard.ssm.done(command, yard.second, "Success")
    assert yard.listed(Filters=[{"key": "Status", "value": "Pending"}]) == {yard.first: "Pending"}
    yard.on(300)
    assert yard.listed(CommandId=command)[yard.first] == "TimedOut"
    assert yard.details_of(command, yard.first) == "DeliveryTimedOut"
    assert yard.announced[-1] == ("all", "Failed")


def test_a_command_waits_for_a_host_that_comes_back_in_time(yard: Managed) -> None:
    yard.ssm.cut_off(yard.first)
    command = yard.send(yard.first)
    yard.on(200)
    yard.ssm.reconnect(yard.first)
    assert yard.listed(CommandId=command) == {yard.first: "InProgress"}


def test_the_word_of_a_host_that_is_cut_off_comes_late(yard: Managed) -> None:
    command = yard.send(yard.first)
    yard.on(1)
    yard.ssm.cut_off(yard.first)
    yard.ssm.done(command, yard.first, "Success")
    assert yard.listed(CommandId=command) == {yard.first: "InProgress"}
    yard.ssm.reconnect(yard.first)
    assert yard.listed(CommandId=command) == {yard.first: "Success"}


def test_a_host_that_vanished_leaves_its_command_in_progress_until_all_time_is_over(yard: Managed) -> None:
    command = yard.send(yard.first)
    yard.on(1)
    yard.ec2.kill(yard.first)
    yard.on(418)
    assert yard.listed(CommandId=command) == {yard.first: "InProgress"}
    yard.on(2)
    assert yard.details_of(command, yard.first) == "DeliveryTimedOut"


def test_the_agent_kills_what_runs_too_long(yard: Managed) -> None:
    command = yard.send(yard.first)
    yard.on(122)
    assert yard.details_of(command, yard.first) == "ExecutionTimedOut"
    assert yard.announced[-1] == ("all", "TimedOut")
    yard.ssm.done(command, yard.first, "Success")
    assert yard.listed(CommandId=command) == {yard.first: "TimedOut"}, "the first end counts"


def test_a_command_is_sent_to_all_or_refused(yard: Managed) -> None:
    assert refusal(yard, yard.first, "i-0") == "InvalidInstanceId"
    yard.ask("terminate_instances", InstanceIds=[yard.second])
    assert refusal(yard) == "InvalidInstanceId"
    assert refusal(yard, yard.first, yard.first) == "DuplicateInstanceId"
    assert refusal(yard, *(f"i-{number}" for number in range(51))) == "ValidationException"
    assert refusal(yard, yard.first, DocumentName="nothing") == "InvalidDocument"
    assert refusal(yard, yard.first, Parameters={"Run": ["$(reboot)"]}) == "InvalidParameters"
    assert refusal(yard, yard.first, Parameters={}) == "InvalidParameters"
    assert yard.ssm.commands == {}


def test_open_sessions_are_listed(yard: Managed) -> None:
    def shown_sessions() -> list[tuple[str, str]]:
        found = yard.ssm.describe_sessions(ME, {"State": "Active"})["Sessions"]
        return [(each["Target"], each["DocumentName"]) for each in found]

    session = yard.ssm.open_session(yard.first)
    assert shown_sessions() == [(yard.first, "SSM-SessionManagerRunShell")]
    yard.ssm.close_session(session)
    assert shown_sessions() == []


def test_parameters_are_overwritten_only_if_requested(yard: Managed) -> None:
    given = {"Name": "/yard/image", "Value": "ami-1", "Type": "String"}
    yard.ssm.put_parameter(ME, given)
    with pytest.raises(ServiceError, match="ParameterAlreadyExists"):
        yard.ssm.put_parameter(ME, given)
    yard.ssm.put_parameter(ME, given | {"Value": "ami-2", "Overwrite": True})
    shown = yard.ssm.get_parameter(ME, {"Name": "/yard/image"})["Parameter"]
    assert (shown["Value"], shown["Version"]) == ("ami-2", 2)
    yard.ssm.delete_parameter(ME, {"Name": "/yard/image"})
    with pytest.raises(ServiceError, match="ParameterNotFound"):
        yard.ssm.get_parameter(ME, {"Name": "/yard/image"})


def test_parameters_by_name_and_by_folder(yard: Managed) -> None:
    for name in ("/yard/webhooks/a", "/yard/webhooks/b/key", "/yard/image"):
        yard.ssm.publish(name, name[-1])
    below = yard.ssm.get_parameters_by_path(ME, {"Path": "/yard/webhooks", "Recursive": False})
    assert [each["Name"] for each in below["Parameters"]] == ["/yard/webhooks/a"]
    named = yard.ssm.get_parameters(ME, {"Names": ["/yard/image", "/yard/none"], "WithDecryption": True})
    assert [each["Value"] for each in named["Parameters"]] == ["e"]
    assert named["InvalidParameters"] == ["/yard/none"]


def test_a_command_is_checked_on_its_document_and_on_every_host(yard: Managed) -> None:
    given = {"DocumentName": "yard-start", "InstanceIds": [yard.first]}
    document, host = yard.ssm.checks(ME, "send_command", given)
    assert document.resource == "arn:aws:ssm:us-east-1:123456789012:document/yard-start"
    assert host.context["ssm:resourcetag/yard"] == "y"
    (public,) = yard.ssm.checks(ME, "get_parameter", {"Name": "/aws/service/x"})
    assert public.resource == "arn:aws:ssm:us-east-1::parameter/aws/service/x"
