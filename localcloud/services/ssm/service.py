"""SSM's API for documents, commands and managed instances: parse, ask, answer. Parameters stay with ministack."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from localcloud.services.ssm.agent import VERSION, Agents, Registration, output_key
from localcloud.services.ssm.commands import Command, Commands, Invocation, StepRun, iso, new_command_id
from localcloud.services.ssm.document import Document, SsmError, joined
from localcloud.services.ssm.documents import Documents, StoredDocument, Version
from localcloud.services.ssm.sessions import PREFIX, Caller, Session, Sessions

Json = dict[str, Any]
Item = TypeVar("Item")

MOST_INSTANCES = 50
SUMMARY_LIMIT = 2500
HOST_FILTERS = {
    "InstanceIds": "InstanceId",
    "PingStatus": "PingStatus",
    "PlatformTypes": "PlatformType",
    "AgentVersion": "AgentVersion",
    "ResourceType": "ResourceType",
    "SourceIds": "SourceId",
    "SourceTypes": "SourceType",
}
"""What DescribeInstanceInformation filters by, and what it asks of."""
COUNT = re.compile(r"^([1-9][0-9]*|0|[1-9][0-9]?%|0%|100%)$")


SESSION_FILTERS: dict[str, Callable[[Session, str], bool]] = {
    "InvokedAfter": lambda session, value: iso(session.started) >= value,
    "InvokedBefore": lambda session, value: iso(session.started) < value,
    "Target": lambda session, value: session.target == value,
    "Owner": lambda session, value: session.owner == value,
    "Status": lambda session, value: session.status == value,
    "SessionId": lambda session, value: session.id == value,
}


@dataclass(frozen=True)
class Service:
    """The actions, by name. Each takes the request's JSON and answers the response's, or raises SsmError."""

    account: str
    region: str
    documents: Documents
    commands: Commands
    agents: Agents
    sessions: Sessions

    def actions(self) -> dict[str, Callable[[Json], Json]]:
        return {
            "CreateDocument": self.create_document,
            "GetDocument": self.get_document,
            "DescribeDocument": self.describe_document,
            "UpdateDocument": self.update_document,
            "UpdateDocumentDefaultVersion": self.update_default_version,
            "ListDocuments": self.list_documents,
            "ListDocumentVersions": self.list_document_versions,
            "DeleteDocument": self.delete_document,
            "SendCommand": self.send_command,
            "CancelCommand": self.cancel_command,
            "GetCommandInvocation": self.get_command_invocation,
            "ListCommands": self.list_commands,
            "ListCommandInvocations": self.list_command_invocations,
            "DescribeInstanceInformation": self.describe_instance_information,
            "UpdateInstanceInformation": self.update_instance_information,
            "GetConnectionStatus": self.get_connection_status,
            "DescribeSessions": self.describe_sessions,
            "TerminateSession": self.terminate_session,
        }

    def actions_of_callers(self) -> dict[str, Callable[[Json, Caller], Json]]:
        """Those that want to know who asks."""
        return {"StartSession": self.start_session, "ResumeSession": self.resume_session}

    # --- documents ---

    def create_document(self, request: Json) -> Json:
        kept = self.documents.create(
            request["Name"],
            request["Content"],
            request.get("DocumentFormat", "JSON"),
            request.get("DocumentType", "Command"),
            time.time(),
            target_type=request.get("TargetType"),
            version_name=request.get("VersionName"),
            tags={tag["Key"]: tag["Value"] for tag in request.get("Tags", [])},
        )
        return {"DocumentDescription": described(kept, kept.latest)}

    def get_document(self, request: Json) -> Json:
        kept = self.documents.get(request["Name"])
        version = kept.version(request.get("DocumentVersion"), request.get("VersionName"))
        wanted = request.get("DocumentFormat", version.format)
        return without_nothing(
            {
                "Name": kept.name,
                "CreatedDate": version.created,
                "VersionName": version.name,
                "DocumentVersion": str(version.number),
                "Status": "Active",
                "Content": in_format(version, wanted),
                "DocumentType": kept.type,
                "DocumentFormat": wanted,
            }
        )

    def describe_document(self, request: Json) -> Json:
        kept = self.documents.get(request["Name"])
        version = kept.version(request.get("DocumentVersion"), request.get("VersionName"))
        return {"Document": described(kept, version)}

    def update_document(self, request: Json) -> Json:
        kept = self.documents.update(
            request["Name"],
            request["Content"],
            request.get("DocumentFormat", "JSON"),
            time.time(),
            request.get("VersionName"),
        )
        return {"DocumentDescription": described(kept, kept.latest)}

    def update_default_version(self, request: Json) -> Json:
        kept = self.documents.set_default(request["Name"], str(request["DocumentVersion"]))
        return {"Description": {"Name": kept.name, "DefaultVersion": str(kept.default)}}

    def list_documents(self, request: Json) -> Json:
        wanted = {one["Key"]: one["Values"] for one in request.get("Filters", [])}
        wanted |= {one["key"]: [one["value"]] for one in request.get("DocumentFilterList", [])}
        found = [kept for kept in self.documents.all() if self._is_wanted(kept, wanted)]
        return page(found, request, "DocumentIdentifiers", identified, 50)

    def list_document_versions(self, request: Json) -> Json:
        kept = self.documents.get(request["Name"])

        def shown(version: Version) -> Json:
            return without_nothing(
                {
                    "Name": kept.name,
                    "DocumentVersion": str(version.number),
                    "VersionName": version.name,
                    "CreatedDate": version.created,
                    "IsDefaultVersion": version.number == kept.default,
                    "DocumentFormat": version.format,
                    "Status": "Active",
                }
            )

        return page(kept.versions[::-1], request, "DocumentVersions", shown, 50)

    def delete_document(self, request: Json) -> Json:
        self.documents.delete(request["Name"], request.get("DocumentVersion"))
        return {}

    # --- commands ---

    def send_command(self, request: Json) -> Json:
        check_send_command(request)
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
        names = {name: self.agents.tags(name).get("Name", "") for name in self.addressed(request)}
        answer = self.shown_command(self.commands.send(command, names))
        return {"Command": {**answer, "Status": "Pending", "StatusDetails": "Pending"}}

    def addressed(self, request: Json) -> list[str]:
        """The instances a SendCommand goes to. Named ones must all be registered; others are passed over silently."""
        registered = self.agents.registered()
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
                "ExecutionElapsedTime": elapsed(step),
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
                and is_wanted(wanted, command, command.status)
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
                and is_wanted(wanted, command, invocation.status)
            ]
            return page(
                found, request, "CommandInvocations", lambda pair: self._shown_invocation(*pair, details), 50
            )

    def shown_command(self, command: Command) -> Json:
        completed = [one for one in command.invocations.values() if one.is_over]
        return {
            "CommandId": command.id,
            "DocumentName": command.document,
            "DocumentVersion": command.document_version,
            "Comment": command.comment,
            "ExpiresAfter": command.expires,
            "Parameters": command.parameters,
            "InstanceIds": command.instance_ids,
            "Targets": command.targets,
            "RequestedDateTime": command.requested,
            "Status": command.status,
            "StatusDetails": command.details,
            "OutputS3Region": self.region,
            "OutputS3BucketName": command.bucket,
            "OutputS3KeyPrefix": command.prefix,
            "MaxConcurrency": command.max_concurrency,
            "MaxErrors": command.max_errors,
            "TargetCount": len(command.invocations),
            "CompletedCount": len(completed),
            "ErrorCount": command.count("Failed", "ExecutionTimedOut"),
            "DeliveryTimedOutCount": command.count("DeliveryTimedOut"),
            "TimeoutSeconds": command.timeout,
            **command.asked,
        }

    def _shown_invocation(self, command: Command, invocation: Invocation, details: bool) -> Json:
        steps = invocation.steps if details else []
        first = invocation.steps[0] if invocation.steps else None
        return {
            "CommandId": command.id,
            "InstanceId": invocation.instance_id,
            "InstanceName": invocation.instance_name,
            "Comment": command.comment,
            "DocumentName": command.document,
            "DocumentVersion": command.document_version,
            "RequestedDateTime": command.requested,
            "Status": invocation.status,
            "StatusDetails": invocation.details,
            "StandardOutputUrl": self._url(command, invocation, first, "stdout") if first else "",
            "StandardErrorUrl": self._url(command, invocation, first, "stderr") if first else "",
            "CommandPlugins": [self._shown_step(command, invocation, step) for step in steps],
            **command.asked,
        }

    def _shown_step(self, command: Command, invocation: Invocation, step: StepRun) -> Json:
        return without_nothing(
            {
                "Name": step.name,
                "Status": step.status if step.status != "Cancelling" else "InProgress",
                "StatusDetails": step.details,
                "ResponseCode": step.code,
                "ResponseStartDateTime": step.started,
                "ResponseFinishDateTime": step.ended,
                "Output": summary(step),
                "StandardOutputUrl": self._url(command, invocation, step, "stdout"),
                "StandardErrorUrl": self._url(command, invocation, step, "stderr"),
                "OutputS3Region": self.region,
                "OutputS3BucketName": command.bucket,
                "OutputS3KeyPrefix": command.prefix,
            }
        )

    def _url(self, command: Command, invocation: Invocation, step: StepRun, stream: str) -> str:
        if not command.bucket:
            return ""
        key = output_key(command, invocation.instance_id, step.action, step.name, stream)
        return f"https://s3.{self.region}.amazonaws.com/{command.bucket}/{key}"

    # --- managed instances ---

    def describe_instance_information(self, request: Json) -> Json:
        filters = {one["Key"]: one["Values"] for one in request.get("Filters", [])}
        filters |= {one["key"]: one["valueSet"] for one in request.get("InstanceInformationFilterList", [])}
        by_tag = [key for key in filters if key.lower().startswith("tag:")]
        if unknown := sorted(set(filters) - set(by_tag) - {*HOST_FILTERS, "tag-key"}):
            raise SsmError("InvalidFilterKey", f"The following filter key is not valid: {unknown[0]}.")
        if by_tag and len(by_tag) < len(filters):
            raise SsmError(
                "InvalidInstanceInformationFilterValue", "tag filters cannot be combined with others."
            )
        if len(filters.get("InstanceIds", [])) > 100:
            raise SsmError("InvalidInstanceInformationFilterValue", "A filter takes at most 100 values.")
        most = request.get("MaxResults")
        if most is not None and not 5 <= most <= 50:
            raise SsmError("ValidationException", f"MaxResults is {most}; it must be between 5 and 50.")
        found = [one for one in self.agents.registered().values() if self._is_host_wanted(one, filters)]
        return page(found, request, "InstanceInformationList", shown_host, 50)

    def _is_host_wanted(self, host: Registration, filters: dict[str, list[str]]) -> bool:
        shown = shown_host(host)
        tags = self.agents.tags(host.machine.instance_id)
        for key, values in filters.items():
            if key.startswith("tag:"):
                found = tags.get(key[4:])
            elif key == "tag-key":
                return any(value in tags for value in values)
            else:
                found = shown[HOST_FILTERS[key]]
            if found not in values:
                return False
        return True

    def update_instance_information(self, request: Json) -> Json:
        """What agents call to register; being allowed to is all there is to it here."""
        return {}

    def get_connection_status(self, request: Json) -> Json:
        is_there = self.sessions.is_connected(request["Target"])
        return {"Target": request["Target"], "Status": "connected" if is_there else "notconnected"}

    # --- sessions ---

    def start_session(self, request: Json, caller: Caller) -> Json:
        session = self.sessions.start(
            caller,
            request["Target"],
            request.get("DocumentName"),
            request.get("Parameters") or {},
            request.get("Reason", ""),
        )
        return opened(session, caller.host)

    def resume_session(self, request: Json, caller: Caller) -> Json:
        return opened(self.sessions.resume(request["SessionId"]), caller.host)

    def terminate_session(self, request: Json) -> Json:
        self.sessions.terminate(request["SessionId"])
        return {"SessionId": request["SessionId"]}

    def describe_sessions(self, request: Json) -> Json:
        if request["State"] not in ("Active", "History"):
            raise SsmError("ValidationException", f"State is {request['State']!r}; it is Active or History.")
        wanted = {one["key"]: one["value"] for one in request.get("Filters") or []}
        if unknown := sorted(wanted.keys() - SESSION_FILTERS.keys()):
            raise SsmError("InvalidFilterKey", f"No filter key {unknown[0]!r}.")
        found = [
            one
            for one in self.sessions.all(over=request["State"] == "History")
            if all(SESSION_FILTERS[key](one, value) for key, value in wanted.items())
        ]
        return page(found, request, "Sessions", shown_session, 200)

    def _is_wanted(self, kept: StoredDocument, wanted: dict[str, list[str]]) -> bool:
        owners = {"Self": self.account, "self": self.account, "Amazon": "Amazon"}
        known = {
            "Name": lambda values: any(kept.name.startswith(value) for value in values),
            "Owner": lambda values: any(owners.get(value, value) in (kept.owner, "All") for value in values),
            "DocumentType": lambda values: kept.type in values,
            "PlatformTypes": lambda values: bool(set(values) & set(kept.latest.document.platforms)),
        }
        for key, values in wanted.items():
            if key.startswith("tag:"):
                if kept.tags.get(key[4:]) not in values:
                    return False
            elif key not in known:
                raise SsmError("InvalidFilterKey", f"No filter key {key!r}.")
            elif not known[key](values):
                return False
        return True


# --- what requests may say ---


def check_send_command(request: Json) -> None:
    instance_ids, targets = request.get("InstanceIds") or [], request.get("Targets") or []
    if bool(instance_ids) == bool(targets):
        raise SsmError("ValidationException", "Give either InstanceIds or Targets.")
    if len(instance_ids) > MOST_INSTANCES:
        raise SsmError(
            "ValidationException",
            "1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: "
            f"Member must have length less than or equal to {MOST_INSTANCES}",
        )
    if len(set(instance_ids)) < len(instance_ids):
        raise SsmError("DuplicateInstanceId", "An instance id is named twice.")
    if len(targets) > 5 or any(len(target.get("Values", [])) > 50 for target in targets):
        raise SsmError("ValidationException", "At most 5 targets with at most 50 values each.")
    if not 30 <= int(request.get("TimeoutSeconds") or 3600) <= 2592000:
        raise SsmError("ValidationException", "TimeoutSeconds must be between 30 and 2592000.")
    if len(request.get("Comment") or "") > 100:
        raise SsmError("ValidationException", "Comment holds at most 100 characters.")
    for key in ("MaxConcurrency", "MaxErrors"):
        given = str(request.get(key) or "1")
        if not COUNT.match(given) or (key == "MaxConcurrency" and given in ("0", "0%")):
            raise SsmError("ValidationException", f"{key} is {given!r}; it must be a number or a percentage.")


def as_command(request: Json, name: str, document: Document) -> Command:
    """The command a request asks for; raises InvalidParameters when the document does not take its parameters."""
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


def is_wanted(filters: dict[str, str], command: Command, status: str) -> bool:
    requested = iso(command.requested)
    return (
        requested >= filters.get("InvokedAfter", "")
        and ("InvokedBefore" not in filters or requested < filters["InvokedBefore"])
        and filters.get("Status", status) == status
        and filters.get("DocumentName", command.document) == command.document
    )


def named_step(invocation: Invocation, name: str | None) -> StepRun:
    if name is None and len(invocation.steps) == 1:
        return invocation.steps[0]
    for step in invocation.steps:
        if name in (step.name, step.action) and (name == step.name or len(invocation.steps) == 1):
            return step
    known = ", ".join(step.name for step in invocation.steps)
    raise SsmError("InvalidPluginName", f"The command has the steps {known}; name one of them.")


# --- what answers look like ---


def page(found: Sequence[Item], request: Json, key: str, shown: Callable[[Item], Json], most: int) -> Json:
    """One page, in AWS's shape; the token is the position."""
    token = request.get("NextToken") or "0"
    if not token.isdigit() or int(token) > len(found):
        raise SsmError("InvalidNextToken", f"{token!r} is not a token of this listing.")
    start, count = int(token), min(int(request.get("MaxResults") or most), most)
    answer: Json = {key: [shown(item) for item in found[start : start + count]]}
    if start + count < len(found):
        answer["NextToken"] = str(start + count)
    return answer


