"""The sessions on hosts, as listed by Session Manager, which keeps ended sessions for thirty days.

The list does not contain keystrokes. Session Manager records shells in CloudWatch Logs or S3 only if the account's
session preferences enable it; it never records forwards and ssh.
docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-logging.html
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from trainyard.client.sessions import opening
from trainyard.client.sessions.shell import command_document, shell_document
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

OURS = "trainyard "
"""The beginning of the reason of sessions that this client started."""


@dataclass(frozen=True)
class HostSession:
    """A session on a host."""

    session: str
    who: str
    """The name of the IAM user, or of the role's session."""
    host: str
    name: str
    """The name of a dev host."""
    what: str
    """`shell`, `command`, `port`, `ssh`, or the name of another SSM document."""
    began: datetime
    ended: datetime | None
    """None while the session is open."""
    reason: str

    @classmethod
    def of(cls, told: Mapping[str, Any], names: Mapping[str, str], kinds: Mapping[str, str]) -> Self:
        """Read a session from DescribeSessions."""
        return cls(
            session=told["SessionId"],
            who=told["Owner"].rpartition("/")[2],
            host=told["Target"],
            name=names.get(told["Target"], ""),
            what=kinds.get(told["DocumentName"], told["DocumentName"]),
            began=told["StartDate"],
            ended=told.get("EndDate"),
            reason=told.get("Reason", ""),
        )


def list_sessions(yard: Deployment, host: str | None = None, *, limit: int) -> list[HostSession]:
    """Return the newest sessions on all hosts of the yard or on one host. Sessions on hosts that ended more than an
    hour ago are recognized if this client started them. Raise Denied."""
    names = {
        each["InstanceId"]: {tag["Key"]: tag["Value"] for tag in each.get("Tags", [])}.get(Tag.DEV, "")
        for each in yard.instances()
    }
    kinds = {
        opening.SHELL: "shell",
        shell_document(yard): "shell",
        opening.PORT_FORWARDING: "port",
        opening.SSH: "ssh",
        command_document(yard): "command",
    }
    filters = [{"key": "Target", "value": host}] if host else []
    told = itertools.chain(*(_describe_sessions(yard, state, filters) for state in ("Active", "History")))
    ours = (each for each in told if host or each["Target"] in names or _is_ours(each))
    found = [HostSession.of(each, names, kinds) for each in ours]
    return sorted(found, key=lambda each: each.began, reverse=True)[:limit]


def _describe_sessions(
    yard: Deployment, state: str, filters: list[dict[str, str]]
) -> Iterator[dict[str, Any]]:
    pages = yard.session.client("ssm").get_paginator("describe_sessions")
    asked = {"Filters": filters} if filters else {}
    for page in pages.paginate(State=state, **asked):
        yield from page["Sessions"]


def _is_ours(told: Mapping[str, Any]) -> bool:
    return str(told.get("Reason", "")).startswith(OURS)
