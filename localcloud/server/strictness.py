"""Refusals of requests that ministack accepts and AWS refuses, and AWS's messages for refusals of ministack.

The rules are in `localcloud.base.refusals` and beside each service. tests/contract/refusals lists what they refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ministack.core.responses import get_account_id, new_uuid
from ministack.services import cloudformation, cloudwatch_logs, eventbridge, iam, stepfunctions
from ministack.services.cloudformation import engine
from yaml import YAMLError

from localcloud.base.refusals import Refusal, Request, by_operation, first, state_machines
from localcloud.server import refusals, requests
from localcloud.server.refusals import Answer, Handler
from localcloud.server.requests import MODELS
from localcloud.services import kms, s3_refusals, sns
from localcloud.services.cloudformation import templates
from localcloud.services.lambdas import refusals as lambdas

WORDS = Path(__file__).with_name("words.yaml")
UNTARGETED = ("autoscaling", "dynamodb", "iam", "rds", "s3", "sts")
"""Services whose resources are no targets of rules."""
MOST_TARGETS, LONGEST_GROUP = 5, 512
DASHBOARD = re.compile(r"[\w-]+", re.ASCII)
SUFFIXED = ("autoscaling.amazonaws.com", "connect.amazonaws.com", "lexv2.amazonaws.com")
"""Services that may have several service-linked roles."""
ALARM_STATES = ("INSUFFICIENT_DATA", "ALARM", "OK")


def install() -> None:
    words = {
        service: [(re.compile(pattern), text) for pattern, text in rows.items()]
        for service, rows in yaml.safe_load(WORDS.read_text()).items()
    }

    def around(service: str, handler: Handler) -> Handler:
        rows = words.get(service, [])
        if (
            not rows
            and MODELS.get(service, service) not in by_operation.CONSTRAINED
            and service not in CHECKS
        ):
            return handler

        async def handle(
            method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, Any]
        ) -> Answer:
            parsed = requests.parse(service, method, path, headers, body, query)
            if parsed and (wrong := refusal(service, *parsed)):
                return refusals.answer(service, headers, wrong.code, wrong.message, status=wrong.status)
            status, answered, text = await handler(method, path, headers, body, query)
            if status >= 400 and isinstance(text, bytes):
                text = replace_messages(text.decode(), rows).encode()
                answered = {key: value for key, value in answered.items() if key.lower() != "content-length"}
            return status, answered, text

        return handle

    refusals.wrap_services(around)


def refusal(service: str, operation: Any, request: Request) -> Refusal | None:
    """Return why AWS refuses the request: by the service's model first, then by its rules."""
    if wrong := by_operation.by_model(MODELS.get(service, service), operation, request):
        return wrong
    check = CHECKS.get(service)
    return check(operation.name, request) if check else None


def replace_messages(text: str, rows: list[tuple[re.Pattern[str], str]]) -> str:
    """Replace ministack's messages with AWS's."""
    for pattern, words in rows:
        text = pattern.sub(words, text)
    return text


def _targets_of(request: Request, rule: str) -> list[Mapping[str, Any]]:
    key = eventbridge._rule_key(request.get(rule), request.get("EventBusName", "default"))
    return eventbridge._targets.get(key) or []


def _by_name(
    rules: Mapping[str, Callable[[Request], Refusal | None]],
) -> Callable[[str, Request], Refusal | None]:
    return lambda operation, request: rules[operation](request) if operation in rules else None


def _delete_rule(request: Request) -> Refusal | None:
    if _targets_of(request, "Name"):
        return Refusal("ValidationException", "Rule can't be deleted since it has targets.")
    return None


def _put_targets(request: Request) -> Refusal | None:
    for arn in (str(each.get("Arn", "")) for each in request["Targets"]):
        service = arn.split(":")[2] if arn.count(":") >= 5 else ""
        if service in UNTARGETED:
            unmanaged = "The API call hasn't been recognized as managed rules call"
            reason = f"Service as target config for ARN: {arn} not found. {unmanaged}"
            return Refusal("ValidationException", f"Parameter {arn} is not valid. Reason: {reason}")
    known = {each["Id"] for each in (*_targets_of(request, "Rule"), *request["Targets"])}
    if len(known) > MOST_TARGETS:
        message = "The requested resource exceeds the maximum number allowed."
        return Refusal("LimitExceededException", message)
    return None


def _has_bus(name: str) -> bool:
    return name == "default" or name in eventbridge._event_buses


def _no_bus(name: str) -> Refusal:
    return Refusal("ResourceNotFoundException", f"Event bus {name} does not exist.")


def _bus(request: Request) -> Refusal | None:
    name = str(request.get("EventBusName", "default")).rpartition("/")[2]
    return None if _has_bus(name) else _no_bus(name)


def _remove_permission(request: Request) -> Refusal | None:
    if (wrong := _bus(request)) or request.get("RemoveAllPermissions"):
        return wrong
    policy = eventbridge._event_bus_policies.get(request.get("EventBusName", "default")) or {}
    if request.get("StatementId") in [each.get("Sid") for each in policy.get("Statement", ())]:
        return None
    return Refusal("ResourceNotFoundException", "Statement with the provided id does not exist.")