def without_nothing(answer: Json) -> Json:
    return {key: value for key, value in answer.items() if value is not None}


def as_list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def in_format(version: Version, wanted: str) -> str:
    if wanted == version.format:
        return version.content
    import yaml

    content = yaml.safe_load(version.content)
    return (
        json.dumps(content, indent=2) if wanted == "JSON" else str(yaml.safe_dump(content, sort_keys=False))
    )


def identified(kept: StoredDocument) -> Json:
    version = kept.version("$DEFAULT")
    return without_nothing(
        {
            "Name": kept.name,
            "CreatedDate": version.created,
            "Owner": kept.owner,
            "VersionName": version.name,
            "PlatformTypes": version.document.platforms,
            "DocumentVersion": str(version.number),
            "DocumentType": kept.type,
            "SchemaVersion": version.document.schema_version,
            "DocumentFormat": version.format,
            "TargetType": kept.target_type,
            "Tags": [{"Key": key, "Value": value} for key, value in kept.tags.items()],
        }
    )


def described(kept: StoredDocument, version: Version) -> Json:
    document = version.document
    return {
        **identified(kept),
        "CreatedDate": version.created,
        "DocumentVersion": str(version.number),
        "DocumentFormat": version.format,
        "Hash": version.hash,
        "HashType": "Sha256",
        "Status": "Active",
        "Description": document.description,
        "Parameters": shown_parameters(document),
        "LatestVersion": str(kept.latest.number),
        "DefaultVersion": str(kept.default),
    }


