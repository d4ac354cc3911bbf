"""API actions of Run Command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from localcloud.base.run_command import (
    describe_command,
    describe_invocation,
    describe_step,
    is_wanted,
    refusal_of_send,
)
from localcloud.services.ssm.agent import Agents, output_key
from localcloud.services.ssm.answers import Json, page
from localcloud.services.ssm.commands import Command, Commands, Invocation, StepRun, iso, new_command_id
from localcloud.services.ssm.document import Document, SsmError
from localcloud.services.ssm.documents import Documents

SUMMARY_LIMIT = 2500


@dataclass(frozen=True)
class CommandActions:
    account: str
    region: str
    documents: Documents
    commands: Commands
    agents: Agents

    def actions(self) -> dict[str, Callable[[Json], Json]]:
        """Return the actions by name."""
        return {
            "SendCommand": self.send_command,
            "CancelCommand": self.cancel_command,
            "GetCommandInvocation": self.get_command_invocation,
            "ListCommands": self.list_commands,
            "ListCommandInvocations": self.list_command_invocations,
        }

    def send_command(self, request: Json) -> Json:
        if refused := refusal_of_send(request):
            raise SsmError(*refused)
        kept = self.documents.get(request["DocumentName"])
        version = kept.version(request.get("DocumentVersion"))
        wanted_hash = request.get("DocumentHash")
        if wanted_hash and wanted_hash != version.hash:
            raise SsmError(
                "InvalidDocument", f"The hash of {kept.name} is {version.hash}, not {wanted_hash}."
            )
        if version.document.session is not None:
            raise SsmError("InvalidDocument", f"{kept.name} is a document for sessions, not for commands.")
        command = as_command(request, kept.name, version.document)
        names = {name: self.agents.tags(name).get("Name", "") for name in self.find_targets(request)}
        answer = self.shown_command(self.commands.send(command, names))
        return {"Command": {**answer, "Status": "Pending", "StatusDetails": "Pending"}}

    def find_targets(self, request: Json) -> list[str]:
        """Return the instances of a SendCommand. Named instances must be registered; others are skipped."""
        registered = self.agents.list_registered()
        named = list(request.get("InstanceIds") or [])
        if named:
            missing = [name for name in named if name not in registered]
            if missing:
                listed = ", ".join(missing)
                raise SsmError(
                    "InvalidInstanceId",
                    f"Instances [[{listed}]] not in a valid state for account {self.account}",
                )
            return named
        targets = request.get("Targets") or []
        return [name for name in registered if all(self._is_target(name, target) for target in targets)]

    def _is_target(self, instance_id: str, target: Json) -> bool:
        key, values = target["Key"], target.get("Values", [])
        if key.lower() == "instanceids":
            return instance_id in values
        if key.startswith("tag:"):
            return self.agents.tags(instance_id).get(key[4:]) in values
        raise SsmError("ValidationException", f"Target key {key!r} is neither InstanceIds nor tag:<key>.")

    def cancel_command(self, request: Json) -> Json:
        instance_ids = request.get("InstanceIds") or []
        if len(set(instance_ids)) < len(instance_ids):
            raise SsmError("DuplicateInstanceId", "An instance id is named twice.")
        known = self.commands.get(request["CommandId"]).invocations
        strangers = [name for name in instance_ids if name not in known]
        if strangers:
            raise SsmError("InvalidInstanceId", f"The command was not sent to {', '.join(strangers)}.")
        self.commands.cancel(request["CommandId"], instance_ids)
        return {}

    def get_command_invocation(self, request: Json) -> Json:
        command = self.commands.find(request["CommandId"])
        invocation = command.invocations.get(request["InstanceId"]) if command else None
        if command is None or invocation is None:
            raise SsmError("InvocationDoesNotExist", "")
        with self.commands.lock:
            step = named_step(invocation, request.get("PluginName"))
            status, details = invocation.status, invocation.details
            if len(invocation.steps) > 1:
                status, details = step.status, step.details
            is_over = step.ended is not None or invocation.is_over
            return {
                "CommandId": command.id,
                "InstanceId": invocation.instance_id,
                "Comment": command.comment,
                "DocumentName": command.document,
                "DocumentVersion": command.document_version,
                "PluginName": step.name,
                "ResponseCode": step.code,
                "ExecutionStartDateTime": iso(step.started),
                "ExecutionElapsedTime": elapsed_time(step),
                "ExecutionEndDateTime": iso(step.ended),
                "Status": status,
                "StatusDetails": details,
                "StandardOutputContent": step.stdout if is_over else "",
                "StandardOutputUrl": self._url(command, invocation, step, "stdout"),
                "StandardErrorContent": step.stderr if is_over else "",
                "StandardErrorUrl": self._url(command, invocation, step, "stderr"),
                "CloudWatchOutputConfig": command.asked["CloudWatchOutputConfig"],
            }

    def list_commands(self, request: Json) -> Json:
        wanted = command_filters(request, {"InvokedAfter", "InvokedBefore", "Status", "DocumentName"})
        with self.commands.lock:
            found = [
                command
                for command in self.commands.all()
                if request.get("CommandId") in (None, command.id)
                and (not request.get("InstanceId") or request["InstanceId"] in command.invocations)
                and is_wanted(wanted, command.document, command.status, iso(command.requested))
            ]
            return page(found, request, "Commands", self.shown_command, 50)

    def list_command_invocations(self, request: Json) -> Json:
        wanted = command_filters(request, {"InvokedAfter", "InvokedBefore", "Status", "DocumentName"})
        details = bool(request.get("Details"))
        with self.commands.lock:
            found = [
                (command, invocation)
                for command in self.commands.all()
                if request.get("CommandId") in (None, command.id)
                for invocation in command.invocations.values()
                if request.get("InstanceId") in (None, invocation.instance_id)
                and is_wanted(wanted, command.document, invocation.status, iso(command.requested))
            ]
            return page(
                found, request, "CommandInvocations", lambda pair: self._shown_invocation(*pair, details), 50
            )

    def shown_command(self, command: Command) -> Json:
        return {
            **describe_command(
                command, command.document, version=command.document_version, timeout=command.timeout
            ),
            "InstanceIds": command.instance_ids,
            "Targets": command.targets,
            **self._output_location(command),
            "MaxConcurrency": command.max_concurrency,
            "MaxErrors": command.max_errors,
            **command.asked,
        }

    def _shown_invocation(self, command: Command, invocation: Invocation, details: bool) -> Json:
        steps = invocation.steps if details else []
        first = invocation.steps[0] if invocation.steps else None
        return {
            **describe_invocation(
                command,
                invocation.instance_id,
                command.document,
                name=invocation.instance_name,
                version=command.document_version,
            ),
            "StandardOutputUrl": self._url(command, invocation, first, "stdout") if first else "",
            "StandardErrorUrl": self._url(command, invocation, first, "stderr") if first else "",
            "CommandPlugins": [self._shown_step(command, invocation, step) for step in steps],
            **command.asked,
        }

    def _shown_step(self, command: Command, invocation: Invocation, step: StepRun) -> Json:
        return {
            **describe_step(step, summary(step)),
            "StandardOutputUrl": self._url(command, invocation, step, "stdout"),
            "StandardErrorUrl": self._url(command, invocation, step, "stderr"),
            **self._output_location(command),
        }

    def _output_location(self, command: Command) -> Json:
        return {
            "OutputS3Region": self.region,
            "OutputS3BucketName": command.bucket,
            "OutputS3KeyPrefix": command.prefix,
        }

    def _url(self, command: Command, invocation: Invocation, step: StepRun, stream: str) -> str:
        if not command.bucket:
            return ""
        key = output_key(command, invocation.instance_id, step.action, step.name, stream)
        return f"https://s3.{self.region}.amazonaws.com/{command.bucket}/{key}"


def as_command(request: Json, name: str, document: Document) -> Command:
    """Return the command of a request. Raise InvalidParameters if the document refuses its parameters."""
    values = document.check(request.get("Parameters") or {})
    return Command(
        id=new_command_id(),
        document=name,
        document_version=request.get("DocumentVersion") or "$DEFAULT",
        parameters={key: as_list(value) for key, value in (request.get("Parameters") or {}).items()},
        scripts=document.scripts(values),
        instance_ids=list(request.get("InstanceIds") or []),
        targets=list(request.get("Targets") or []),
        requested=time.time(),
        timeout=int(request.get("TimeoutSeconds") or 3600),
        max_concurrency=str(request.get("MaxConcurrency") or "50"),
        max_errors=str(request.get("MaxErrors") or "0"),
        comment=request.get("Comment", ""),
        bucket=request.get("OutputS3BucketName", ""),
        prefix=request.get("OutputS3KeyPrefix", ""),
        asked={
            "ServiceRole": request.get("ServiceRoleArn", ""),
            "NotificationConfig": request.get("NotificationConfig")
            or {"NotificationArn": "", "NotificationEvents": [], "NotificationType": ""},
            "CloudWatchOutputConfig": request.get("CloudWatchOutputConfig")
            or {"CloudWatchLogGroupName": "", "CloudWatchOutputEnabled": False},
        },
    )


def command_filters(request: Json, known: Iterable[str]) -> dict[str, str]:
    filters = {one["key"]: one["value"] for one in request.get("Filters") or []}
    unknown = sorted(filters.keys() - set(known))
    if unknown:
        raise SsmError("InvalidFilterKey", f"No filter key {unknown[0]!r}.")
    return filters


def named_step(invocation: Invocation, name: str | None) -> StepRun:
    if name is None and len(invocation.steps) == 1:
        return invocation.steps[0]
    for step in invocation.steps:
        if name in (step.name, step.action) and (name == step.name or len(invocation.steps) == 1):
            return step
    known = ", ".join(step.name for step in invocation.steps)
    raise SsmError("InvalidPluginName", f"The command has the steps {known}; name one of them.")


def as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def elapsed_time(step: StepRun) -> str:
    if step.started is None or step.ended is None:
        return ""
    return f"PT{step.ended - step.started:.3f}S"


def summary(step: StepRun) -> str:
    """Return both output streams in one text of at most 2500 characters, as listings show it."""
    text = step.stdout + (f"\n----------ERROR-------\n{step.stderr}" if step.stderr else "")
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 20] + "--output truncated--"
