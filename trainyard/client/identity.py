"""Who the session's credentials are, and where they put job files."""

from __future__ import annotations

from trainyard.client.session import Session
from trainyard.core.model import submitter

ELSEWHERE = "jobs/"
"""Of whoever IAM knows by no name: the account itself."""


def jobs_folder(session: Session) -> str:
    """The only one below which the policy for users lets this caller put job files, by sts get-caller-identity."""
    caller = session.client("sts").get_caller_identity()
    kind, _, name = str(caller["Arn"]).rpartition(":")[2].partition("/")
    match kind:
        case "user":
            return f"{submitter.FOLDER}{name.rpartition('/')[2]}/"
        case "assumed-role" | "federated-user":
            return f"{submitter.FOLDER}{caller['UserId']}/"
        case _:
            return ELSEWHERE
