"""The job's `program.secrets`: read from Parameter Store when the program starts, only for its environment.

Secrets are never written to a disk. A restarted agent reads them from the environment of the running program.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from training.host.errors import AccessDenied, HostTrouble, Missing, Unreachable
from training.host.outages import is_passing_error
from trainyard.core.model.names import store_secret

ACTION = "ssm:GetParameters"
SHORTEST_HIDDEN = 6
"""Shortest secret line that is hidden in logs. Hiding shorter texts would make logs unreadable."""
HIDDEN = "***"


def fetch(wanted: Mapping[str, str], *, yard: str, client: Callable[[], Any]) -> dict[str, str]:
    """Return the values by environment variable. `wanted` has at most ten secrets' names by variable. `client` creates
    a client of SSM.

    Raises Missing for a secret that does not exist, AccessDenied, or HostTrouble."""
    if not wanted:
        return {}
    parameters = {variable: f"/{yard}/secrets/{secret}" for variable, secret in wanted.items()}
    names = sorted(set(parameters.values()))
    try:
        answer = client().get_parameters(Names=names, WithDecryption=True)
    except ClientError as error:
        raise _explain(error, names) from error
    except BotoCoreError as error:
        reason = f"the secrets {', '.join(names)} cannot be read: {error}"
        raise (Unreachable(reason) if is_passing_error(error) else HostTrouble(reason)) from error
    if answer["InvalidParameters"]:
        missing = ", ".join(answer["InvalidParameters"])
        raise Missing(
            f"there is no parameter {missing}, which program.secrets names; store the secret "
            f"({store_secret(answer['InvalidParameters'][0])}) and start again"
        )
    values = {str(each["Name"]): str(each["Value"]) for each in answer["Parameters"]}
    return {variable: values[name] for variable, name in parameters.items()}


def secrets_of(pid: int | None, wanted: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets in the environment of a running process; none if it has ended."""
    if not wanted or pid is None:
        return {}
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has just ended
        return {}
    pairs = (entry.decode(errors="surrogateescape").partition("=") for entry in entries)
    return {variable: value for variable, _, value in pairs if variable in wanted}


class Hider:
    """Hides secret values in text that others read. A value with several lines is hidden line by line."""

    def __init__(self, values: Mapping[str, str]) -> None:
        lines = {line.strip() for value in values.values() for line in value.splitlines()}
        self._hidden = sorted((line for line in lines if len(line) >= SHORTEST_HIDDEN), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for line in self._hidden:
            text = text.replace(line, HIDDEN)
        return text


def _explain(error: ClientError, names: list[str]) -> HostTrouble:
    code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    if code == "AccessDeniedException" and "kms:" in message:
        return HostTrouble(
            f"the secrets {', '.join(names)} are encrypted with a key that the role of runs may not use ({message}); "
            "encrypt them with the yard's key, or with AWS's own (put-parameter without --key-id), and start again",
            final=True,
        )
    if code == "AccessDeniedException":
        return AccessDenied(ACTION, ", ".join(names), role="role of runs")
    failed = f"{ACTION} on {', '.join(names)} failed: {message or code}"
    return Unreachable(failed) if is_passing_error(error) else HostTrouble(failed)
