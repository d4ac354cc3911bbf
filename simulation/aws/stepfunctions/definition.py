"""State machine definitions (ASL), checked and compiled, with the part of the language that the yard uses."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from localcloud.base import states_language as language
from localcloud.base.states_language import ALL
from simulation.aws.endpoint.api import ServiceError
from simulation.aws.stepfunctions.expressions import (
    Bindings,
    Template,
    compile_value,
    is_expression,
    source_of,
)

CALLBACK = "arn:aws:states:::lambda:invoke.waitForTaskToken"
FUNCTION = "arn:aws:lambda:"
MACHINE_FIELDS = frozenset({"Comment", "QueryLanguage", "StartAt", "States", "TimeoutSeconds", "Version"})
CONTINUING = frozenset({"Assign", "Output", "Next", "End"})
FIELDS: Mapping[str, frozenset[str]] = {
    "Task": CONTINUING | {"Resource", "Arguments", "TimeoutSeconds", "HeartbeatSeconds", "Retry", "Catch"},
    "Choice": frozenset({"Choices", "Default", "Assign", "Output"}),
    "Wait": CONTINUING | {"Seconds"},
    "Pass": CONTINUING,
    "Succeed": frozenset({"Output"}),
    "Fail": frozenset({"Error", "Cause"}),
}
RULE_FIELDS = frozenset({"Condition", "Next", "Assign", "Output", "Comment"})
CATCHER_FIELDS = frozenset({"ErrorEquals", "Next", "Assign", "Output", "Comment"})
RETRIER_FIELDS = frozenset(
    {
        "ErrorEquals",
        "IntervalSeconds",
        "MaxAttempts",
        "BackoffRate",
        "MaxDelaySeconds",
        "JitterStrategy",
        "Comment",
    }
)
AWS_HAS_TOO = frozenset({"Parallel", "Map"})


@dataclass(frozen=True)
class Machine:
    """A state machine of a template."""

    arn: str
    name: str
    definition: Mapping[str, Any]
    role: str


class Type(StrEnum):
    TASK = "Task"
    CHOICE = "Choice"
    WAIT = "Wait"
    PASS = "Pass"  # noqa: S105 - a type of state
    SUCCEED = "Succeed"
    FAIL = "Fail"


@dataclass(frozen=True)
class Transition:
    """The exit of a state: its assignments, its output and the next state (None: the end)."""

    assign: Template | None
    output: Template | None
    next: str | None


@dataclass(frozen=True)
class Rule:
    condition: Template
    transition: Transition


@dataclass(frozen=True)
class Catcher:
    errors: tuple[str, ...]
    transition: Transition


@dataclass(frozen=True)
class Retrier:
    errors: tuple[str, ...]
    interval: float
    most: int
    backoff: float
    max_delay: float | None
    jitter: bool

    def pause(self, already: int) -> float:
        """Return the pause in seconds, without jitter, after this many retries."""
        return language.pause(self.interval, self.backoff, self.max_delay, already)


@dataclass(frozen=True)
class State:
    """A state. The fields depend on its type."""

    name: str
    type: Type
    transition: Transition
    waits_for_token: bool = False
    function: Template | None = None
    payload: Template | None = None
    timeout: Template | None = None
    heartbeat: Template | None = None
    retriers: tuple[Retrier, ...] = ()
    catchers: tuple[Catcher, ...] = ()
    rules: tuple[Rule, ...] = ()
    has_default: bool = False
    seconds: Template | None = None
    error: Template | None = None
    cause: Template | None = None


@dataclass(frozen=True)
class Definition:
    start: str
    states: Mapping[str, State]
    timeout: float | None

    @staticmethod
    def of(definition: Mapping[str, Any]) -> Definition:
        """Compile a definition, once for each text. Raises ServiceError: InvalidDefinition as AWS, or NotSimulated."""
        return _compile(json.dumps(definition))


@functools.cache
def _compile(text: str) -> Definition:
    machine = json.loads(text)
    _check_fields(machine, MACHINE_FIELDS, "")
    states = machine.get("States")
    if not isinstance(states, dict) or not states:
        _invalid("SCHEMA_VALIDATION_FAILED: These fields are required: [States] at /")
    language = machine.get("QueryLanguage", "JSONPath")
    if any(state.get("QueryLanguage", language) != "JSONata" for state in states.values()):
        _not_simulated("a state in JSONPath")
    compiled_states = {name: _state(name, state) for name, state in states.items()}
    _check_targets(str(machine.get("StartAt")), states)
    limit = machine.get("TimeoutSeconds")
    if limit is not None and (not isinstance(limit, int) or limit <= 0):
        _invalid("SCHEMA_VALIDATION_FAILED: Expected value of type positive Integer at /TimeoutSeconds")
    return Definition(str(machine["StartAt"]), compiled_states, limit)


def _state(name: str, state: Mapping[str, Any]) -> State:
    where, kind = f"/States/{name}", str(state.get("Type"))
    if kind in AWS_HAS_TOO:
        _not_simulated(f"a state of type {kind}")
    if kind not in FIELDS:
        _invalid(f"SCHEMA_VALIDATION_FAILED: Value is not a valid type of state at {where}/Type")
    _check_fields(state, FIELDS[kind] | {"Type", "Comment", "QueryLanguage"}, where)
    if "Next" in FIELDS[kind] and ("Next" in state) == bool(state.get("End")):
        _invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [Next or End] at {where}")
    match Type(kind):
        case Type.TASK:
            return _task(name, state, where)
        case Type.CHOICE:
            return _choice(name, state, where)
        case Type.WAIT:
            return State(
                name, Type.WAIT, _transition(state), seconds=_number(state, "Seconds", least=0, where=where)
            )
        case Type.FAIL:
            return State(
                name,
                Type.FAIL,
                _transition({}),
                error=_typed(state, "Error", "string"),
                cause=_typed(state, "Cause", "string"),
            )
        case other:
            return State(name, other, _transition(state))


def _task(name: str, state: Mapping[str, Any], where: str) -> State:
    resource, arguments = str(state.get("Resource", "")), state.get("Arguments")
    is_callback = resource == CALLBACK
    if is_callback:
        if not isinstance(arguments, dict) or set(arguments) != {"FunctionName", "Payload"}:
            _not_simulated(f"Arguments other than FunctionName and Payload at {where}")
        function = compile_value(arguments["FunctionName"], "Arguments/FunctionName")
        payload = compile_value(arguments["Payload"], "Arguments/Payload")
    elif resource.startswith(FUNCTION):
        function = compile_value(resource, "Resource")
        payload = compile_value("{% $states.input %}" if arguments is None else arguments, "Arguments")
    else:
        _not_simulated(f"the resource {resource!r} at {where}")
    catchers = state.get("Catch", [])
    retriers = state.get("Retry", [])
    _check_all_is_last(catchers, f"{where}/Catch")
    _check_all_is_last(retriers, f"{where}/Retry")
    return State(
        name,
        Type.TASK,
        _transition(state),
        waits_for_token=is_callback,
        function=function,
        payload=payload,
        timeout=_number(state, "TimeoutSeconds", least=1),
        heartbeat=_number(state, "HeartbeatSeconds", least=1),
        retriers=tuple(_retrier(each, f"{where}/Retry") for each in retriers),
        catchers=tuple(_catcher(each, f"{where}/Catch") for each in catchers),
    )


def _choice(name: str, state: Mapping[str, Any], where: str) -> State:
    if not state.get("Choices"):
        _invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [Choices] at {where}")
    rules = []
    for rule in state["Choices"]:
        _check_fields(rule, RULE_FIELDS, f"{where}/Choices")
        rules.append(Rule(_condition(rule, f"{where}/Choices"), _transition(rule)))
    transition = _transition({**state, "Next": state.get("Default")})
    return State(name, Type.CHOICE, transition, rules=tuple(rules), has_default="Default" in state)


def _catcher(catcher: Mapping[str, Any], where: str) -> Catcher:
    _check_fields(catcher, CATCHER_FIELDS, where)
    return Catcher(tuple(catcher["ErrorEquals"]), _transition(catcher))


def _retrier(retrier: Mapping[str, Any], where: str) -> Retrier:
    _check_fields(retrier, RETRIER_FIELDS, where)
    jitter = retrier.get("JitterStrategy", "NONE")
    if jitter not in ("FULL", "NONE"):
        _invalid(f"SCHEMA_VALIDATION_FAILED: Value is not a valid JitterStrategy at {where}")
    return Retrier(
        tuple(retrier["ErrorEquals"]),
        interval=float(retrier.get("IntervalSeconds", 1)),
        most=int(retrier.get("MaxAttempts", 3)),
        backoff=float(retrier.get("BackoffRate", 2.0)),
        max_delay=retrier.get("MaxDelaySeconds"),
        jitter=jitter == "FULL",
    )


def _transition(fields: Mapping[str, Any]) -> Transition:
    return Transition(_given(fields, "Assign"), _given(fields, "Output"), fields.get("Next"))


def _given(fields: Mapping[str, Any], name: str) -> Template | None:
    return compile_value(fields[name], name) if name in fields else None


def _typed(fields: Mapping[str, Any], name: str, expected: str) -> Template | None:
    template = _given(fields, name)
    if template is None:
        return None
    source = source_of(fields[name])

    def held(bindings: Bindings) -> Any:
        value = template(bindings)
        language.require_type(name, expected, value, source)
        return value

    return held


def _number(fields: Mapping[str, Any], name: str, *, least: int, where: str | None = None) -> Template | None:
    """Return a whole number. It is required if `where` is given."""
    if where is not None:
        _require(fields, name, where)
    template = _given(fields, name)
    if template is None:
        return None
    source = source_of(fields[name])
    return lambda bindings: language.whole(name, template(bindings), least=least, source=source)


def _condition(rule: Mapping[str, Any], where: str) -> Template:
    _require(rule, "Condition", where)
    if not is_expression(rule["Condition"]):
        _not_simulated(f"a Condition that is not an expression at {where}")
    condition = _typed(rule, "Condition", "boolean")
    assert condition is not None
    return condition


def _require(fields: Mapping[str, Any], name: str, where: str) -> None:
    if name not in fields:
        _invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [{name}] at {where}")


def _check_fields(fields: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for name in fields:
        if name not in known:
            _invalid(f"SCHEMA_VALIDATION_FAILED: Field is not supported (here at least) at {where}/{name}")


def _check_all_is_last(rules: Sequence[Mapping[str, Any]], where: str) -> None:
    for number, rule in enumerate(rules):
        names = rule.get("ErrorEquals")
        if not names:
            _invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [ErrorEquals] at {where}")
        if ALL in names and (len(names) > 1 or number < len(rules) - 1):
            _invalid(
                f"SCHEMA_VALIDATION_FAILED: States.ALL must appear alone, and in the last rule, at {where}"
            )


def _check_targets(start: str, states: Mapping[str, Mapping[str, Any]]) -> None:
    if start not in states:
        _invalid(f"MISSING_TRANSITION_TARGET: Missing 'Next' target: {start} at /StartAt")
    for name, state in states.items():
        for target in _targets(state):
            if target not in states:
                _invalid(f"MISSING_TRANSITION_TARGET: Missing 'Next' target: {target} at /States/{name}")
    reached, ahead = {start}, [start]
    while ahead:
        for target in _targets(states[ahead.pop()]):
            if target not in reached:
                reached.add(target)
                ahead.append(target)
    for name in states:
        if name not in reached:
            _invalid(f'MISSING_TRANSITION_TARGET: State "{name}" is not reachable. at /States/{name}')


def _targets(state: Mapping[str, Any]) -> Iterator[str]:
    rules = [state, *state.get("Choices", []), *state.get("Catch", [])]
    yield from (rule["Next"] for rule in rules if "Next" in rule)
    if "Default" in state:
        yield state["Default"]


def _invalid(fault: str) -> NoReturn:
    raise ServiceError("InvalidDefinition", f"Invalid State Machine Definition: '{fault}'")


def _not_simulated(what: str) -> NoReturn:
    raise ServiceError("NotSimulated", f"the simulator does not model {what}")
