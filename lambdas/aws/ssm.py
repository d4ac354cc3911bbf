"""Systems Manager: registered hosts, commands and their results, open sessions, parameters."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.calls import call_or_none, list_items
from lambdas.aws.clients import client
from trainyard.core.model.errors import StartFailed
from trainyard.values.lazy import dataclass

MOST_IDS = 50
LAST_LINES = 4000
SESSIONS_A_PAGE = 200
FORWARDS = "AWS-StartPortForwardingSession"
"""The prefix of the SSM documents that forward a port of a host to a user's computer."""
UNDER_WAY = ("Pending", "InProgress")
UNDELIVERED = ("DeliveryTimedOut", "Undeliverable")
"""Status details of a command whose host never answered (Systems Manager's user guide, "Understanding command
statuses"). A command that the agent killed for its time limit has ExecutionTimedOut instead."""


def find_online(ids: Collection[str]) -> frozenset[str]:
    """Return the instances whose agent is registered and answers."""
    found: set[str] = set()
    ordered = sorted(ids)
    for first in range(0, len(ordered), MOST_IDS):
        chosen = [{"Key": "InstanceIds", "Values": ordered[first : first + MOST_IDS]}]
        known = list_items("ssm", "describe_instance_information", "InstanceInformationList", Filters=chosen)
        found |= {host["InstanceId"] for host in known if host["PingStatus"] == "Online"}
    return frozenset(found)


