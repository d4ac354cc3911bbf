"""The identity of the session's credentials, and its source of events."""

from __future__ import annotations

import re

from trainyard.client.session import Session
from trainyard.core.model import dev
from trainyard.protocol import sources

ROOT = "root"
"""The name of the account's root credentials, which have no IAM name. A local cloud issues such credentials."""
AN_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")


def event_source(session: Session) -> str:
    """Return the only source with which the policy for users allows this caller to put events."""
    return sources.user_source(caller_name(session))


def caller_name(session: Session) -> str:
    """Return the caller's IAM name from sts get-caller-identity. It is ROOT for the account's root credentials, and the
    owner's name on a dev host, whose credentials act for its owner."""
    caller = session.client("sts").get_caller_identity()
    kind, _, name = str(caller["Arn"]).rpartition(":")[2].partition("/")
    match kind:
        case "user":
            return name.rpartition("/")[2]
        case "assumed-role" | "federated-user":
            user = str(caller["UserId"])
            return _owner_of(session, user.partition(":")[2]) or user
        case _:
            return ROOT


def _owner_of(session: Session, instance: str) -> str | None:
    """Return the owner of the dev host that a session is named after, or None if it is named after no dev host."""
    if not AN_INSTANCE.fullmatch(instance):
        return None
    asked = [{"Name": "instance-id", "Values": [instance]}]
    found = session.client("ec2").describe_instances(Filters=asked)["Reservations"]
    tags = {tag["Key"]: tag["Value"] for held in found for tag in held["Instances"][0].get("Tags", [])}
    return dev.owner(tags)
