"""Who the session's credentials are, where they put job files, and as whom they speak to the yard."""

from __future__ import annotations

import re

from trainyard.client.session import Session
from trainyard.core.model import dev, submitter
from trainyard.protocol import sources

ROOT = "root"
"""The account's own credentials, which IAM has no name for. A local cloud gives these."""
AN_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")


def jobs_folder(session: Session) -> str:
    """The only one below which the policy for users lets this caller put job files."""
    return f"{submitter.FOLDER}{known_as(session)}/"


def event_source(session: Session) -> str:
    """The only one of which the policy for users lets this caller put events."""
    return sources.user_source(known_as(session))


def known_as(session: Session) -> str:
    """Return the name by which IAM knows the caller, by sts get-caller-identity: ROOT for the account's own
    credentials, and on a dev host the name of its owner, for whom the host's credentials are."""
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
    """Whose dev host a session is called after, as AWS and the yard call those of instances; None where it is none."""
    if not AN_INSTANCE.fullmatch(instance):
        return None
    asked = [{"Name": "instance-id", "Values": [instance]}]
    found = session.client("ec2").describe_instances(Filters=asked)["Reservations"]
    tags = {tag["Key"]: tag["Value"] for held in found for tag in held["Instances"][0].get("Tags", [])}
    return dev.owner(tags)
