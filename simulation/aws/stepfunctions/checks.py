"""Checks of state machine definitions, with AWS's messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from localcloud.base.states_language import ALL
from simulation.aws.endpoint.api import ServiceError


def require(fields: Mapping[str, Any], name: str, where: str) -> None:
    if name not in fields:
        invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [{name}] at {where}")


def check_fields(fields: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for name in fields:
        if name not in known:
            invalid(f"SCHEMA_VALIDATION_FAILED: Field is not supported (here at least) at {where}/{name}")


def check_all_is_last(rules: Sequence[Mapping[str, Any]], where: str) -> None:
    for number, rule in enumerate(rules):
        names = rule.get("ErrorEquals")
        if not names:
            invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [ErrorEquals] at {where}")
        if ALL in names and (len(names) > 1 or number < len(rules) - 1):
            invalid(
                f"SCHEMA_VALIDATION_FAILED: States.ALL must appear alone, and in the last rule, at {where}"
            )


def check_targets(start: str, states: Mapping[str, Mapping[str, Any]]) -> None:
    if start not in states:
        invalid(f"MISSING_TRANSITION_TARGET: Missing 'Next' target: {start} at /StartAt")
    for name, state in states.items():
        for target in _targets(state):
            if target not in states:
                invalid(f"MISSING_TRANSITION_TARGET: Missing 'Next' target: {target} at /States/{name}")
    reached, ahead = {start}, [start]
    while ahead:
        for target in _targets(states[ahead.pop()]):
            if target not in reached:
                reached.add(target)
                ahead.append(target)
    for name in states:
        if name not in reached:
            invalid(f'MISSING_TRANSITION_TARGET: State "{name}" is not reachable. at /States/{name}')


def _targets(state: Mapping[str, Any]) -> Iterator[str]:
    rules = [state, *state.get("Choices", []), *state.get("Catch", [])]
    yield from (rule["Next"] for rule in rules if "Next" in rule)
    if "Default" in state:
        yield state["Default"]


def invalid(fault: str) -> NoReturn:
    raise ServiceError("InvalidDefinition", f"Invalid State Machine Definition: '{fault}'")


def not_simulated(what: str) -> NoReturn:
    raise ServiceError("NotSimulated", f"the simulator does not model {what}")
