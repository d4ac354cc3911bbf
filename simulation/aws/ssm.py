"""Systems Manager: which hosts it knows, documents sent to them and what came of it, sessions, parameters.

An agent registers (`register`), takes up commands (`machines.command`) and reports (`done`). A host that vanishes
reports nothing: its invocation stays InProgress until its time is over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from simulation.aws.door.api import ACCOUNT, PARTITION, REGION, Caller, Check, ServiceError
from simulation.aws.ec2 import arns
from simulation.aws.ec2.model import Emit, Instance, Machines, Span
from simulation.aws.ec2.service import Ec2
from simulation.world.world import Planned, World

Item = TypeVar("Item")
MOST_INSTANCES = 50
PAGE = 50
LARGEST_PARAMETER = 4096
OVER = frozenset({"Success", "Failed", "Cancelled", "TimedOut"})
UNDER_WAY = ("Pending", "InProgress")
STATUSES = frozenset({"Success", "Failed", "TimedOut"})
KILLED = 137
STDOUT, STDERR = 24_000, 8_000
INSTANCE = "InstanceIds"


@dataclass(frozen=True)
class Settings:
    """Seconds that things take."""

    register: Span = (1.0, 8.0)
    """Until an agent that has registered is shown Online."""
    deliver: Span = (0.2, 2.5)
    unknown: Span = (0.0, 1.5)
    """For so long nobody has heard of a command that was sent."""
    lost: Span = (300.0, 600.0)
    """A host that is cut off stays Online; then it is ConnectionLost."""
    forgotten: Span = (5.0, 60.0)
    """A host that was stopped or terminated is still listed."""


@dataclass(frozen=True)
class Document:
    name: str
    steps: tuple[tuple[str, float], ...]
    """Names and seconds."""
    parameters: Mapping[str, Mapping[str, Any]]

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.steps)


@dataclass
class Step:
    name: str
    status: str = "Pending"
    details: str = "Pending"
    code: int = -1
    stdout: str = ""
    stderr: str = ""
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(eq=False)
class Command:
    id: str
    document: Document
    parameters: Mapping[str, list[str]]
    comment: str
    timeout: float
    most_errors: int
    requested: datetime
    known_at: datetime
    invocations: dict[str, Invocation] = field(default_factory=dict)
    status: str = "Pending"
    details: str = "Pending"

    @property
    def expires(self) -> datetime:
        return self.requested + timedelta(seconds=self.timeout + self.document.seconds)

    def count(self, *details: str) -> int:
        return sum(each.details in details for each in self.invocations.values())


@dataclass(eq=False)
class Invocation:
    """A command on one host."""

    command: Command
    instance: str
    steps: list[Step]
    status: str = "Pending"
    details: str = "Pending"
    deadline: Planned | None = None


@dataclass(eq=False)
class Host:
    """A host whose agent has registered."""

    instance: Instance
    online_at: datetime
    cut_off: datetime | None = None
    lost_at: datetime | None = None
    listed_until: datetime | None = None
    waiting: list[Invocation] = field(default_factory=list)
    unsaid: list[Callable[[], None]] = field(default_factory=list)

    def connected(self, now: datetime) -> bool:
        return self.instance.state == "running" and self.cut_off is None and self.online_at <= now


@dataclass
class Parameter:
    value: str
    type: str
    version: int
    changed: datetime


SHELL = "SSM-SessionManagerRunShell"
"""The document of a session for which nobody names another."""


@dataclass(frozen=True)
class Session:
    id: str
    target: str
    owner: str
    began: datetime
    document: str


class Ssm:
    """See the module."""

    def __init__(self, world: World, ec2: Ec2, emit: Emit, *, settings: Settings | None = None) -> None:
        self.world = world
        self.ec2 = ec2
        self.emit = emit
        self.settings = settings or Settings()
        self.documents: dict[str, Document] = {}
        self.hosts: dict[str, Host] = {}
        self.commands: dict[str, Command] = {}
        self.parameters: dict[str, Parameter] = {}
        self.sessions: dict[str, Session] = {}
        self._under_way: dict[tuple[str, str], Invocation] = {}
        self._chance = world.chance("ssm")
        ec2.on_change.append(self._changed)

    @property
    def machines(self) -> Machines:
        return self.ec2.machines

    # ------------------------------------------------------------------------- set up

    def add_document(self, name: str, content: Mapping[str, Any]) -> None:
        """A Command document, as its template has it."""
        steps = tuple((step["name"], _seconds(step["inputs"])) for step in content["mainSteps"])
        self.documents[name] = Document(name, steps, content.get("parameters") or {})

    def publish(self, name: str, value: str) -> None:
        """A parameter that is there, also one of AWS's own."""
        before = self.parameters.get(name)
        version = before.version + 1 if before else 1
        self.parameters[name] = Parameter(value, "String", version, self.world.now)

    # ------------------------------------------------------------------------- hosts, nature and people

    def register(self, instance_id: str) -> None:
        """The agent of a host that has booted. Shown Online, and sent commands, some seconds later."""
        known = self.hosts.get(instance_id)
        seconds = self._draw(self.settings.register)
        host = Host(self.ec2.instance(instance_id), self.world.now + timedelta(seconds=seconds))
        host.waiting = known.waiting if known else []
        self.hosts[instance_id] = host
        self.world.after(seconds, lambda: self._deliver_waiting(host), what=f"{instance_id} is online")

    def cut_off(self, instance_id: str) -> None:
        """No word goes to or from the host's agent (it hangs, or has no route) until `back`."""
        host = self.hosts.get(instance_id)
        if host and host.cut_off is None:
            host.cut_off = self.world.now
            host.lost_at = self.world.now + timedelta(seconds=self._draw(self.settings.lost))

    def back(self, instance_id: str) -> None:
        host = self.hosts.get(instance_id)
        if host and host.cut_off is not None:
            host.cut_off = host.lost_at = None
            unsaid, host.unsaid = host.unsaid, []
            for say in unsaid:
                say()
            self._deliver_waiting(host)

    def done(
        self,
        command_id: str,
        instance_id: str,
        status: str,
        exit_code: int = 0,
        output: str = "",
        *,
        step: str | None = None,
        error: str = "",
    ) -> None:
        """What the agent reports at the end of a command: Success, or Failed or TimedOut in this step (the last one).

        A host that is cut off says it once it is back; one that is gone never."""
        assert status in STATUSES, f"an agent does not report {status}"
        invocation, host = self.commands[command_id].invocations[instance_id], self.hosts[instance_id]

        def say() -> None:
            if invocation.status == "InProgress":
                self._record(invocation, status, exit_code, output, error, step)

        if host.cut_off is not None:
            host.unsaid.append(say)
        elif host.instance.state in ("running", "stopping", "shutting-down"):
            say()

    def open_session(self, instance_id: str, owner: str = "person", *, document: str = SHELL) -> str:
        session = Session(self.world.new_id(f"{owner}-"), instance_id, owner, self.world.now, document)
        self.sessions[session.id] = session
        return session.id

    def close_session(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)

    # ------------------------------------------------------------------------- managed instances

    def describe_instance_information(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        _expect(request, "Filters", "MaxResults", "NextToken")
        wanted: list[str] | None = None
        for each in request.get("Filters") or ():
            if each["Key"] != INSTANCE or wanted is not None:
                raise ServiceError("NotSimulated", f"SSM does not simulate the filter {each['Key']}")
            wanted = each["Values"]
        if wanted is not None and len(wanted) > 100:
            raise ServiceError("InvalidInstanceInformationFilterValue", "A filter takes at most 100 values.")
        chosen = sorted(set(wanted)) if wanted is not None else list(self.hosts)
        hosts = [self.hosts[each] for each in chosen if each in self.hosts]
        shown, token = _page([each for each in hosts if self._is_listed(each)], request, 5)
        return _with_token({"InstanceInformationList": [self._described(each) for each in shown]}, token)

    def _is_listed(self, host: Host) -> bool:
        now = self.world.now
        return host.online_at <= now and (host.listed_until is None or now < host.listed_until)

    def ping_status(self, host: Host) -> str:
        lost = host.lost_at is not None and host.lost_at <= self.world.now
        return "ConnectionLost" if lost else "Online"

    def _described(self, host: Host) -> dict[str, Any]:
        instance = host.instance
        return {
            "InstanceId": instance.id,
            "PingStatus": self.ping_status(host),
            "LastPingDateTime": host.cut_off or self.world.now,
            "AgentVersion": "3.3.4793.0",
            "IsLatestVersion": True,
            "PlatformType": "Linux",
            "PlatformName": "Ubuntu",
            "PlatformVersion": "24.04",
            "ResourceType": "EC2Instance",
            "IPAddress": instance.address,
            "ComputerName": f"ip-{instance.address.replace('.', '-')}.ec2.internal",
        }

    def _changed(self, instance: Instance) -> None:
        """EC2's: a host that is gone is listed for a little while yet."""
        host = self.hosts.get(instance.id)
        if host is None:
            return
        if instance.state in ("stopped", "terminated"):
            host.listed_until = self.world.now + timedelta(seconds=self._draw(self.settings.forgotten))
            host.unsaid.clear()

    # ------------------------------------------------------------------------- commands

    def send_command(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        _expect(
            request, "InstanceIds", "DocumentName", "Parameters", "TimeoutSeconds", "Comment",
            "MaxConcurrency", "MaxErrors",
        )  # fmt: skip
        ids = request.get("InstanceIds") or []
        _check_command(request, ids)
        document = self.documents.get(request["DocumentName"])
        if document is None:
            raise ServiceError(
                "InvalidDocument", f"Document with name {request['DocumentName']} does not exist."
            )
        _check_parameters(document, request.get("Parameters") or {})
        invalid = [each for each in ids if not self._may_be_sent(each)]
        if invalid:
            raise ServiceError(
                "InvalidInstanceId",
                f"Instances [[{', '.join(invalid)}]] not in a valid state for account {ACCOUNT}",
            )
        command = self._new_command(document, request, len(ids))
        for each in ids:
            self._send(command, each)
        return {"Command": self._shown_command(command)}

    def list_command_invocations(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        """Newest first. A command that was just sent is not in it yet."""
        _expect(request, "CommandId", "InstanceId", "Details", "Filters", "MaxResults", "NextToken")
        wanted: dict[str, str] = {each["key"]: each["value"] for each in request.get("Filters") or ()}
        unknown = sorted(set(wanted) - {"Status", "DocumentName", "InvokedAfter", "InvokedBefore"})
        if unknown:
            raise ServiceError("InvalidFilterKey", f"No filter key {unknown[0]}.")
        now = self.world.now
        matching = [
            each
            for each in self._candidates(request, wanted)
            if each.command.known_at <= now
            and request.get("InstanceId") in (None, each.instance)
            and _is_wanted(each, wanted)
        ]
        shown, token = _page(matching, request, 1)
        details = bool(request.get("Details"))
        return _with_token({"CommandInvocations": [_invocation(each, details) for each in shown]}, token)

    def get_command_invocation(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        _expect(request, "CommandId", "InstanceId", "PluginName")
        command = self.commands.get(request["CommandId"])
        invocation = command.invocations.get(request["InstanceId"]) if command else None
        if command is None or invocation is None or command.known_at > self.world.now:
            raise ServiceError("InvocationDoesNotExist", "")
        step = _named_step(invocation, request.get("PluginName"))
        one = len(invocation.steps) == 1
        return {
            "CommandId": command.id,
            "InstanceId": invocation.instance,
            "Comment": command.comment,
            "DocumentName": command.document.name,
            "DocumentVersion": "$DEFAULT",
            "PluginName": step.name,
            "ResponseCode": step.code,
            "ExecutionStartDateTime": iso(step.started),
            "ExecutionEndDateTime": iso(step.ended),
            "Status": invocation.status if one else step.status,
            "StatusDetails": invocation.details if one else step.details,
            "StandardOutputContent": step.stdout,
            "StandardErrorContent": step.stderr,
        }

    def _may_be_sent(self, instance_id: str) -> bool:
        """Registered, and neither going nor gone in EC2: a host that is stopped or cut off only gets it too late."""
        host, now = self.hosts.get(instance_id), self.world.now
        gone = host is not None and host.instance.state in ("shutting-down", "terminated")
        return host is not None and not gone and host.online_at <= now

    def _new_command(self, document: Document, request: Mapping[str, Any], count: int) -> Command:
        late = timedelta(seconds=self._draw(self.settings.unknown))
        command = Command(
            id=self.world.new_id("5e4dc0de-0000-4000-8000-", 12),
            document=document,
            parameters={name: list(values) for name, values in (request.get("Parameters") or {}).items()},
            comment=request.get("Comment", ""),
            timeout=float(request.get("TimeoutSeconds") or 3600),
            most_errors=_allowance(str(request.get("MaxErrors") or "0"), count),
            requested=self.world.now,
            known_at=self.world.now + late,
        )
        self.commands[command.id] = command
        return command

    def _send(self, command: Command, instance_id: str) -> None:
        steps = [Step(name) for name, _ in command.document.steps]
        invocation = Invocation(command, instance_id, steps)
        command.invocations[instance_id] = invocation
        self._under_way[command.id, instance_id] = invocation
        invocation.deadline = self.world.after(
            command.timeout, lambda: self._undelivered(invocation), what=f"{command.id} is undelivered"
        )
        self.world.after(
            self._draw(self.settings.deliver), lambda: self._deliver(invocation), what=f"{command.id} arrives"
        )

    def _deliver(self, invocation: Invocation) -> None:
        """To its host's agent, now or once that can be reached."""
        if invocation.status != "Pending":
            return
        host, command = self.hosts[invocation.instance], invocation.command
        if not host.connected(self.world.now):
            host.waiting.append(invocation)
            return
        self._plan_end(invocation)
        invocation.steps[0].status = invocation.steps[0].details = "InProgress"
        invocation.steps[0].started = self.world.now
        self._set(invocation, "InProgress", "InProgress")
        parameters = {name: values[:] for name, values in command.parameters.items()}
        self.machines.command(host.instance, command.id, command.document.name, parameters)

    def _deliver_waiting(self, host: Host) -> None:
        waiting, host.waiting = host.waiting, []
        for invocation in waiting:
            self._deliver(invocation)

    def _undelivered(self, invocation: Invocation) -> None:
        if invocation.status == "Pending":
            self._close(invocation, "TimedOut", "DeliveryTimedOut")

    def _plan_end(self, invocation: Invocation) -> None:
        """The agent kills what runs too long; for a host that says no more Systems Manager waits the whole time."""
        self._unplan(invocation)
        invocation.deadline = self.world.after(
            invocation.command.document.seconds,
            lambda: self._overrun(invocation),
            what="a command runs too long",
        )

    def _overrun(self, invocation: Invocation) -> None:
        host = self.hosts[invocation.instance]
        if host.connected(self.world.now):
            error = "failed to run commands: signal: killed (execution timed out)"
            self._record(invocation, "TimedOut", KILLED, "", error, None)
        else:
            invocation.deadline = self.world.at(
                invocation.command.expires,
                lambda: self._close(invocation, "TimedOut", "DeliveryTimedOut"),
                what="a command times out",
            )

    def _record(
        self, invocation: Invocation, status: str, code: int, stdout: str, stderr: str, failed: str | None
    ) -> None:
        """The steps as the agent saw them: well up to the one that this is about, and skipped after it."""
        now, at = self.world.now, failed or invocation.steps[-1].name
        reached = [each.name for each in invocation.steps].index(at)
        details = "ExecutionTimedOut" if status == "TimedOut" else status
        for number, step in enumerate(invocation.steps):
            step.started, step.ended = step.started or now, now
            step.status = step.details = "Success"
            step.code = 0
            if number > reached:
                step.stdout = "Step execution skipped."
            if number == reached:
                step.status, step.details, step.code = status, details, code
                step.stdout, step.stderr = stdout[:STDOUT], stderr[:STDERR]
        self._close(invocation, status, details)

    def _close(self, invocation: Invocation, status: str, details: str) -> None:
        self._unplan(invocation)
        for step in invocation.steps:
            if step.status in UNDER_WAY:
                step.status, step.details = status, details
        self._set(invocation, status, details)

    def _unplan(self, invocation: Invocation) -> None:
        if invocation.deadline is not None:
            invocation.deadline.cancel()
            invocation.deadline = None

    def _set(self, invocation: Invocation, status: str, details: str) -> None:
        command = invocation.command
        invocation.status, invocation.details = status, details
        if status in OVER:
            self._under_way.pop((command.id, invocation.instance), None)
        self._announce(command, status, invocation.instance)
        whole = _status_of(command)
        is_news = whole[0] != command.status
        command.status, command.details = whole
        if is_news:
            self._announce(command, command.status, None)

    def _announce(self, command: Command, status: str, instance: str | None) -> None:
        detail: dict[str, Any] = {
            "command-id": command.id,
            "document-name": command.document.name,
            "requested-date-time": iso(command.requested),
            "status": status,
        }
        if instance is None:
            detail |= {"expire-after": iso(command.expires), "parameters": dict(command.parameters)}
            kind, hosts = "EC2 Command Status-change Notification", list(command.invocations)
        else:
            detail["instance-id"] = instance
            kind, hosts = "EC2 Command Invocation Status-change Notification", [instance]
        self.emit("aws.ssm", kind, detail, [arns.of("instance", host) for host in hosts])

    def _candidates(self, request: Mapping[str, Any], wanted: Mapping[str, str]) -> Iterable[Invocation]:
        if request.get("CommandId"):
            command = self.commands.get(request["CommandId"])
            return command.invocations.values() if command else ()
        if wanted.get("Status") in UNDER_WAY:
            return reversed(self._under_way.values())
        return (each for command in reversed(self.commands.values()) for each in command.invocations.values())

    def _shown_command(self, command: Command) -> dict[str, Any]:
        return {
            "CommandId": command.id,
            "DocumentName": command.document.name,
            "DocumentVersion": "$DEFAULT",
            "Comment": command.comment,
            "ExpiresAfter": command.expires,
            "Parameters": dict(command.parameters),
            "InstanceIds": list(command.invocations),
            "RequestedDateTime": command.requested,
            "Status": command.status,
            "StatusDetails": command.details,
            "TargetCount": len(command.invocations),
            "CompletedCount": sum(each.status in OVER for each in command.invocations.values()),
            "ErrorCount": command.count("Failed", "ExecutionTimedOut"),
            "DeliveryTimedOutCount": command.count("DeliveryTimedOut"),
            "TimeoutSeconds": int(command.timeout),
        }

    # ------------------------------------------------------------------------- sessions and parameters

    def describe_sessions(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        _expect(request, "State", "MaxResults", "NextToken")
        if request["State"] != "Active":
            raise ServiceError("NotSimulated", "SSM simulates sessions that are active only")
        rows, token = _page(list(self.sessions.values()), request, 1, most=200)
        shown = [
            {
                "SessionId": s.id,
                "Target": s.target,
                "Status": "Connected",
                "StartDate": s.began,
                "Owner": s.owner,
                "DocumentName": s.document,
            }
            for s in rows
        ]
        return _with_token({"Sessions": shown}, token)

    def get_parameter(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        _expect(request, "Name")
        name, found = request["Name"], self.parameters.get(request["Name"])
        if found is None:
            raise ServiceError("ParameterNotFound", "")
        shown = {
            "Name": name,
            "Type": found.type,
            "Value": found.value,
            "Version": found.version,
            "LastModifiedDate": found.changed,
            "ARN": parameter_arn(name),
            "DataType": "text",
        }
        return {"Parameter": shown}

    def put_parameter(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        _expect(request, "Name", "Value", "Type", "Overwrite")
        name, before = request["Name"], self.parameters.get(request["Name"])
        if re.match(r"/?(aws|ssm)", name, re.IGNORECASE):
            raise ServiceError(
                "ValidationException", 'Parameter name: can\'t be prefixed with "aws" or "ssm".'
            )
        if before and not request.get("Overwrite"):
            raise ServiceError(
                "ParameterAlreadyExists",
                "The parameter already exists. To overwrite this value, set the overwrite option in the "
                "request to true.",
            )
        if not before and request.get("Type") != "String":
            raise ServiceError("NotSimulated", "SSM simulates parameters of Type String only")
        if not 1 <= len(request["Value"].encode()) <= LARGEST_PARAMETER:
            raise ServiceError(
                "ValidationException",
                f"Standard tier parameters support a maximum parameter value of {LARGEST_PARAMETER} characters.",
            )
        self.publish(name, request["Value"])
        return {"Version": self.parameters[name].version, "Tier": "Standard"}

    def delete_parameter(self, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
        _expect(request, "Name")
        if self.parameters.pop(request["Name"], None) is None:
            raise ServiceError("ParameterNotFound", "")
        return {}

    # ------------------------------------------------------------------------- permissions

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        action = f"ssm:{''.join(word.capitalize() for word in operation.split('_'))}"
        if operation in ("get_parameter", "put_parameter", "delete_parameter"):
            return [Check(action, parameter_arn(request["Name"]))]
        if operation == "send_command":
            document = f"arn:{PARTITION}:ssm:{REGION}:{ACCOUNT}:document/{request['DocumentName']}"
            hosts = [self._on_host(action, each) for each in request.get("InstanceIds") or ()]
            return [Check(action, document), *hosts]
        return [Check(action, "*")]

    def _on_host(self, action: str, instance_id: str) -> Check:
        instance = self.ec2.instances.get(instance_id)
        tags = arns.resource_tags(instance.tags, "ssm") if instance else {}
        return Check(action, arns.of("instance", instance_id), tags)

    def _draw(self, span: Span) -> float:
        return self._chance.uniform(*span)


def parameter_arn(name: str) -> str:
    """AWS's own are of no account."""
    account = "" if name.startswith("/aws/") else ACCOUNT
    return f"arn:{PARTITION}:ssm:{REGION}:{account}:parameter/{name.lstrip('/')}"


def iso(at: datetime | None) -> str:
    if at is None:
        return ""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ------------------------------------------------------------------------- what requests may say


def _expect(request: Mapping[str, Any], *known: str) -> None:
    unknown = sorted(set(request) - set(known))
    if unknown:
        raise ServiceError("NotSimulated", f"SSM does not simulate {', '.join(unknown)}")


def _check_command(request: Mapping[str, Any], ids: Sequence[str]) -> None:
    if not 1 <= len(ids) <= MOST_INSTANCES:
        raise ServiceError(
            "ValidationException",
            "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: Member must have length "
            f"less than or equal to {MOST_INSTANCES}",
        )
    if len(set(ids)) < len(ids):
        raise ServiceError("DuplicateInstanceId", "")
    if not 30 <= int(request.get("TimeoutSeconds") or 3600) <= 2_592_000:
        raise ServiceError("ValidationException", "TimeoutSeconds must be between 30 and 2592000.")
    if len(request.get("Comment") or "") > 100:
        raise ServiceError("ValidationException", "Comment holds at most 100 characters.")
    if _allowance(str(request.get("MaxConcurrency") or "50"), len(ids)) < len(ids):
        raise ServiceError("NotSimulated", "SSM simulates commands that go to all hosts at once")


def _allowance(text: str, targets: int) -> int:
    """`10` or `10%` of the targets."""
    return int(text[:-1]) * targets // 100 if text.endswith("%") else int(text)


def _check_parameters(document: Document, given: Mapping[str, Sequence[str]]) -> None:
    unknown = sorted(set(given) - set(document.parameters))
    if unknown:
        raise ServiceError(
            "InvalidParameters", f"Parameters not defined in the document: {', '.join(unknown)}"
        )
    for name, facts in document.parameters.items():
        values = given.get(name) or ([facts["default"]] if "default" in facts else [])
        if len(values) != 1:
            raise ServiceError("InvalidParameters", f"Parameter {name} takes one value, got {len(values)}")
        pattern = facts.get("allowedPattern")
        if pattern and not re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), str(values[0])):
            raise ServiceError(
                "InvalidParameters",
                f"Parameter {name} value {values[0]!r} does not match the pattern {pattern}",
            )


def _seconds(inputs: Mapping[str, Any]) -> float:
    text = str(inputs.get("timeoutSeconds", "3600"))
    return min(max(float(text), 5.0), 172_800.0) if text.isdigit() else 3600.0


def _is_wanted(invocation: Invocation, wanted: Mapping[str, str]) -> bool:
    requested = iso(invocation.command.requested)
    return (
        wanted.get("Status", invocation.status) == invocation.status
        and wanted.get("DocumentName", invocation.command.document.name) == invocation.command.document.name
        and requested >= wanted.get("InvokedAfter", "")
        and ("InvokedBefore" not in wanted or requested < wanted["InvokedBefore"])
    )


def _named_step(invocation: Invocation, name: str | None) -> Step:
    if name is None and len(invocation.steps) == 1:
        return invocation.steps[0]
    for step in invocation.steps:
        if step.name == name:
            return step
    raise ServiceError("InvalidPluginName", "")


# ------------------------------------------------------------------------- what answers look like


def _status_of(command: Command) -> tuple[str, str]:
    """The command's status and details, from its invocations'."""
    statuses = [each.status for each in command.invocations.values()]
    if not all(each in OVER for each in statuses):
        status = "Pending" if all(each == "Pending" for each in statuses) else "InProgress"
        return status, status
    if all(each == "Success" for each in statuses):
        return "Success", "Success"
    errors = command.count("Failed", "ExecutionTimedOut")
    if errors > command.most_errors:
        timed_out = command.count("ExecutionTimedOut") > 0
        return ("TimedOut", "ExecutionTimedOut") if timed_out else ("Failed", "Failed")
    if command.count("DeliveryTimedOut") == len(statuses):
        return "TimedOut", "DeliveryTimedOut"
    return "Failed", "Incomplete"


def _page(
    rows: Sequence[Item], request: Mapping[str, Any], least: int, most: int = PAGE
) -> tuple[Sequence[Item], str | None]:
    size = int(request.get("MaxResults") or most)
    if not least <= size <= most:
        raise ServiceError(
            "ValidationException", f"MaxResults is {size}; it must be between {least} and {most}."
        )
    first = int(request.get("NextToken") or 0)
    return rows[first : first + size], str(first + size) if first + size < len(rows) else None


def _with_token(answer: dict[str, Any], token: str | None) -> dict[str, Any]:
    return {**answer, "NextToken": token} if token else answer


def _invocation(invocation: Invocation, details: bool) -> dict[str, Any]:
    command = invocation.command
    return {
        "CommandId": command.id,
        "InstanceId": invocation.instance,
        "InstanceName": "",
        "Comment": command.comment,
        "DocumentName": command.document.name,
        "DocumentVersion": "$DEFAULT",
        "RequestedDateTime": command.requested,
        "Status": invocation.status,
        "StatusDetails": invocation.details,
        "CommandPlugins": [_step(each) for each in invocation.steps] if details else [],
    }


def _step(step: Step) -> dict[str, Any]:
    shown = {
        "Name": step.name,
        "Status": step.status,
        "StatusDetails": step.details,
        "ResponseCode": step.code,
        "ResponseStartDateTime": step.started,
        "ResponseFinishDateTime": step.ended,
        "Output": step.stdout[:2500],
    }
    return {key: value for key, value in shown.items() if value is not None}
