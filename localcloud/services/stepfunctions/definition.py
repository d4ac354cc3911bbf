"""Validation of definitions: their states exist, are reachable, and use one query language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.base.states_language import time_of
from localcloud.patches import MINISTACK

TYPES = {"Task", "Pass", "Choice", "Wait", "Succeed", "Fail", "Parallel", "Map"}
PATH_FIELDS = {"InputPath", "OutputPath", "ResultPath", "ResultSelector", "Parameters", "TimeoutSecondsPath"}
EXPRESSION_FIELDS = {"Arguments", "Output", "Assign"}
INTEGRATION = re.compile(r"arn:[^:]+:states:::(?P<service>[a-z-]+):(?P<action>\w+)([.:].*)?")
TEXT = re.compile(r"'(?:[^'\\]|\\['{}\\])*'")
"""A text in an intrinsic function, with all escapes that Step Functions knows."""
ACTIONS = {
    "dynamodb": ("getItem", "putItem", "updateItem", "deleteItem"),
    "events": ("putEvents",),
    "lambda": ("invoke",),
    "sns": ("publish",),
    "sqs": ("sendMessage",),
    "states": ("startExecution",),
}
"""All actions of the optimized integrations that a yard could use."""
States = Mapping[str, Mapping[str, Any]]


def install() -> None:
    """Refuse an invalid definition at its creation by API or template, as AWS does."""
    stock_jsonata = MINISTACK.stock("services.stepfunctions:_validate_definition_jsonata")
    stock_template = MINISTACK.stock("services.cloudformation.provisioners:_sfn_definition")

    def validate(definition: str) -> str | None:
        fault = next(faults(definition), None)
        return f"Invalid State Machine Definition: '{fault}'" if fault else stock_jsonata(definition)

    def from_template(properties: Mapping[str, Any]) -> str:
        definition: str = stock_template(properties)
        if fault := validate(definition):
            raise ValueError(fault)
        return definition

    MINISTACK.replace("services.stepfunctions:_validate_definition_jsonata", validate)
    MINISTACK.replace("services.cloudformation.provisioners:_sfn_definition", from_template)


def faults(definition: str) -> Iterator[str]:
    """Yield AWS's message for each error: code, description, location."""
    try:
        machine = json.loads(definition)
    except (TypeError, ValueError) as error:
        yield f"INVALID_JSON_DESCRIPTION: {error}"
        return
    if not isinstance(machine, dict):
        yield "INVALID_JSON_DESCRIPTION: the definition is not an object"
        return
    yield from _machine_faults(machine, "", str(machine.get("QueryLanguage", "JSONPath")))


def _machine_faults(machine: Mapping[str, Any], where: str, language: str) -> Iterator[str]:
    states = machine.get("States")
    if not isinstance(states, dict) or not states:
        yield f"SCHEMA_VALIDATION_FAILED: These fields are required: [States] at {where or '/'}"
        return
    start = machine.get("StartAt")
    if start not in states:
        yield f"MISSING_TRANSITION_TARGET: Missing 'Next' target: {start} at {where}/StartAt"
        return
    for name, state in states.items():
        yield from _state_faults(name, state, states, f"{where}/States/{name}", language)
    for name in sorted(set(states) - _reachable(str(start), states)):
        yield f'MISSING_TRANSITION_TARGET: State "{name}" is not reachable. at {where}/States/{name}'


