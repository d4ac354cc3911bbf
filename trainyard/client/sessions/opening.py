"""Start, resume and end a session by AWS's calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError

from trainyard.client.deployment import Deployment
from trainyard.client.errors import HostNotConnected, HostNotFound, NoCredentials, SessionOver
from trainyard.client.session import SIGN_IN, Session
from trainyard.command_line import command_line

PORT_FORWARDING = "AWS-StartPortForwardingSession"
SHELL = "SSM-SessionManagerRunShell"
SSH = "AWS-StartSSHSession"
CLIENT_VERSION = "1.2.764.0"
"""The version of the public client whose protocol this client implements: the oldest that AWS supports."""
GONE = ("terminated", "shutting-down")
NO_SESSION = ("DoesNotExistException",)


@dataclass(frozen=True)
class Opened:
    """An open session. `url` and `token` open its channel."""

    id: str
    target: str
    url: str
    token: str


def host(yard: Deployment, instance: str) -> Mapping[str, Any]:
    """Return the running host of this yard as EC2 describes it. Raise HostNotFound or HostNotConnected."""
    found = next((each for each in yard.instances() if each["InstanceId"] == instance), None)
    if found is None or found["State"]["Name"] in GONE:
        raise HostNotFound(
            f"the yard {yard.name} has no host {instance}",
            "it was terminated, or belongs to another yard" if found is None else "it is gone",
            command_line("hosts"),
        )
    state = str(found["State"]["Name"])
    if state != "running":
        start = f"aws ec2 start-instances --instance-ids {instance}, then run this command again"
        waits = "run this command again in a minute"
        raise HostNotConnected(
            f"{instance} is {state}",
            "a session needs a running host",
            start if state == "stopped" else waits,
        )
    return found


def start(
    yard: Deployment, instance: str, document: str, parameters: Mapping[str, Sequence[str]], reason: str
) -> Opened:
    """Start a session. Raise HostNotFound, HostNotConnected or Denied."""
    host(yard, instance)
    ssm = yard.session.client("ssm")
    asked = {"Parameters": dict(parameters)} if parameters else {}
    try:
        answer = ssm.start_session(Target=instance, DocumentName=document, Reason=reason, **asked)
    except ClientError as error:
        if error.response["Error"]["Code"] != "TargetNotConnected":
            raise
        raise HostNotConnected(
            f"{instance} runs, and its SSM agent does not answer",
            "it is still booting, is disconnected, or its agent has ended",
            "run this command again in a minute; show its console output: aws ec2 get-console-output "
            f"--instance-id {instance}",
        ) from error
    return Opened(answer["SessionId"], instance, answer["StreamUrl"], answer["TokenValue"])


def resume(session: Session, opened: Opened) -> Opened:
    """Return the session with a new token. Raise SessionOver, or NoAnswer at once without a network."""
    try:
        answer = session.client("ssm").resume_session(SessionId=opened.id)
    except ClientError as error:
        if error.response["Error"]["Code"] not in NO_SESSION:
            raise
        raise session_over(
            opened, "it was idle for too long, a user ended it, or its host is gone"
        ) from error
    if not answer.get("TokenValue"):
        raise session_over(opened, "it was idle for too long")
    url = answer.get("StreamUrl") or opened.url
    return Opened(opened.id, opened.target, url, answer["TokenValue"])


def terminate(session: Session, opened: Opened) -> None:
    """Terminate the session, if it still exists."""
    try:
        session.client("ssm").terminate_session(SessionId=opened.id)
    except ClientError as error:
        if error.response["Error"]["Code"] not in NO_SESSION:
            raise


def session_over(opened: Opened, why: str) -> SessionOver:
    return SessionOver(
        f"the session on {opened.target} is over",
        why.rstrip("."),
        f"{command_line('hosts')}, then begin another",
    )


def sign_headers(session: Session, url: str) -> dict[str, str]:
    """Return the signed headers of the request that opens the channel, which AWS requires since plugin 1.2.764."""
    credentials = session.boto.get_credentials()
    if credentials is None:
        raise NoCredentials("no credentials", "they are no longer found", SIGN_IN)
    parts = urlsplit(url)
    scheme = "https" if parts.scheme == "wss" else "http"
    request = AWSRequest("GET", urlunsplit((scheme, *parts[1:])))
    SigV4Auth(credentials.get_frozen_credentials(), "ssmmessages", session.region).add_auth(request)
    return {str(name): str(value) for name, value in request.headers.items()}