def shown_parameters(document: Document) -> list[Json]:
    return [
        without_nothing(
            {
                "Name": parameter.name,
                "Type": "StringList" if parameter.type == "StringList" else "String",
                "Description": parameter.description,
                "DefaultValue": None if parameter.default is None else joined(parameter.default, parameter),
            }
        )
        for parameter in document.parameters.values()
    ]


def shown_host(host: Registration) -> Json:
    return {
        "InstanceId": host.machine.instance_id,
        "PingStatus": "Online",
        "LastPingDateTime": host.last_ping,
        "AgentVersion": VERSION,
        "IsLatestVersion": True,
        "PlatformType": "Linux",
        "PlatformName": "Ubuntu",
        "PlatformVersion": "24.04",
        "ResourceType": "EC2Instance",
        "IPAddress": host.machine.private_ip,
        "ComputerName": f"{host.machine.hostname}.ec2.internal",
        "SourceId": host.machine.instance_id,
        "SourceType": "AWS::EC2::Instance",
    }


def opened(session: Session, host: str) -> Json:
    """Where its channel is, by the name by which the caller knows the endpoint."""
    url = f"ws://{host}{PREFIX}{quote(session.id)}?role=publish_subscribe"
    return {"SessionId": session.id, "TokenValue": session.token, "StreamUrl": url}


def shown_session(session: Session) -> Json:
    return without_nothing(
        {
            "SessionId": session.id,
            "Target": session.target,
            "Status": session.status,
            "StartDate": session.started,
            "EndDate": session.ended,
            "DocumentName": session.document,
            "Owner": session.owner,
            "Reason": session.reason or None,
            "Details": session.ending or None,
            "OutputUrl": {},
            "MaxSessionDuration": session.longest_minutes or None,
            "AccessType": "Standard",
        }
    )


def elapsed(step: StepRun) -> str:
    if step.started is None or step.ended is None:
        return ""
    return f"PT{step.ended - step.started:.3f}S"


def summary(step: StepRun) -> str:
    """Output as the listing shows it: both streams in one, 2500 characters."""
    text = step.stdout + (f"\n----------ERROR-------\n{step.stderr}" if step.stderr else "")
    return text if len(text) <= SUMMARY_LIMIT else text[: SUMMARY_LIMIT - 20] + "--output truncated--"
