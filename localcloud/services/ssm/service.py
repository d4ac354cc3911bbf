"""Systems Manager's API for managed instances and sessions, and the table of all its actions.

ministack provides parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from localcloud.services.ssm.agent import VERSION, Agents, Registration
from localcloud.services.ssm.answers import Json, page, remove_empty
from localcloud.services.ssm.command_actions import CommandActions
from localcloud.services.ssm.commands import Commands, iso
from localcloud.services.ssm.document import SsmError
from localcloud.services.ssm.document_actions import DocumentActions
from localcloud.services.ssm.documents import Documents
from localcloud.services.ssm.session import Caller, Session
from localcloud.services.ssm.sessions import PREFIX, Sessions

HOST_FILTERS = {
    "InstanceIds": "InstanceId",
    "PingStatus": "PingStatus",
    "PlatformTypes": "PlatformType",
    "AgentVersion": "AgentVersion",
    "ResourceType": "ResourceType",
    "SourceIds": "SourceId",
    "SourceTypes": "SourceType",
}
"""Filters of DescribeInstanceInformation and the fields that they compare."""

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
    """All actions by name. Each takes the request's JSON and returns the answer's, or raises SsmError."""

    account: str
    region: str
    documents: Documents
    commands: Commands
    agents: Agents
    sessions: Sessions

    def actions(self) -> dict[str, Callable[[Json], Json]]:
        """Return the actions that need only the request."""
        commands = CommandActions(self.account, self.region, self.documents, self.commands, self.agents)
        return {
            **DocumentActions(self.account, self.documents).actions(),
            **commands.actions(),
            "DescribeInstanceInformation": self.describe_instance_information,
            "UpdateInstanceInformation": self.update_instance_information,
            "GetConnectionStatus": self.get_connection_status,
            "DescribeSessions": self.describe_sessions,
            "TerminateSession": self.terminate_session,
        }

    def actions_of_callers(self) -> dict[str, Callable[[Json, Caller], Json]]:
        """Return the actions that need the caller too."""
        return {"StartSession": self.start_session, "ResumeSession": self.resume_session}

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
        found = [one for one in self.agents.list_registered().values() if self._is_host_wanted(one, filters)]
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
        """Answer an agent's registration. Only the permission matters here."""
        return {}

    def get_connection_status(self, request: Json) -> Json:
        is_there = self.sessions.is_connected(request["Target"])
        return {"Target": request["Target"], "Status": "connected" if is_there else "notconnected"}

    def start_session(self, request: Json, caller: Caller) -> Json:
        session = self.sessions.start(
            caller,
            request["Target"],
            request.get("DocumentName"),
            request.get("Parameters") or {},
            request.get("Reason", ""),
        )
        return channel_url(session, caller.host)

    def resume_session(self, request: Json, caller: Caller) -> Json:
        return channel_url(self.sessions.resume(request["SessionId"]), caller.host)

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


def channel_url(session: Session, host: str) -> Json:
    """Return the URL of the session's channel, with the endpoint's name that the caller used."""
    url = f"ws://{host}{PREFIX}{quote(session.id)}?role=publish_subscribe"
    return {"SessionId": session.id, "TokenValue": session.token, "StreamUrl": url}


def shown_session(session: Session) -> Json:
    return remove_empty(
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