def _state_faults(
    name: str, state: Mapping[str, Any], states: States, where: str, language: str
) -> Iterator[str]:
    kind = state.get("Type")
    if kind not in TYPES:
        known = "[Task, Wait, Pass, Succeed, Fail, Choice, Parallel, Map]"
        yield f"SCHEMA_VALIDATION_FAILED: The field 'Type' should have one of these values: {known} at {where}/Type"
        return
    for target in targets(state):
        if target not in states:
            yield f"MISSING_TRANSITION_TARGET: Missing 'Next' target: {target} at {where}"
    if kind not in {"Choice", "Succeed", "Fail"} and "Next" not in state and not state.get("End"):
        yield f"SCHEMA_VALIDATION_FAILED: These fields are required: [Next or End] at {where}"
    if kind == "Task" and not state.get("Resource"):
        yield f"SCHEMA_VALIDATION_FAILED: These fields are required: [Resource] at {where}"
    elif kind == "Task" and not str(state["Resource"]).startswith("arn:"):
        yield f"SCHEMA_VALIDATION_FAILED: Value is not a valid resource ARN at {where}/Resource"
    elif kind == "Task" and not _is_known(str(state["Resource"])):
        known = "The value is not a valid resource ARN, or the resource is not available in this region."
        what = f"The resource provided {state['Resource']} is not recognized. {known}"
        yield f"SCHEMA_VALIDATION_FAILED: {what} at {where}/Resource"
    if kind == "Wait" and _is_no_time(state.get("Timestamp")):
        yield f"SCHEMA_VALIDATION_FAILED: String does not match RFC3339 timestamp at {where}/Timestamp"
    if kind == "Choice" and not state.get("Choices"):
        yield f"SCHEMA_VALIDATION_FAILED: These fields are required: [Choices] at {where}"
    if kind == "Parallel" and not state.get("Branches"):
        yield f"SCHEMA_VALIDATION_FAILED: Value cannot be empty at {where}/Branches"
    if "Credentials" in state and not {"RoleArn", "RoleArn.$"} & set(state["Credentials"]):
        yield f"SCHEMA_VALIDATION_FAILED: The field 'RoleArn' is required but was missing at {where}/Credentials"
    if any(_is_malformed_call(key, value) for key, value in (state.get("Parameters") or {}).items()):
        field = next(key for key, value in state["Parameters"].items() if _is_malformed_call(key, value))
        valid = "must be a valid JSONPath or a valid intrinsic function call"
        yield f"SCHEMA_VALIDATION_FAILED: The value for the field '{field}' {valid} at {where}/Parameters"
    own = str(state.get("QueryLanguage", language))
    foreign = PATH_FIELDS if own == "JSONata" else EXPRESSION_FIELDS - {"Assign"}
    for field in sorted(foreign & set(state)):
        yield f"SCHEMA_VALIDATION_FAILED: The field '{field}' is not supported with {own} at {where}/{field}"
    for index, branch in enumerate(state.get("Branches") or []):
        yield from _machine_faults(branch, f"{where}/Branches[{index}]", own)
    for inner in ("ItemProcessor", "Iterator"):
        if inner in state:
            yield from _machine_faults(state[inner], f"{where}/{inner}", own)


def _is_known(resource: str) -> bool:
    """Return False for an action that an optimized integration lacks."""
    found = INTEGRATION.fullmatch(resource)
    return found is None or found["action"] in ACTIONS.get(found["service"], (found["action"],))


def _is_malformed_call(field: str, value: Any) -> bool:
    """Return True for an intrinsic function with an unfinished text or an unknown escape."""
    if not field.endswith(".$") or not isinstance(value, str) or not value.startswith("States."):
        return False
    return "'" in TEXT.sub("", value)


def _is_no_time(value: Any) -> bool:
    """Return True for a text that is neither a time nor a JSONata expression."""
    return isinstance(value, str) and not value.startswith("{%") and time_of(value) is None


def targets(state: Mapping[str, Any]) -> list[str]:
    """Return all states that may follow this one."""
    rules = [*(state.get("Choices") or []), *(state.get("Catch") or [])]
    named = [state.get("Next"), state.get("Default"), *(rule.get("Next") for rule in rules)]
    return [str(target) for target in named if target is not None]


def _reachable(start: str, states: States) -> set[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        name = ahead.pop()
        if name in states and name not in seen:
            seen.add(name)
            ahead += targets(states[name])
    return seen
