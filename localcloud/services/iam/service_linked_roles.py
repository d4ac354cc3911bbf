"""Service-linked roles with AWS's names. An account has each of them once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ministack.core.responses import get_account_id
from ministack.services import iam

from localcloud.patches import MINISTACK
from localcloud.services.iam.checks import Check
from localcloud.services.iam.requests import Request

HANDLERS = "services.iam:_IAM_HANDLERS"
NAMES = {
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
    "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet",
}
"""Names of the roles that EC2 uses. ministack would generate others."""
CALLED = {"spot.amazonaws.com": "EC2 Spot Instances", "ec2fleet.amazonaws.com": "EC2 Fleet"}
MAKE = "iam:CreateServiceLinkedRole"


def install() -> None:
    stock = MINISTACK.stock(HANDLERS)["CreateServiceLinkedRole"]

    def create(params: Mapping[str, Any]) -> Any:
        service = str(iam._p(params, "AWSServiceName"))
        name = NAMES.get(service)
        if name in iam._roles:
            return _name_taken_error(name)
        status, headers, body = stock(params)
        if status == 409:
            return _name_taken_error(_stock_name(service))
        if name:
            role = iam._roles.pop(_stock_name(service))
            iam._roles[name] = role | {"RoleName": name, "Arn": arn(service)}
            body = body.replace(_stock_name(service).encode(), name.encode())
        return status, headers, body

    MINISTACK.extend(HANDLERS, {"CreateServiceLinkedRole": create})


def creation(request: Request, base: Check) -> list[Check]:
    """Return the check for the new role and its service."""
    service = str(request.parameter("AWSServiceName"))
    context = {**base.context, "iam:awsservicename": service}
    name = NAMES.get(service) or _stock_name(service)
    path = f"arn:aws:iam::{get_account_id()}:role/aws-service-role/{service}/{name}"
    return [Check(base.action, path, context)]


def arn(service: str) -> str:
    return f"arn:aws:iam::{get_account_id()}:role/aws-service-role/{service}/{NAMES[service]}"


def exists(service: str) -> bool:
    return NAMES[service] in iam._roles


def make(service: str) -> None:
    """Create the role at EC2's first use by a caller with permission."""
    MINISTACK.stock(HANDLERS)["CreateServiceLinkedRole"]({"AWSServiceName": [service]})


def _stock_name(service: str) -> str:
    return f"AWSServiceRoleFor{service.partition('.')[0].capitalize()}"


def _name_taken_error(name: object) -> Any:
    message = f"Service role name {name} has been taken in this account, please try a different suffix."
    return iam._error(400, "InvalidInput", message, ns="iam")
