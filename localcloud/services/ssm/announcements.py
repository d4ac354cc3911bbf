"""What SSM says on the default bus about commands (aws-sdk names the fields with dashes, as AWS does)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from localcloud.services.ssm.commands import Command, Invocation, iso

Emit = Callable[[str, str, Mapping[str, Any], Iterable[str]], None]


def announcer(emit: Emit, region: str, account: str) -> Callable[[str, Command, Invocation | None], None]:
    """Turns a change of status into the event AWS sends for it."""

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