def _tagged(request: Request) -> Refusal | None:
    kind, _, name = str(request.get("ResourceARN", "")).rpartition(":")[2].partition("/")
    bus, _, rule = name.rpartition("/")
    if kind == "event-bus" and not _has_bus(name):
        return _no_bus(name)
    if kind == "rule" and eventbridge._rule_key(rule, bus or "default") not in eventbridge._rules:
        message = f"Rule {rule} does not exist on EventBus {bus or 'default'}."
        return Refusal("ResourceNotFoundException", message)
    return None


def _put_log_events(request: Request) -> Refusal | None:
    times = [each["timestamp"] for each in request["logEvents"]]
    if times != sorted(times):
        message = "Log events in a single PutLogEvents request must be in chronological order."
        return Refusal("InvalidParameterException", message)
    return None


def _describe_log_groups(request: Request) -> Refusal | None:
    if request.get("logGroupNamePrefix") and request.get("logGroupNamePattern"):
        message = "LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters."
        return Refusal("InvalidParameterException", message)
    return None


def _describe_log_streams(request: Request) -> Refusal | None:
    if request.get("logGroupName") and request.get("logGroupIdentifier"):
        message = "LogGroup name and LogGroup ARN are mutually exclusive parameters."
        return Refusal("ValidationException", message)
    return None


def _filter_log_events(request: Request) -> Refusal | None:
    """Refuse every token, because ministack returns all events at once."""
    if "nextToken" in request:
        return Refusal("InvalidParameterException", "The specified nextToken is invalid.")
    return None


def _start_query(request: Request) -> Refusal | None:
    names = request.get("logGroupNames") or [request.get("logGroupName")]
    missing = [each for each in names if each and each not in cloudwatch_logs._log_groups]
    if not missing:
        return None
    request_id = f"Request ID: {new_uuid()}; Proxy: null"
    why = f"(Service: AWSLogs; Status Code: 400; Error Code: ResourceNotFoundException; {request_id})"
    message = f"Log group '{missing[0]}' does not exist for account ID '{get_account_id()}' {why}"
    return Refusal("ResourceNotFoundException", message)


def _log_names(request: Request) -> Refusal | None:
    names = (str(request.get("logGroupName") or ""), str(request.get("logStreamName") or ""))
    if max(map(len, names)) > LONGEST_GROUP:
        message = (
            f"Invalid LogGroup or LogStream, both must have length less than or equal to {LONGEST_GROUP}."
        )
        return Refusal("InvalidParameterException", message)
    return None


def _put_dashboard(request: Request) -> Refusal | None:
    if DASHBOARD.fullmatch(str(request.get("DashboardName", ""))):
        return None
    allowed = "It can only contain alphanumerics, dash (-) and underscore (_). "
    message = f"The value for field DashboardName contains invalid characters. {allowed}"
    return Refusal("InvalidParameterValue", message)


def _set_alarm_state(request: Request) -> Refusal | None:
    state = request.get("StateValue")
    if state not in ALARM_STATES:
        allowed = f"Member must satisfy enum value set: [{', '.join(ALARM_STATES)}]"
        message = f"Value '{state}' at 'stateValue' failed to satisfy constraint: {allowed}"
        return Refusal("ValidationError", f"1 validation error detected: {message}")
    return None


def _machine(operation: str, request: Request) -> Refusal | None:
    wrong = _by_name(state_machines.RULES)(operation, request)
    arn = request.get("stateMachineArn")
    if wrong or operation != "ListExecutions" or arn is None or arn in stepfunctions._state_machines:
        return wrong
    return Refusal("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")


def _policy_document(request: Request) -> Refusal | None:
    try:
        json.loads(request.get("AssumeRolePolicyDocument") or request.get("PolicyDocument") or "")
    except ValueError:
        return Refusal("MalformedPolicyDocument", "This policy contains invalid Json")
    return None


def _delete_role(request: Request) -> Refusal | None:
    name = str(request.get("RoleName", ""))
    if not (iam._roles.get(name) or {}).get("Path", "/").startswith("/aws-service-role/"):
        return None
    message = (
        f"Cannot perform the operation on the protected role '{name}' - this role is only modifiable by AWS"
    )
    return Refusal("UnmodifiableEntity", message)


def _service_linked_role(request: Request) -> Refusal | None:
    service = str(request.get("AWSServiceName", ""))
    if "CustomSuffix" not in request or service in SUFFIXED:
        return None
    return Refusal("InvalidInput", f"Custom suffix is not allowed for {service}")


def _attach(request: Request) -> Refusal | None:
    arn = str(request.get("PolicyArn", ""))
    if not arn.startswith("arn:"):
        return Refusal("ValidationError", "Invalid ARN:  Could not be parsed!")
    if ":aws:policy/" in arn or iam.policy_known(arn):
        return None
    return Refusal("NoSuchEntity", f"Policy {arn} does not exist or is not attachable.", 404)


