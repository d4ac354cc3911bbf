"""Systems Manager: managed hosts, commands and their results, sessions, parameters.

A host registers (`register`), receives commands (`machines.command`) and reports (`done`). A host that vanishes
reports nothing: its invocation stays InProgress until it times out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulation.aws.ec2 import arns
from simulation.aws.ec2.model import Emit
from simulation.aws.ec2.service import Ec2
from simulation.aws.endpoint.api import ACCOUNT, PARTITION, REGION, Caller, Check
from simulation.aws.ssm.commands import CommandCalls
from simulation.aws.ssm.model import Settings
from simulation.aws.ssm.parameters import ParameterCalls, parameter_arn
from simulation.aws.ssm.sessions import SessionCalls
from simulation.world.world import World


class Ssm(CommandCalls, SessionCalls, ParameterCalls):
    def __init__(self, world: World, ec2: Ec2, emit: Emit, *, settings: Settings | None = None) -> None:
        CommandCalls.__init__(self, world, ec2, emit, settings or Settings())
        SessionCalls.__init__(self)
        ParameterCalls.__init__(self)

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        action = f"ssm:{''.join(word.capitalize() for word in operation.split('_'))}"
        if operation in ("get_parameter", "put_parameter", "delete_parameter"):
            return [Check(action, parameter_arn(request["Name"]))]
        if operation == "get_parameters":
            return [Check(action, parameter_arn(name)) for name in request["Names"]]
        if operation == "get_parameters_by_path":
            return [Check(action, parameter_arn(request["Path"]))]
        if operation == "send_command":
            document = f"arn:{PARTITION}:ssm:{REGION}:{ACCOUNT}:document/{request['DocumentName']}"
            hosts = [self._on_host(action, each) for each in request.get("InstanceIds") or ()]
            return [Check(action, document), *hosts]
        return [Check(action, "*")]

    def _on_host(self, action: str, instance_id: str) -> Check:
        instance = self.ec2.instances.get(instance_id)
        tags = arns.resource_tags(instance.tags, "ssm") if instance else {}
        return Check(action, arns.build("instance", instance_id), tags)
