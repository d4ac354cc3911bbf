"""Who the session's credentials are, where they put job files, and as whom they speak to the yard."""

from __future__ import annotations

from trainyard.client.session import Session
from trainyard.core.model import submitter

ELSEWHERE = "jobs/"
"""Of whoever IAM knows by no name: the account itself."""
SOURCE = "trainyard.people/"
"""What the source of a person's events begins with (docs/contracts/signals.md)."""


def jobs_folder(session: Session) -> str:
    """The only one below which the policy for users lets this caller put job files."""
    who = known_as(session)
    return f"{submitter.FOLDER}{who}/" if who else ELSEWHERE


def event_source(session: Session) -> str:
    """The only one of which the policy for users lets this caller put events."""
    return f"{SOURCE}{known_as(session) or 'root'}"


def known_as(session: Session) -> str | None:
    """What IAM knows the caller by, by sts get-caller-identity."""
    caller = session.client("sts").get_caller_identity()
    kind, _, name = str(caller["Arn"]).rpartition(":")[2].partition("/")
    match kind:
        case "user":
            return name.rpartition("/")[2]
        case "assumed-role" | "federated-user":
            return str(caller["UserId"])
        case _:
            return None
