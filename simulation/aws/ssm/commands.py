"""Commands: SSM documents sent to hosts, the status of invocations, and their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from localcloud.base.run_command import (
    OVER,
    allowance,
    describe_command,
    describe_invocation,
    describe_step,
    is_wanted,
    refusal_of_send,
    status_event,
    status_of,
)
from simulation.aws.ec2 import arns
from simulation.aws.ec2.model import Emit
from simulation.aws.ec2.service import Ec2
from simulation.aws.endpoint.api import ACCOUNT, Answer, Caller, Request, ServiceError
from simulation.aws.endpoint.parameters import not_simulated, only, with_token
from simulation.aws.ssm.documents import CommandDocument
from simulation.aws.ssm.hosts import HostCalls
from simulation.aws.ssm.model import UNDER_WAY, Command, Host, Invocation, Settings, Step
from simulation.aws.ssm.pages import take_page
from simulation.world.world import World
from trainyard.values.serialization import timestamp

STATUSES = frozenset({"Success", "Failed", "TimedOut"})
KILLED = 137
STDOUT, STDERR = 24_000, 8_000


class CommandCalls(HostCalls):
    def __init__(self, world: World, ec2: Ec2, emit: Emit, settings: Settings) -> None:
        super().__init__(world, ec2, settings, self._deliver_all)
        self.emit = emit
        self.documents: dict[str, CommandDocument] = {}
        self.commands: dict[str, Command] = {}
        self._under_way: dict[tuple[str, str], Invocation] = {}

    def add_document(self, name: str, content: Mapping[str, Any]) -> None:
        self.documents[name] = CommandDocument.read(name, content)

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
        """Record the result of a command: Success, or Failed or TimedOut in this step (default: the last one).

        A host that is cut off reports once it is reachable again; a host that is gone never reports.
        """
        assert status in STATUSES, f"an agent does not report {status}"
        invocation, host = self.commands[command_id].invocations[instance_id], self.hosts[instance_id]

        def report() -> None:
            if invocation.status == "InProgress":
                self._record(invocation, status, exit_code, output, error, step)

        if host.cut_off is not None:
            host.unreported.append(report)
        elif host.instance.state in ("running", "stopping", "shutting-down"):
            report()

    def send_command(self, caller: Caller, request: Request) -> Answer:
        only(
            request,
            (
                "InstanceIds",
                "DocumentName",
                "Parameters",
                "TimeoutSeconds",
                "Comment",
                "MaxConcurrency",
                "MaxErrors",
            ),
            "SendCommand",
        )
        ids = request.get("InstanceIds") or []
        if refused := refusal_of_send(request):
            raise ServiceError(*refused)
        if allowance(str(request.get("MaxConcurrency") or "50"), len(ids), at_least=1) < len(ids):
            raise not_simulated("commands with MaxConcurrency below the number of hosts")
        document = self.documents.get(request["DocumentName"])
        if document is None:
            raise ServiceError(
                "InvalidDocument", f"Document with name {request['DocumentName']} does not exist."
            )
        document.check(request.get("Parameters") or {})
        invalid = [each for each in ids if not self._may_be_sent(each)]
        if invalid:
            raise ServiceError(
                "InvalidInstanceId",
                f"Instances [[{', '.join(invalid)}]] not in a valid state for account {ACCOUNT}",
            )
        command = self._new_command(document, request, len(ids))
        for each in ids:
            self._send(command, each)
        shown = describe_command(command, document.name, timeout=int(command.timeout))
        return {"Command": shown}

    def list_command_invocations(self, caller: Caller, request: Request) -> Answer:
        """Return the invocations, newest first. A new command is not listed yet."""
        only(
            request,
            ("CommandId", "InstanceId", "Details", "Filters", "MaxResults", "NextToken"),
            "ListCommandInvocations",
        )
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
            and is_wanted(wanted, each.command.document.name, each.status, timestamp(each.command.requested))
        ]
        shown, token = take_page(matching, request, 1)
        details = bool(request.get("Details"))
        return with_token({"CommandInvocations": [_describe(each, details) for each in shown]}, token)

    def get_command_invocation(self, caller: Caller, request: Request) -> Answer:
        only(request, ("CommandId", "InstanceId", "PluginName"), "GetCommandInvocation")
        command = self.commands.get(request["CommandId"])
        invocation = command.invocations.get(request["InstanceId"]) if command else None
        if command is None or invocation is None or command.known_at > self.world.now:
            raise ServiceError("InvocationDoesNotExist", "")
        step = named_step(invocation, request.get("PluginName"))
        one = len(invocation.steps) == 1
        return {
            "CommandId": command.id,
            "InstanceId": invocation.instance,
            "Comment": command.comment,
            "DocumentName": command.document.name,
            "DocumentVersion": "$DEFAULT",
            "PluginName": step.name,
            "ResponseCode": step.code,
            "ExecutionStartDateTime": timestamp(step.started) if step.started else "",
            "ExecutionEndDateTime": timestamp(step.ended) if step.ended else "",
            "Status": invocation.status if one else step.status,
            "StatusDetails": invocation.details if one else step.details,
            "StandardOutputContent": step.stdout,
            "StandardErrorContent": step.stderr,
        }

    def _may_be_sent(self, instance_id: str) -> bool:
        """Return True if the host is registered and not terminated. A stopped or cut-off host receives the command
        late."""
        host, now = self.hosts.get(instance_id), self.world.now
        gone = host is not None and host.instance.state in ("shutting-down", "terminated")
        return host is not None and not gone and host.online_at <= now

    def _new_command(self, document: CommandDocument, request: Request, count: int) -> Command:
        late = timedelta(seconds=self._draw(self.settings.unknown))
        command = Command(
            id=self.world.new_id("5e4dc0de-0000-4000-8000-", 12),
            document=document,
            parameters={name: list(values) for name, values in (request.get("Parameters") or {}).items()},
            comment=request.get("Comment", ""),
            timeout=float(request.get("TimeoutSeconds") or 3600),
            most_errors=allowance(str(request.get("MaxErrors") or "0"), count, at_least=0),
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
            command.timeout, lambda: self._fail_delivery(invocation), what=f"{command.id} is undelivered"
        )
        self.world.after(
            self._draw(self.settings.deliver), lambda: self._deliver(invocation), what=f"{command.id} arrives"
        )

    def _deliver(self, invocation: Invocation) -> None:
        """Deliver the command now, or once the host's agent is reachable."""
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
        self.ec2.machines.command(host.instance, command.id, command.document.name, parameters)

    def _deliver_all(self, host: Host) -> None:
        waiting, host.waiting = host.waiting, []
        for invocation in waiting:
            self._deliver(invocation)

    def _fail_delivery(self, invocation: Invocation) -> None:
        if invocation.status == "Pending":
            self._close(invocation, "TimedOut", "DeliveryTimedOut")

    def _plan_end(self, invocation: Invocation) -> None:
        """Plan the timeout. The agent kills a long command; for a silent host, Systems Manager waits for the whole
        time."""
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
        """Record the steps as the agent reports them: successful before the failed step, skipped after it."""
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
        self._announce(command, invocation.instance)
        whole = status_of(command.invocations.values(), command.most_errors)
        is_news = whole[0] != command.status
        command.status, command.details = whole
        if is_news:
            self._announce(command, None)

    def _announce(self, command: Command, instance: str | None) -> None:
        kind, detail, hosts = status_event(command, command.document.name, instance, timestamp)
        self.emit("aws.ssm", kind, detail, [arns.build("instance", host) for host in hosts])

    def _candidates(self, request: Request, wanted: Mapping[str, str]) -> Iterable[Invocation]:
        if request.get("CommandId"):
            command = self.commands.get(request["CommandId"])
            return command.invocations.values() if command else ()
        if wanted.get("Status") in UNDER_WAY:
            return reversed(self._under_way.values())
        return (each for command in reversed(self.commands.values()) for each in command.invocations.values())


def _describe(invocation: Invocation, details: bool) -> Answer:
    command = invocation.command
    shown = describe_invocation(command, invocation.instance, command.document.name)
    steps = [describe_step(each, each.stdout[:2500]) for each in invocation.steps] if details else []
    return {**shown, "CommandPlugins": steps}


def named_step(invocation: Invocation, name: str | None) -> Step:
    if name is None and len(invocation.steps) == 1:
        return invocation.steps[0]
    for step in invocation.steps:
        if step.name == name:
            return step
    raise ServiceError("InvalidPluginName", "")
