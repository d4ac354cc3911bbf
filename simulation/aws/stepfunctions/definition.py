"""State machine definitions (ASL), checked and compiled."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from localcloud.base import states_language as language
from simulation.aws.stepfunctions import json_path
from simulation.aws.stepfunctions.checks import (
    check_all_is_last,
    check_fields,
    check_targets,
    invalid,
    not_simulated,
    require,
)
from simulation.aws.stepfunctions.expressions import (
    Bindings,
    Template,
    compile_value,
    is_expression,
    source_of,
)

INVOKE = "arn:aws:states:::lambda:invoke"
CALLBACK = f"{INVOKE}.waitForTaskToken"
FUNCTION = "arn:aws:lambda:"
MACHINE_FIELDS = frozenset({"Comment", "QueryLanguage", "StartAt", "States", "TimeoutSeconds", "Version"})
CONTINUING = frozenset({"Assign", "Output", "Next", "End"})
FIELDS: Mapping[str, frozenset[str]] = {
    "Task": CONTINUING | {"Resource", "Arguments", "TimeoutSeconds", "HeartbeatSeconds", "Retry", "Catch"},
    "Choice": frozenset({"Choices", "Default", "Assign", "Output"}),
    "Wait": CONTINUING | {"Seconds", "Timestamp"},
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
    wraps: bool = False
    """True if the result is the whole answer of Invoke, with its payload."""
    function: Template | None = None
    payload: Template | None = None
    timeout: Template | None = None
    heartbeat: Template | None = None
    retriers: tuple[Retrier, ...] = ()
    catchers: tuple[Catcher, ...] = ()
    rules: tuple[Rule, ...] = ()
    has_default: bool = False
    seconds: Template | None = None
    until: Template | None = None
    """The end of a Wait, as a time."""
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
    check_fields(machine, MACHINE_FIELDS, "")
    states = machine.get("States")
    if not isinstance(states, dict) or not states:
        invalid("SCHEMA_VALIDATION_FAILED: These fields are required: [States] at /")
    language = machine.get("QueryLanguage", "JSONPath")
    compiled_states = {
        name: _state(name, state, state.get("QueryLanguage", language)) for name, state in states.items()
    }
    check_targets(str(machine.get("StartAt")), states)
    limit = machine.get("TimeoutSeconds")
    if limit is not None and (not isinstance(limit, int) or limit <= 0):
        invalid("SCHEMA_VALIDATION_FAILED: Expected value of type positive Integer at /TimeoutSeconds")
    return Definition(str(machine["StartAt"]), compiled_states, limit)


def _state(name: str, state: Mapping[str, Any], language: str) -> State:
    where, kind = f"/States/{name}", str(state.get("Type"))
    if kind in AWS_HAS_TOO:
        not_simulated(f"a state of type {kind}")
    if kind not in FIELDS:
        invalid(f"SCHEMA_VALIDATION_FAILED: Value is not a valid type of state at {where}/Type")
    fields = FIELDS if language == "JSONata" else json_path.FIELDS
    check_fields(state, fields[kind] | {"Type", "Comment", "QueryLanguage"}, where)
    if "Next" in FIELDS[kind] and ("Next" in state) == bool(state.get("End")):
        invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [Next or End] at {where}")
    if language != "JSONata":
        return _state_by_paths(name, state, where)
    match Type(kind):
        case Type.TASK:
            return _task(name, state, where)
        case Type.CHOICE:
            return _choice(name, state, where)
        case Type.WAIT if "Timestamp" in state:
            return State(name, Type.WAIT, _transition(state), until=_moment(state))
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


def _state_by_paths(name: str, state: Mapping[str, Any], where: str) -> State:
    """Compile a state in JSONPath."""
    kind, given = Type(state["Type"]), json_path.effective_input(state)
    transition = _by_paths(state, state, json_path.result(state))
    match kind:
        case Type.TASK:
            return _task_by_paths(name, state, transition, where)
        case Type.CHOICE:
            if not state.get("Choices"):
                invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [Choices] at {where}")
            rules = [
                Rule(json_path.condition(each, given), _by_paths(each, state, given))
                for each in state["Choices"]
            ]
            transition = replace(transition, next=state.get("Default"))
            return State(name, kind, transition, rules=tuple(rules), has_default="Default" in state)
        case Type.WAIT:
            seconds = json_path.number(state, "Seconds", least=0)
            return State(name, kind, transition, seconds=seconds, until=json_path.moment(state))
        case Type.FAIL:
            error, cause = (json_path.text(state, each) for each in ("Error", "Cause"))
            return State(name, kind, Transition(None, None, None), error=error, cause=cause)
        case _:
            return State(name, kind, transition)


def _by_paths(fields: Mapping[str, Any], state: Mapping[str, Any], data: Template) -> Transition:
    """Return the exit of a state in JSONPath; `fields` belong to the state or to a rule."""
    return Transition(json_path.assigned(fields, data), json_path.output(state), fields.get("Next"))


def _task_by_paths(name: str, state: Mapping[str, Any], transition: Transition, where: str) -> State:
    resource = str(state.get("Resource", ""))
    if resource.startswith(FUNCTION):
        function, payload = compile_value(resource, "Resource"), json_path.arguments(state)
    else:
        _check_invoke(resource, state.get("Parameters"), where, {"FunctionName.$", "Payload.$"})
        function, payload = (json_path.parameter(state, each) for each in ("FunctionName", "Payload"))
    catchers = state.get("Catch", [])
    for each in catchers:
        check_fields(each, json_path.CATCHER_FIELDS, f"{where}/Catch")
    check_all_is_last(catchers, f"{where}/Catch")
    return State(
        name,
        Type.TASK,
        transition,
        waits_for_token=resource == CALLBACK,
        wraps=resource == INVOKE,
        function=function,
        payload=payload,
        timeout=json_path.number(state, "TimeoutSeconds", least=1),
        heartbeat=json_path.number(state, "HeartbeatSeconds", least=1),
        retriers=_retriers(state, where),
        catchers=tuple(
            Catcher(
                tuple(each["ErrorEquals"]),
                Transition(
                    json_path.assigned(each, lambda bindings: bindings["states"]["errorOutput"]),
                    json_path.caught(each),
                    each["Next"],
                ),
            )
            for each in catchers
        ),
    )


def _check_invoke(resource: str, given: Any, where: str, more: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments of a call of a function. Raise NotSimulated for any other task."""
    if resource not in (INVOKE, CALLBACK):
        not_simulated(f"the resource {resource!r} at {where}")
    if not isinstance(given, dict) or not set(given) <= {"FunctionName", "Payload", *more}:
        not_simulated(f"a call with other arguments than FunctionName and Payload at {where}")
    return given


