"""Expansion of a request into all the (action, resource) pairs that AWS checks.

For most services ministack checks one pair for each request. AWS checks every resource that a request names, and
iam:PassRole for each role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import iam

from localcloud.base.task_tokens import machine_of
from localcloud.services.iam import keys, service_linked_roles
from localcloud.services.iam.checks import Check
from localcloud.services.iam.requests import Request

Expander = Callable[[Request, Check], list[Check] | None]

PASSED_TO = {
    "lambda:CreateFunction": (("Role",), "lambda.amazonaws.com"),
    "lambda:UpdateFunctionConfiguration": (("Role",), "lambda.amazonaws.com"),
    "states:CreateStateMachine": (("roleArn",), "states.amazonaws.com"),
    "states:UpdateStateMachine": (("roleArn",), "states.amazonaws.com"),
    "events:PutRule": (("RoleArn",), "events.amazonaws.com"),
    "events:PutTargets": (("Targets", "RoleArn"), "events.amazonaws.com"),
    "scheduler:CreateSchedule": (("Target", "RoleArn"), "scheduler.amazonaws.com"),
    "scheduler:UpdateSchedule": (("Target", "RoleArn"), "scheduler.amazonaws.com"),
    "ssm:SendCommand": (("ServiceRoleArn",), "ssm.amazonaws.com"),
    "cloudformation:CreateStack": (("RoleARN",), "cloudformation.amazonaws.com"),
    "cloudformation:UpdateStack": (("RoleARN",), "cloudformation.amazonaws.com"),
    "cloudformation:DeleteStack": (("RoleARN",), "cloudformation.amazonaws.com"),
    "cloudformation:CreateChangeSet": (("RoleARN",), "cloudformation.amazonaws.com"),
}
"""Paths of role names in requests, and the service that receives each role."""

ROLE_NAME_PASSED_TO = {"iam:AddRoleToInstanceProfile": ("RoleName", "ec2.amazonaws.com")}

DOCUMENT_ACTIONS = {
    f"ssm:{verb}"
    for verb in (
        "GetDocument",
        "DescribeDocument",
        "CreateDocument",
        "UpdateDocument",
        "UpdateDocumentDefaultVersion",
        "DeleteDocument",
        "ListDocumentVersions",
        "DescribeDocumentPermission",
        "ModifyDocumentPermission",
    )
}
TOKEN_ACTIONS = {"states:SendTaskSuccess", "states:SendTaskFailure", "states:SendTaskHeartbeat"}


def checks_of(request: Request, base: Check) -> list[Check]:
    """Return all checks of the request. `base` is the check that ministack derived."""
    expand = EXPANDERS.get(request.action) or SERVICE_EXPANDERS.get(request.service)
    checks = (expand(request, base) if expand else None) or [base]
    return [*checks, *_passed_roles(request)]


# ------------------------------------------------------------------------------------------------- passed roles


def _passed_roles(request: Request) -> list[Check]:
    if request.action in PASSED_TO:
        path, service = PASSED_TO[request.action]
        roles = _at(request.fields(), path)
    elif request.action in ROLE_NAME_PASSED_TO:
        name, service = ROLE_NAME_PASSED_TO[request.action]
        roles = [_role_arn(str(request.parameter(name)))]
    else:
        return []
    context = {"iam:passedtoservice": service}
    return [Check("iam:PassRole", role, context) for role in dict.fromkeys(roles) if role]


def _at(value: Any, path: tuple[str, ...]) -> Iterable[str]:
    """Yield the strings at a path, including those inside lists."""
    if isinstance(value, list):
        return [found for item in value for found in _at(item, path)]
    if not path:
        return [value] if isinstance(value, str) else []
    return _at(value.get(path[0]), path[1:]) if isinstance(value, dict) else []


def _role_arn(name: str) -> str:
    role = iam._roles.get(name)
    return str(role["Arn"]) if role else f"arn:aws:iam::{get_account_id()}:role/{name}"


# --------------------------------------------------------------------------------------------------------- services


def _document(request: Request, base: Check) -> list[Check]:
    return [Check(request.action, document_arn(str(request.fields().get("Name", ""))), base.context)]


def _parameters(request: Request, base: Check) -> list[Check]:
    parameters = request.fields()
    names = [
        str(name)
        for name in parameters.get("Names") or [parameters.get("Path") or parameters.get("Name") or ""]
    ]
    checks = [Check(request.action, _parameter_arn(name), base.context) for name in names]
    return [*checks, *keys.checks_of_parameters(parameters, names)]


def _put_events(request: Request, base: Check) -> list[Check]:
    """Check each entry on its bus by source and type, and each bus by all sources and types.

    AWS's reference declares both keys as arrays and documents no operator for arrays without a set prefix. Here such an
    operator refuses a request with several sources, and ForAllValues allows one if all entries are allowed.
    """
    entries = [entry for entry in request.fields().get("Entries") or [] if isinstance(entry, dict)]
    buses = [_bus_arn(str(entry.get("EventBusName") or "default")) for entry in entries]
    sources = [(_field(entry, "Source"), _field(entry, "DetailType")) for entry in entries]
    whole = (_combine([source for source, _ in sources]), _combine([kind for _, kind in sources]))
    pairs = [
        *zip(buses, sources, strict=True),
        *((bus, whole) for bus in dict.fromkeys(buses) if len(sources) > 1),
    ]
    return [
        Check(request.action, bus, {**base.context, "events:source": source, "events:detail-type": kind})
        for bus, (source, kind) in pairs
    ]


def _field(entry: dict[str, Any], word: str) -> str | None:
    return None if entry.get(word) is None else str(entry[word])


def _combine(values: list[str | None]) -> str | list[str | None] | None:
    """Return the single distinct value, or a list of all distinct values."""
    found = list(dict.fromkeys(values))
    return found[0] if len(found) == 1 else found


def _put_metric_data(request: Request, base: Check) -> list[Check]:
    context = {**base.context, "cloudwatch:namespace": request.fields().get("Namespace")}
    return [Check(request.action, "*", context)]


def _task_token(request: Request, base: Check) -> list[Check]:
    """Check the answer to a task against its state machine, as AWS does."""
    machine = machine_of(str(request.fields().get("taskToken", "")))
    return [Check(request.action, machine or "*", base.context)]


def _start_execution(request: Request, base: Check) -> list[Check]:
    return [Check(request.action, str(request.fields().get("stateMachineArn", "*")), base.context)]


def _quota(request: Request, base: Check) -> list[Check]:
    parameters = request.fields()
    name = f"{parameters.get('ServiceCode', '')}/{parameters.get('QuotaCode', '')}"
    return [
        Check(request.action, f"arn:aws:servicequotas:{get_region()}:{get_account_id()}:{name}", base.context)
    ]


def _schedule(request: Request, base: Check) -> list[Check]:
    """Check a schedule by its group, which a request has in its body or its query."""
    group = request.fields().get("GroupName") or request.parameter("groupName") or "default"
    name = base.resource.rpartition("/")[2]
    arn = f"arn:aws:scheduler:{get_region()}:{get_account_id()}:schedule/{group}/{name}"
    return [Check(request.action, arn, base.context)]


SCHEDULE_ACTIONS = tuple(f"scheduler:{verb}Schedule" for verb in ("Create", "Update", "Delete", "Get"))
PARAMETER_ACTIONS = (
    "ssm:DeleteParameters",
    "ssm:GetParameter",
    "ssm:GetParameters",
    "ssm:GetParametersByPath",
    "ssm:PutParameter",
)
EXPANDERS: dict[str, Expander] = {
    "servicequotas:GetServiceQuota": _quota,
    "kms:CreateGrant": keys.create_grant,
    service_linked_roles.MAKE: service_linked_roles.creation,
    **dict.fromkeys(PARAMETER_ACTIONS, _parameters),
    **dict.fromkeys(SCHEDULE_ACTIONS, _schedule),
    "events:PutEvents": _put_events,
    "cloudwatch:PutMetricData": _put_metric_data,
    "states:StartExecution": _start_execution,
    **dict.fromkeys(DOCUMENT_ACTIONS, _document),
    **dict.fromkeys(TOKEN_ACTIONS, _task_token),
}
SERVICE_EXPANDERS: dict[str, Expander] = {}
"""Functions by service. EC2 adds its own and extends functions of services that act on its instances."""


# ------------------------------------------------------------------------------------------------------------ names


def document_arn(name: str) -> str:
    """Return a document's ARN. AWS's documents have no account, except `SSM-SessionManagerRunShell`."""
    if name.startswith("arn:"):
        return name
    owner = "" if name.startswith(("AWS-", "Amazon")) else get_account_id()
    return f"arn:aws:ssm:{get_region()}:{owner}:document/{name}"


def _parameter_arn(name: str) -> str:
    return f"arn:aws:ssm:{get_region()}:{get_account_id()}:parameter/{name.lstrip('/')}"


def _bus_arn(name: str) -> str:
    if name.startswith("arn:"):
        return name
    return f"arn:aws:events:{get_region()}:{get_account_id()}:event-bus/{name}"
