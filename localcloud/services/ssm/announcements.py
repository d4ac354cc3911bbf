"""Events of commands on the default bus. Field names have dashes, as on AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from localcloud.base.run_command import status_event
from localcloud.services.ssm.commands import Command, Invocation, iso

Emit = Callable[[str, str, Mapping[str, Any], Iterable[str]], None]


def announcer(emit: Emit, region: str, account: str) -> Callable[[str, Command, Invocation | None], None]:
    """Return a function that emits the event for a change of status."""

    def announce(kind: str, command: Command, invocation: Invocation | None) -> None:
        instance = invocation.instance_id if invocation else None
        detail_type, detail, hosts = status_event(command, command.document, instance, iso)
        resources = [f"arn:aws:ec2:{region}:{account}:instance/{host}" for host in hosts]
        emit("aws.ssm", detail_type, detail, resources)

    return announce
