"""Parameter Store: the parameters of the yard, and AWS's parameters with image ids."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from simulation.aws.endpoint.api import ACCOUNT, PARTITION, REGION, Answer, Caller, Request, ServiceError
from simulation.aws.endpoint.parameters import not_simulated, only
from simulation.world.world import World

LARGEST_PARAMETER = 4096


@dataclass
class Parameter:
    value: str
    type: str
    version: int
    changed: datetime


class ParameterCalls:
    world: World

    def __init__(self) -> None:
        self.parameters: dict[str, Parameter] = {}

    def publish(self, name: str, value: str) -> None:
        """Set a parameter of the yard or of AWS."""
        before = self.parameters.get(name)
        version = before.version + 1 if before else 1
        self.parameters[name] = Parameter(value, "String", version, self.world.now)

    def get_parameter(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Name",), "GetParameter")
        name, found = request["Name"], self.parameters.get(request["Name"])
        if found is None:
            raise ServiceError("ParameterNotFound", "")
        return {"Parameter": _show(name, found)}

    def get_parameters(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Names", "WithDecryption"), "GetParameters")
        found = {name: self.parameters.get(name) for name in request["Names"]}
        return {
            "Parameters": [_show(name, each) for name, each in found.items() if each],
            "InvalidParameters": [name for name, each in found.items() if not each],
        }

    def get_parameters_by_path(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Path", "Recursive", "WithDecryption"), "GetParametersByPath")
        if request.get("Recursive"):
            raise not_simulated("GetParametersByPath with Recursive")
        names = [name for name in self.parameters if name.rpartition("/")[0] == request["Path"]]
        return {"Parameters": [_show(name, self.parameters[name]) for name in sorted(names)]}

    def put_parameter(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Name", "Value", "Type", "Overwrite"), "PutParameter")
        name, before = request["Name"], self.parameters.get(request["Name"])
        if re.match(r"/?(aws|ssm)", name, re.IGNORECASE):
            raise ServiceError(
                "ValidationException", 'Parameter name: can\'t be prefixed with "aws" or "ssm".'
            )
        if before and not request.get("Overwrite"):
            raise ServiceError(
                "ParameterAlreadyExists",
                "The parameter already exists. To overwrite this value, set the overwrite option in the "
                "request to true.",
            )
        if not before and request.get("Type") != "String":
            raise not_simulated("parameters of another Type than String")
        if not 1 <= len(request["Value"].encode()) <= LARGEST_PARAMETER:
            raise ServiceError(
                "ValidationException",
                f"Standard tier parameters support a maximum parameter value of {LARGEST_PARAMETER} characters.",
            )
        self.publish(name, request["Value"])
        return {"Version": self.parameters[name].version, "Tier": "Standard"}

    def delete_parameter(self, caller: Caller, request: Request) -> Answer:
        only(request, ("Name",), "DeleteParameter")
        if self.parameters.pop(request["Name"], None) is None:
            raise ServiceError("ParameterNotFound", "")
        return {}


def _show(name: str, parameter: Parameter) -> dict[str, Any]:
    return {
        "Name": name,
        "Type": parameter.type,
        "Value": parameter.value,
        "Version": parameter.version,
        "LastModifiedDate": parameter.changed,
        "ARN": parameter_arn(name),
        "DataType": "text",
    }


def parameter_arn(name: str) -> str:
    """Return the ARN. The ARNs of AWS's own parameters have no account."""
    account = "" if name.startswith("/aws/") else ACCOUNT
    return f"arn:{PARTITION}:ssm:{REGION}:{account}:parameter/{name.lstrip('/')}"
