"""Who was on which host: sessions as Session Manager tells of them, those also that are over, for thirty days.

What was typed in them it does not tell. An account may have shells written down, to CloudWatch Logs or S3, by the
preferences of Session Manager; of forwards and ssh nothing is.
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
"""What the reason of a session begins with that this client has begun."""


@dataclass(frozen=True)
class HostSession:
    """`who` is what IAM calls whoever has begun it: a user's name, or that of a role's session. `what` is `shell`,
    `command`, `port` or `ssh`, or the document's name; `name` that of a dev host; `ended` None while it goes on."""

    session: str
    who: str
    host: str
    name: str
    what: str
    began: datetime
    ended: datetime | None
    reason: str

    @classmethod
    def of(cls, told: Mapping[str, Any], names: Mapping[str, str], kinds: Mapping[str, str]) -> Self:
        """From DescribeSessions."""
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


def of(yard: Deployment, host: str | None = None, *, limit: int) -> list[HostSession]:
    """The newest, on all hosts of the yard or on that one. Those on hosts that are gone for an hour are known by this
    client's having begun them. Raises Denied."""
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
    told = itertools.chain(*(_told(yard, state, filters) for state in ("Active", "History")))
    ours = (each for each in told if host or each["Target"] in names or _is_ours(each))
    found = [HostSession.of(each, names, kinds) for each in ours]
    return sorted(found, key=lambda each: each.began, reverse=True)[:limit]


def _told(yard: Deployment, state: str, filters: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    pages = yard.session.client("ssm").get_paginator("describe_sessions")
    asked = {"Filters": filters} if filters else {}
    for page in pages.paginate(State=state, **asked):
        yield from page["Sessions"]


def _is_ours(told: Mapping[str, Any]) -> bool:
    return str(told.get("Reason", "")).startswith(OURS)
