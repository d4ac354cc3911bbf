"""Permissions of executions: each acts under its state machine's role."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Callable, Mapping
from typing import Any

from ministack.core import iam_actions
from ministack.core.responses import get_account_id, get_region, new_uuid
from ministack.services import stepfunctions as stock

from localcloud.patches import MINISTACK
from localcloud.services.iam import enforcement
from localcloud.services.iam.checks import Check
from localcloud.services.iam.expansion import checks_of
from localcloud.services.iam.requests import Request
from localcloud.services.iam.roles import NotAllowedError, Session
from localcloud.services.stepfunctions.errors import execution_error

THROTTLED = "TooManyRequestsException"
"""Error of a throttled function. ministack reports Lambda.Unknown, which no Retry covers."""
MISSING = "Lambda.ResourceNotFoundException"
PRINCIPAL = "states.amazonaws.com"
_acting: contextvars.ContextVar[Session | None] = contextvars.ContextVar("acting_role", default=None)


def session_of(execution: Mapping[str, Any]) -> Session:
    """Return the role session of an execution."""
    machine = stock._state_machines[execution["stateMachineArn"]]
    return Session(machine["roleArn"], str(execution["name"])[:64], PRINCIPAL, get_account_id(), get_region())


def act_as(session: Session) -> None:
    """Use this role for all further actions of the current context."""
    _acting.set(session)


def install() -> None:
    """Check every call that leaves an execution."""
    stock_lambda = MINISTACK.stock("services.stepfunctions:_call_lambda")
    stock_call = MINISTACK.stock("app:call_service_handler_sync")

    def call_lambda(function: str, event: Any) -> Any:
        _require(
            "Lambda.AWSLambdaException", "lambda", Check("lambda:InvokeFunction", _function_arn(function))
        )
        try:
            return stock_lambda(function, event)
        except stock._ExecutionError as error:
            if error.error == MISSING:
                words = f"Function not found: {_function_arn(function)}:$LATEST (Service: AWSLambda; Status Code: 404"
                numbered = f"Error Code: ResourceNotFoundException; Request ID: {new_uuid()}; Proxy: null)"
                raise execution_error(error.error, f"{words}; {numbered}") from error
            if THROTTLED not in str(error.cause):
                raise
            raise execution_error(f"Lambda.{THROTTLED}", str(error.cause)) from error

    def guarded_start(start: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
        def start_execution(resource: str, data: Any) -> Any:
            machine = str(data.get("StateMachineArn") or data.get("stateMachineArn"))
            _require(
                "StepFunctions.AWSStepFunctionsException", "states", Check("states:StartExecution", machine)
            )
            return start(resource, data)

        return start_execution

    def call_service(
        handler: Any,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Any,
        query: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Any:
        if _acting.get() is not None:
            service = headers.get("host", "").split(".")[0]
            _require_request(service, method, path, headers, body, query)
        return stock_call(handler, method, path, headers, body, query, timeout)

    MINISTACK.replace("services.stepfunctions:_call_lambda", call_lambda)
    for start in ("_invoke_nested_start_execution", "_invoke_nested_start_execution_sync"):
        name = f"services.stepfunctions:{start}"
        MINISTACK.replace(name, guarded_start(MINISTACK.stock(name)))
    MINISTACK.replace("app:call_service_handler_sync", call_service)
    integrations = MINISTACK.stock("services.stepfunctions:_SERVICE_DISPATCH")
    guarded = {prefix: _guarded_integration(prefix, handler) for prefix, handler in integrations.items()}
    MINISTACK.extend("services.stepfunctions:_SERVICE_DISPATCH", guarded)


def _guarded_integration(prefix: str, handler: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    """Return an integration (sqs, sns, events, dynamodb) with checks. ministack serves these without a request."""
    service, operation = prefix.removeprefix("arn:aws:states:::").split(":")
    action = f"{service}:{operation[0].upper()}{operation[1:]}"
    error = {
        "dynamodb": "DynamoDB.AmazonDynamoDBException",
        "sqs": "SQS.AmazonSQSException",
        "sns": "SNS.AmazonSNSException",
        "events": "EventBridge.AmazonEventBridgeException",
        "ecs": "ECS.AmazonECSException",
    }[service]

    def guarded(resource: str, data: Any) -> Any:
        request = Request(service, action, json.dumps(data).encode())
        _require(error, service, *checks_of(request, Check(action, _target(service, data))))
        return handler(resource, data)

    return guarded


def _target(service: str, data: Mapping[str, Any]) -> str:
    owner = f"{get_region()}:{get_account_id()}"
    match service:
        case "dynamodb":
            table = str(data.get("TableName", ""))
            return table if table.startswith("arn:") else f"arn:aws:dynamodb:{owner}:table/{table}"
        case "sqs":
            return f"arn:aws:sqs:{owner}:{str(data.get('QueueUrl', '')).rsplit('/', 1)[-1]}"
        case "sns":
            return str(data.get("TopicArn") or data.get("TargetArn") or "*")
        case _:
            return "*"


def _require_request(
    service: str, method: str, path: str, headers: Mapping[str, str], body: Any, query: Mapping[str, Any]
) -> None:
    """Apply the checks that the same request over HTTP would get."""
    from urllib.parse import parse_qs

    content = body.encode() if isinstance(body, str) else body or b""
    parameters = dict(query or {})
    if "x-www-form-urlencoded" in headers.get("content-type", ""):
        parameters |= parse_qs(content.decode(), keep_blank_values=True)
    where = (service, method, path, headers, content, parameters)
    action = iam_actions.extract_iam_action(*where) or f"{service}:Unknown"
    resource = iam_actions.extract_resource_arn(*where, get_region(), get_account_id())
    context = _own_context(service, action, content, parameters)
    checks = checks_of(Request(service, action, content, parameters), Check(action, resource, context))
    prefix = stock._AWS_SDK_ERROR_PREFIX.get(_sdk_name(service), service.capitalize())
    _require(f"{prefix}.{prefix}Exception", service, *checks)


def _own_context(service: str, action: str, body: bytes, parameters: Mapping[str, Any]) -> dict[str, Any]:
    context: dict[str, Any] = enforcement.request_tags(service, action, body, parameters)
    if service == "dynamodb":
        context = {**context, **iam_actions.dynamodb_service_context(body)}
    return {key.lower(): value for key, value in context.items()}


def _sdk_name(service: str) -> str:
    return {"states": "sfn", "monitoring": "cloudwatch", "events": "eventbridge"}.get(service, service)


def _function_arn(function: str) -> str:
    if function.startswith("arn:"):
        return function
    return f"arn:aws:lambda:{get_region()}:{get_account_id()}:function:{function}"


def _require(error: str, service: str, *checks: Check) -> None:
    session = _acting.get()
    if session is None:
        return
    try:
        session.require(service, *checks)
    except NotAllowedError as denied:
        raise execution_error(error, str(denied)) from denied