def _task(name: str, state: Mapping[str, Any], where: str) -> State:
    resource, arguments = str(state.get("Resource", "")), state.get("Arguments")
    is_callback = resource == CALLBACK
    if resource.startswith(FUNCTION):
        function = compile_value(resource, "Resource")
        payload = compile_value("{% $states.input %}" if arguments is None else arguments, "Arguments")
    else:
        arguments = _check_invoke(resource, arguments, where)
        function = compile_value(arguments["FunctionName"], "Arguments/FunctionName")
        payload = compile_value(arguments.get("Payload"), "Arguments/Payload")
    catchers = state.get("Catch", [])
    check_all_is_last(catchers, f"{where}/Catch")
    return State(
        name,
        Type.TASK,
        _transition(state),
        waits_for_token=is_callback,
        wraps=resource == INVOKE,
        function=function,
        payload=payload,
        timeout=_number(state, "TimeoutSeconds", least=1),
        heartbeat=_number(state, "HeartbeatSeconds", least=1),
        retriers=_retriers(state, where),
        catchers=tuple(_catcher(each, f"{where}/Catch") for each in catchers),
    )


def _retriers(state: Mapping[str, Any], where: str) -> tuple[Retrier, ...]:
    retriers = state.get("Retry", [])
    check_all_is_last(retriers, f"{where}/Retry")
    return tuple(_retrier(each, f"{where}/Retry") for each in retriers)


def _choice(name: str, state: Mapping[str, Any], where: str) -> State:
    if not state.get("Choices"):
        invalid(f"SCHEMA_VALIDATION_FAILED: These fields are required: [Choices] at {where}")
    rules = []
    for rule in state["Choices"]:
        check_fields(rule, RULE_FIELDS, f"{where}/Choices")
        rules.append(Rule(_condition(rule, f"{where}/Choices"), _transition(rule)))
    transition = _transition({**state, "Next": state.get("Default")})
    return State(name, Type.CHOICE, transition, rules=tuple(rules), has_default="Default" in state)


def _catcher(catcher: Mapping[str, Any], where: str) -> Catcher:
    check_fields(catcher, CATCHER_FIELDS, where)
    return Catcher(tuple(catcher["ErrorEquals"]), _transition(catcher))


def _retrier(retrier: Mapping[str, Any], where: str) -> Retrier:
    check_fields(retrier, RETRIER_FIELDS, where)
    jitter = retrier.get("JitterStrategy", "NONE")
    if jitter not in ("FULL", "NONE"):
        invalid(f"SCHEMA_VALIDATION_FAILED: Value is not a valid JitterStrategy at {where}")
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
        require(fields, name, where)
    template = _given(fields, name)
    if template is None:
        return None
    source = source_of(fields[name])
    return lambda bindings: language.whole(name, template(bindings), least=least, source=source)


def _moment(fields: Mapping[str, Any]) -> Template:
    """Return a time."""
    template, source = _given(fields, "Timestamp"), source_of(fields["Timestamp"])
    assert template is not None
    return lambda bindings: language.moment("Timestamp", template(bindings), source)


def _condition(rule: Mapping[str, Any], where: str) -> Template:
    require(rule, "Condition", where)
    if not is_expression(rule["Condition"]) and not isinstance(rule["Condition"], bool):
        not_simulated(f"a Condition that is not an expression at {where}")
    condition = _typed(rule, "Condition", "boolean")
    assert condition is not None
    return condition