def _describe_malformed(body: str) -> str:
    if not body.lstrip().startswith("{"):
        return "YAML not well-formed."
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        return f"JSON not well-formed. (line {error.lineno}, column {error.colno + 1})"
    return "JSON not well-formed."


def _change_set(request: Request) -> Refusal | None:
    if request.get("StackName") or str(request.get("ChangeSetName", "")).startswith("arn:"):
        return None
    return Refusal("ValidationError", "StackName is a required parameter.")


def _get_template(request: Request) -> Refusal | None:
    change = request.get("ChangeSetName")
    if change and not any(
        change in (each.get("ChangeSetName"), key) for key, each in cloudformation._change_sets.items()
    ):
        return Refusal("ChangeSetNotFound", f"ChangeSet [{change}] does not exist", 404)
    name = request.get("StackName")
    if not name and not request.get("ChangeSetName"):
        return Refusal("ValidationError", "StackName is required if ChangeSetName is not specified.")
    known = {each for key, stack in cloudformation._stacks.items() for each in (key, stack.get("StackId"))}
    if name is None or name in known:
        return None
    return Refusal("ValidationError", f"Stack with id {name} does not exist")


def _template(request: Request) -> Refusal | None:
    body = request.get("TemplateBody")
    if body is None:
        return None
    try:
        template = engine._parse_template(body)
        message = templates.fault(template) or templates.parameter_fault(template, request)
        message = message or _output_fault(template, request)
    except (ValueError, YAMLError):
        message = f"Template format error: {_describe_malformed(body)}"
    return Refusal("ValidationError", message) if message else None


def _output_fault(template: Mapping[str, Any], request: Request) -> str | None:
    given = request.get("Parameters") or ()
    if "Conditions" not in template or any(each.get("UsePreviousValue") for each in given):
        return None
    values = [{"Key": each["ParameterKey"], "Value": each.get("ParameterValue", "")} for each in given]
    try:
        parameters = engine._resolve_parameters(template, values)
    except ValueError:
        return None  # ministack refuses them
    return templates.output_fault(template, engine._evaluate_conditions(template, parameters))


def _stack(request: Request) -> Refusal | None:
    return first(_source(request), _role(request), _template(request))


def _update(request: Request) -> Refusal | None:
    name = request.get("StackName")
    stacks = [stack for key, stack in cloudformation._stacks.items() if name in (key, stack.get("StackId"))]
    if str(name).startswith("arn:") and (not stacks or stacks[0].get("StackStatus") == "DELETE_COMPLETE"):
        return Refusal("ValidationError", f"Stack:{name} is in DELETE_COMPLETE state and can not be updated.")
    return _stack(request)


def _source(request: Request) -> Refusal | None:
    scheme, _, rest = str(request.get("TemplateURL", "")).partition("://")
    if scheme != "s3":
        return None
    message = f"S3 error: Domain name specified in {rest.partition('/')[0]} is not a valid S3 domain"
    return Refusal("ValidationError", message)


def _role(request: Request) -> Refusal | None:
    arn = request.get("RoleARN")
    if arn is None or str(arn).rpartition("/")[2] in iam._roles:
        return None
    return Refusal("ValidationError", f"Role {arn} is invalid or cannot be assumed")


CHECKS: Mapping[str, Callable[[str, Request], Refusal | None]] = {
    "cloudformation": _by_name(
        {
            **dict.fromkeys(("CreateStack", "CreateChangeSet"), _stack),
            "UpdateStack": _update,
            "ValidateTemplate": _template,
            "GetTemplate": _get_template,
            **dict.fromkeys(("DescribeChangeSet", "ExecuteChangeSet", "DeleteChangeSet"), _change_set),
        }
    ),
    "events": _by_name(
        {
            "DeleteRule": _delete_rule,
            "PutTargets": _put_targets,
            **dict.fromkeys(("PutPermission", "PutRule"), _bus),
            "RemovePermission": _remove_permission,
            **dict.fromkeys(("TagResource", "UntagResource", "ListTagsForResource"), _tagged),
        }
    ),
    "iam": _by_name(
        {
            **dict.fromkeys(("CreateRole", "UpdateAssumeRolePolicy", "PutRolePolicy"), _policy_document),
            "AttachRolePolicy": _attach,
            "DeleteRole": _delete_role,
            "CreateServiceLinkedRole": _service_linked_role,
        }
    ),
    "kms": _by_name(kms.RULES),
    "lambda": _by_name(lambdas.RULES),
    "logs": _by_name(
        {
            "PutLogEvents": _put_log_events,
            "DescribeLogGroups": _describe_log_groups,
            "DescribeLogStreams": _describe_log_streams,
            "FilterLogEvents": _filter_log_events,
            "StartQuery": _start_query,
            **dict.fromkeys(("CreateLogGroup", "CreateLogStream"), _log_names),
        }
    ),
    "monitoring": _by_name({"PutDashboard": _put_dashboard, "SetAlarmState": _set_alarm_state}),
    "s3": s3_refusals.refusal,
    "sns": _by_name(sns.RULES),
    "states": _machine,
}