def send(
    document: str, ids: Sequence[str], parameters: Mapping[str, str], *, comment: str
) -> tuple[str, ...]:
    """Send the SSM document to all these hosts; return the IDs of the commands (one for each 50 hosts).

    Raises StartFailed before anything is sent if Systems Manager does not list one of the hosts. A repeated call sends
    the command again; the SSM documents tolerate that."""
    commands = []
    for first in range(0, len(ids), MOST_IDS):
        try:
            answer = client("ssm").send_command(
                DocumentName=document,
                InstanceIds=list(ids[first : first + MOST_IDS]),
                Parameters={name: [value] for name, value in parameters.items()},
                MaxConcurrency="100%",
                MaxErrors="0",
                TimeoutSeconds=300,
                Comment=comment[:100],
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == "InvalidInstanceId":
                raise StartFailed(
                    f"Systems Manager has no registration of one of {', '.join(ids)}, so {document} was sent to none: "
                    f"{error.response['Error'].get('Message', '')}"
                ) from error
            raise
        commands.append(str(answer["Command"]["CommandId"]))
    return tuple(commands)


def send_to_registered(
    document: str, ids: Sequence[str], parameters: Mapping[str, str], *, comment: str
) -> tuple[str, ...]:
    """Send the SSM document to the registered hosts of these; return the other hosts."""
    try:
        send(document, ids, parameters, comment=comment)
        return ()
    except StartFailed:
        known = find_online(ids)
    unknown = tuple(host for host in ids if host not in known)
    try:
        if known:
            send(document, sorted(known), parameters, comment=comment)
    except StartFailed:  # one of them has ended since
        return tuple(ids)
    return unknown


@dataclass(frozen=True)
class CommandResult:
    """The result of a command on one host."""

    status: str
    """The status in Systems Manager."""
    exit_code: int
    tail: str
    """The end of the output, with errors last."""


def read_status(command: str, instance: str) -> str:
    """Return the status of the command on that host; Pending while Systems Manager does not list it yet."""
    answer = client("ssm").list_command_invocations(CommandId=command, InstanceId=instance)
    return str(answer["CommandInvocations"][0]["Status"]) if answer["CommandInvocations"] else "Pending"


def find_silent_hosts(command: str) -> frozenset[str]:
    """Return the hosts that never reported the end of this command before Systems Manager stopped waiting."""
    return frozenset(
        str(invocation["InstanceId"])
        for invocation in _invocations(CommandId=command)
        if invocation["StatusDetails"] in UNDELIVERED
    )


def read_result(command: str, instance: str) -> CommandResult:
    """Return the result of the command on that host, with the output of the step that failed."""
    answer = client("ssm").list_command_invocations(CommandId=command, InstanceId=instance, Details=True)
    if not answer["CommandInvocations"]:
        return CommandResult("Pending", -1, "")
    (invocation,) = answer["CommandInvocations"]
    failed = [
        step for step in invocation["CommandPlugins"] if step["Status"] in ("Failed", "TimedOut", "Cancelled")
    ]
    if not failed:
        return CommandResult(invocation["Status"], -1, "")
    step = failed[-1]["Name"]
    printed = client("ssm").get_command_invocation(CommandId=command, InstanceId=instance, PluginName=step)
    output = f"{printed.get('StandardOutputContent', '')}\n{printed.get('StandardErrorContent', '')}".strip()
    return CommandResult(
        invocation["Status"], int(printed.get("ResponseCode", -1)), f"[step {step}]\n{output[-LAST_LINES:]}"
    )


def list_sessions() -> dict[str, frozenset[str]]:
    """Return the instances with open sessions, and the SSM documents of these sessions."""
    size = {"PageSize": SESSIONS_A_PAGE}
    found: dict[str, set[str]] = {}
    for session in list_items("ssm", "describe_sessions", "Sessions", State="Active", PaginationConfig=size):
        if session.get("Target"):
            found.setdefault(str(session["Target"]), set()).add(str(session.get("DocumentName", "")))
    return {host: frozenset(documents) for host, documents in found.items()}


def list_commanded_hosts() -> frozenset[str]:
    """Return the instances on which a command runs."""
    return frozenset(
        str(invocation["InstanceId"])
        for status in UNDER_WAY
        for invocation in _invocations(Filters=[{"key": "Status", "value": status}])
    )


def read_parameter(name: str) -> str | None:
    """Return the value of the parameter; None if it is missing."""
    answer = call_or_none(["ParameterNotFound"], client("ssm").get_parameter, Name=name)
    return str(answer["Parameter"]["Value"]) if answer else None


def read_secret(name: str) -> str | None:
    """Return the decrypted value of a parameter; None if it is missing."""
    found = client("ssm").get_parameters(Names=[name], WithDecryption=True)["Parameters"]
    return str(found[0]["Value"]) if found else None


def read_secrets_below(folder: str) -> dict[str, str]:
    """Return the decrypted values of the parameters in this folder, by name, without those in folders below it."""
    found = list_items(
        "ssm", "get_parameters_by_path", "Parameters", Path=folder, Recursive=False, WithDecryption=True
    )
    return {str(each["Name"]): str(each["Value"]) for each in found}


def read_descriptions(folder: str) -> dict[str, str]:
    """Return the descriptions of the parameters below this folder, by name. Values are not read."""
    chosen = [{"Key": "Path", "Option": "Recursive", "Values": [folder]}]
    found = list_items("ssm", "describe_parameters", "Parameters", ParameterFilters=chosen)
    return {str(each["Name"]): str(each.get("Description", "")) for each in found}


def read_parameter_types(names: Collection[str]) -> dict[str, str]:
    """Return the type of each existing parameter (String, StringList, SecureString). Values are not read."""
    if not names:
        return {}
    chosen = [{"Key": "Name", "Option": "Equals", "Values": sorted(names)}]
    found = list_items("ssm", "describe_parameters", "Parameters", ParameterFilters=chosen)
    return {str(parameter["Name"]): str(parameter["Type"]) for parameter in found}


def set_parameter(name: str, value: str) -> None:
    client("ssm").put_parameter(Name=name, Value=value, Type="String", Overwrite=True)


def _invocations(**chosen: Any) -> Iterator[Any]:
    return list_items("ssm", "list_command_invocations", "CommandInvocations", **chosen)
