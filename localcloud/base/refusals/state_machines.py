"""Requests that Step Functions refuses only because of their parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.base.refusals import Refusal, Request, Rule

NAME = re.compile(r"[^\x00-\x20\x7f-\x9f<>{}\[\]?*\"#%\\^|~`$&,;:/]{1,80}")
NO_LABEL = re.compile(r"[\x00-\x20\x7f-\x9f<>{}\[\]?*\"#%\\^|~`$&,;:/]")
MOST_RESULTS, LONGEST_TOKEN, LONGEST_LABEL = 1000, 3096, 40
ARNS = ("stateMachineArn", "executionArn", "activityArn", "mapRunArn")
OPERATIONS = [
    "DescribeStateMachine",
    "DescribeExecution",
    "DescribeStateMachineForExecution",
    "GetExecutionHistory",
    "StopExecution",
    "StartExecution",
    "ListExecutions",
    "UpdateStateMachine",
    "DeleteStateMachine",
    "PublishStateMachineVersion",
    "ListStateMachineVersions",
    "DescribeActivity",
    "GetActivityTask",
    "DeleteActivity",
]


def _arn(request: Request) -> Refusal | None:
    """Refuse what is not an ARN."""
    for name in ARNS:
        given = request.get(name)
        if given is not None and not str(given).startswith("arn:"):
            return Refusal("InvalidArn", f"Invalid Arn: 'Invalid ARN prefix: {given}'")
    return _results(request)


def _results(request: Request) -> Refusal | None:
    given = request.get("maxResults")
    if given is None or 0 <= given <= MOST_RESULTS:
        return None
    bound = f"Member must have value less than or equal to {MOST_RESULTS}"
    where = f"Value '{given}' at 'maxResults' failed to satisfy constraint"
    return Refusal("ValidationException", f"1 validation error detected: {where}: {bound}")


def _list_executions(request: Request) -> Refusal | None:
    token = str(request.get("nextToken", ""))
    if (wrong := _arn(request)) or len(token) <= LONGEST_TOKEN:
        return wrong
    bound = f"Member must have length less than or equal to {LONGEST_TOKEN}"
    where = f"Value '{token}' at 'nextToken' failed to satisfy constraint"
    return Refusal("ValidationException", f"1 validation error detected: {where}: {bound}")


def _name(request: Request) -> Refusal | None:
    name = request.get("name")
    if name is None or NAME.fullmatch(str(name)):
        return None
    return Refusal("InvalidName", f"Invalid Name: '{name}'")


def _start(request: Request) -> Refusal | None:
    return _arn(request) or _name(request)


def _create(request: Request) -> Refusal | None:
    if wrong := _name(request):
        return wrong
    if request.get("versionDescription") and not request.get("publish"):
        return Refusal("ValidationException", "Version description can only be set when publish is true")
    return _labels(str(request.get("definition", "")))


def _labels(definition: str) -> Refusal | None:
    """Refuse a label of a Map state that cannot be part of an ARN."""
    try:
        fault = next(_label_faults(json.loads(definition)), None)
    except ValueError:
        return None
    if fault is None:
        return None
    return Refusal("InvalidDefinition", f"Error=ValueError Args=[{fault!r}] in definition '{definition}'.")


def _label_faults(machine: Any) -> Iterator[str]:
    states = machine.get("States") if isinstance(machine, dict) else None
    for state in states.values() if isinstance(states, dict) else ():
        if not isinstance(state, dict):
            continue
        label = state.get("Label")
        if label == "":
            yield "Label cannot be empty"
        elif isinstance(label, str) and len(label) > LONGEST_LABEL:
            yield f"Label cannot exceed {LONGEST_LABEL} characters"
        elif isinstance(label, str) and (foreign := NO_LABEL.search(label)):
            shown = foreign[0] if foreign[0] == "'" else ascii(foreign[0])[1:-1]
            yield f"Label contains invalid character: '{shown}'"
        for inner in (state.get("ItemProcessor"), state.get("Iterator"), *(state.get("Branches") or ())):
            yield from _label_faults(inner)


def _update(request: Request) -> Refusal | None:
    if wrong := _arn(request):
        return wrong
    if {"definition", "roleArn", "loggingConfiguration", "tracingConfiguration"} & set(request):
        return None
    settings = "the definition, the role ARN, the LoggingConfiguration, or the TracingConfiguration"
    return Refusal("MissingRequiredParameter", f"Either {settings} must be specified")


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(OPERATIONS, _arn),
    "ListStateMachines": _results,
    "ListExecutions": _list_executions,
    "StartExecution": _start,
    "CreateStateMachine": _create,
    "CreateActivity": _name,
    "UpdateStateMachine": _update,
}
