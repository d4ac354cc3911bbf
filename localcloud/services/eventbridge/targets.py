"""Permissions, retries and dead letters of the targets of rules, schedules and topics.

ministack delivers to any target. AWS checks the target's role (for state machines, buses and schedules) or the
function's own policy, retries functions, and sends failed events to the target's dead-letter queue.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ministack.core import iam_evaluator
from ministack.core.arn import parse_arn
from ministack.core.responses import error_response_json, get_account_id, get_region, json_response
from ministack.services import eventbridge, lambda_svc

from localcloud.base.event_entries import TOO_LARGE, are_too_large, fault_of
from localcloud.patches import MINISTACK
from localcloud.services.eventbridge.service_events import lost_events
from localcloud.services.iam.checks import Check
from localcloud.services.iam.roles import NotAllowedError, Session

log = logging.getLogger(__name__)

RULES, SCHEDULES, TOPICS = "events.amazonaws.com", "scheduler.amazonaws.com", "sns.amazonaws.com"
ROLE_NEEDS = {
    "states": "states:StartExecution",
    "events": "events:PutEvents",
    "lambda": "lambda:InvokeFunction",
    "sqs": "sqs:SendMessage",
    "sns": "sns:Publish",
}


def install() -> None:
    stock_invoke = MINISTACK.stock("services.eventbridge:_invoke_target")

    def invoke_target(
        target: Mapping[str, Any], event: Mapping[str, Any], rule: Mapping[str, Any], view: Any = None
    ) -> None:
        refusal = why_refused(target, event, rule)
        if refusal is None:
            stock_invoke(target, event, rule, view)
            return
        log.warning("%s does not reach %s: %s", rule.get("Name"), target.get("Arn"), refusal)
        _dead_letter(target, event)

    stock_put = MINISTACK.stock("services.eventbridge:_put_events")

    def put_events(data: dict[str, Any], allow_aws_source: bool = False) -> Any:
        arriving = without_lost(data) if allow_aws_source else data
        return put_valid_events(stock_put, arriving, allow_aws_source)

    MINISTACK.replace("services.eventbridge:_put_events", put_events)
    MINISTACK.replace("services.eventbridge:_invoke_target", invoke_target)
    MINISTACK.replace("services.eventbridge:_dispatch_to_lambda", invoke_function)
    MINISTACK.replace("services.sns:_deliver_to_lambda", deliver_to_function)
    MINISTACK.replace("services.eventbridge:_events_log_list", partial(deque, maxlen=0))


def without_lost(data: dict[str, Any]) -> dict[str, Any]:
    """Remove the entries of AWS services that a fault loses."""
    arriving = [entry for entry in data["Entries"] if not lost_events.take(entry["DetailType"])]
    return {**data, "Entries": arriving}


def put_valid_events(stock_put: Callable[..., Any], data: Mapping[str, Any], allow_aws_source: bool) -> Any:
    """Answer PutEvents. Entries with a missing field or an invalid detail fail; the others are put."""
    entries = data.get("Entries") or []
    if are_too_large(entries):
        return error_response_json("ValidationException", TOO_LARGE, 400)
    faults = [fault_of(entry) for entry in entries]
    valid = [entry for entry, fault in zip(entries, faults, strict=True) if fault is None]
    status, headers, body = stock_put({**data, "Entries": valid}, allow_aws_source=allow_aws_source)
    if status != 200 or len(valid) == len(entries):
        return status, headers, body
    put = iter(json.loads(body)["Entries"])
    answers = [next(put) if fault is None else fault for fault in faults]
    failed = sum("ErrorCode" in answer for answer in answers)
    return json_response({"FailedEntryCount": failed, "Entries": answers})


def why_refused(target: Mapping[str, Any], event: Mapping[str, Any], rule: Mapping[str, Any]) -> str | None:
    """Return why the rule or schedule may not call the target, or None."""
    arn = str(target.get("Arn", ""))
    service = arn.split(":")[2] if arn.count(":") >= 5 else ""
    is_schedule = event.get("Source") == "aws.scheduler"
    if service == "lambda" and not is_schedule:
        return function_policy_refuses(RULES, arn, str(rule.get("Arn", "")))
    if service not in ROLE_NEEDS or (service in {"sqs", "sns"} and not is_schedule):
        return None
    role = target.get("RoleArn") or rule.get("RoleArn")
    if not role:
        return f"a target of {service} needs a RoleArn"
    return _role_refuses(str(role), SCHEDULES if is_schedule else RULES, service, arn, event)


def _role_refuses(role: str, principal: str, service: str, arn: str, event: Mapping[str, Any]) -> str | None:
    session = Session(role, principal.split(".")[0], principal, get_account_id(), get_region())
    context = {"events:source": event.get("Source"), "events:detail-type": event.get("DetailType")}
    try:
        session.require(service, Check(ROLE_NEEDS[service], arn, context if service == "events" else {}))
    except NotAllowedError as denied:
        return str(denied)
    return None


def deliver_to_function(
    endpoint: str,
    envelope: str,
    topic_arn: str,
    sub_arn: str,
    msg_id: str,
    raw_message: str,
    message_attributes: Mapping[str, Any],
) -> None:
    """Invoke the function of a subscription asynchronously, like AWS. ministack invokes it once, and ignores the
    policy of the function."""
    if refusal := function_policy_refuses(TOPICS, endpoint, topic_arn):
        log.warning("%s does not reach %s: %s", topic_arn, endpoint, refusal)
        return
    record = {"EventVersion": "1.0", "EventSubscriptionArn": sub_arn, "EventSource": "aws:sns"}
    invoke_function(endpoint, json.dumps({"Records": [{**record, "Sns": json.loads(envelope)}]}))


def function_policy_refuses(principal: str, arn: str, source: str) -> str | None:
    """Return why the function's own policy (`AddPermission`) refuses the rule or topic `source`, or None."""
    found = lambda_svc.function_policy_for_arn(arn)
    policy = found[0] if found else None
    asked = iam_evaluator.EvalContext(
        principal_arn=principal,
        principal_type="Service",
        principal_account=get_account_id(),
        action="lambda:InvokeFunction",
        resource_arn=arn,
        region=get_region(),
        service_context={"aws:sourcearn": source, "aws:sourceaccount": get_account_id()},
    )
    answer = iam_evaluator.evaluate_resource_policy(policy, asked, service=principal)
    if answer.decision == "Allow":
        return None
    return f"the function's policy does not let {principal} invoke it for {source}"


def invoke_function(arn: str, payload: str) -> None:
    """Invoke asynchronously like AWS: up to two retries, then the function's own dead-letter queue."""
    function, config, name = lambda_svc._get_func_record_for_ref(arn)
    if not function or not config:
        log.warning("the function of a rule or topic does not exist: %s", name)
        return
    record = lambda_svc._execution_record_for_config(function, config)
    kept = {key: function[key] for key in ("event_invoke_config", "event_invoke_configs") if key in function}
    lambda_svc.invoke_async_with_retry({**kept, **record}, json.loads(payload))


def _dead_letter(target: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    queue = (target.get("DeadLetterConfig") or {}).get("Arn")
    if queue:
        whole = eventbridge._pattern_event_view(event).event_with_detail()
        eventbridge._dispatch_to_sqs(parse_arn(queue), json.dumps(whole))
