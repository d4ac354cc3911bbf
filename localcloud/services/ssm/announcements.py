"""Events of commands on the default bus. Field names have dashes, as on AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from localcloud.services.ssm.commands import Command, Invocation, iso

Emit = Callable[[str, str, Mapping[str, Any], Iterable[str]], None]


def announcer(emit: Emit, region: str, account: str) -> Callable[[str, Command, Invocation | None], None]:
    """Return a function that emits the event for a change of status."""

    def announce(kind: str, command: Command, invocation: Invocation | None) -> None:
        common: dict[str, Any] = {
            "command-id": command.id,
            "document-name": command.document,
            "requested-date-time": iso(command.requested),
        }
        if invocation is not None:
            detail = {**common, "instance-id": invocation.instance_id, "status": invocation.status}
            detail_type, hosts = "EC2 Command Invocation Status-change Notification", [invocation.instance_id]
        else:
            detail = {
                **common,
                "expire-after": iso(command.expires),
                "parameters": command.parameters,
                "status": command.status,
            }
            detail_type, hosts = "EC2 Command Status-change Notification", list(command.invocations)
        resources = [f"arn:aws:ec2:{region}:{account}:instance/{host}" for host in hosts]
        emit("aws.ssm", detail_type, detail, resources)

    return announce
