"""Fields of states in JSONPath, compiled to the templates that states in JSONata have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jsonata.utils import Utils

from localcloud.base.states_language import RUNTIME, time_of
from localcloud.base.states_paths import PathError
from localcloud.base.states_queries import CALL, Scope, not_found, put_result
from simulation.aws.stepfunctions.errors import StateError
from simulation.aws.stepfunctions.expressions import Bindings, Template

CONTINUING = frozenset({"Assign", "InputPath", "OutputPath", "Next", "End"})
FIELDS: Mapping[str, frozenset[str]] = {
    "Task": CONTINUING
    | {"Resource", "Parameters", "ResultSelector", "ResultPath", "Retry", "Catch"}
    | {"TimeoutSeconds", "TimeoutSecondsPath", "HeartbeatSeconds", "HeartbeatSecondsPath"},
    "Choice": frozenset({"Choices", "Default", "Assign", "InputPath", "OutputPath"}),
    "Wait": CONTINUING | {"Seconds", "SecondsPath", "Timestamp", "TimestampPath"},
    "Pass": CONTINUING | {"Parameters", "Result", "ResultPath"},
    "Succeed": frozenset({"InputPath", "OutputPath"}),
    "Fail": frozenset({"Error", "ErrorPath", "Cause", "CausePath"}),
}
CATCHER_FIELDS = frozenset({"ErrorEquals", "Next", "ResultPath", "Assign", "Comment"})
Value = Callable[[Scope, Bindings], Any]
State = Mapping[str, Any]


def effective_input(state: State) -> Template:
    """Return the template of the input after `InputPath`."""
    path = state.get("InputPath", "$")

    def value(bindings: Bindings) -> Any:
        given = bindings["states"]["input"]
        return {} if path is None else _scope(bindings, given).find(path)

    return _held(value)


def arguments(state: State) -> Template:
    """Return the template of the input after `InputPath` and `Parameters`."""
    given, parameters = effective_input(state), state.get("Parameters")

    def value(bindings: Bindings) -> Any:
        data = given(bindings)
        return _scope(bindings, data).fill(parameters) if parameters else data

    return _held(value)


def parameter(state: State, name: str) -> Template:
    """Return the template of one value of `Parameters`."""
    whole = arguments(state)
    return lambda bindings: whole(bindings).get(name)


def result(state: State) -> Template:
    """Return the template of a state's result: of a task its answer, of a Pass its `Result` or its arguments, else the
    effective input."""
    if state["Type"] == "Task":
        return lambda bindings: bindings["states"]["result"]
    if state["Type"] != "Pass":
        return effective_input(state)
    if "Result" in state:
        return lambda _: state["Result"]
    return arguments(state)


def output(state: State) -> Template:
    """Return the template of the output, after `ResultSelector`, `ResultPath` and `OutputPath`."""
    own, selector, path = result(state), state.get("ResultSelector"), state.get("OutputPath", "$")
    puts = state["Type"] in ("Task", "Pass")

    def value(bindings: Bindings) -> Any:
        found, given = own(bindings), bindings["states"]["input"]
        if selector:
            found = _scope(bindings, found).fill(selector)
        if puts:
            found = put_result(state.get("ResultPath", "$"), given, found)
        return {} if path is None else _scope(bindings, found).find(path)

    return _held(value)


def caught(catcher: State) -> Template:
    """Return the template of the output of a catcher."""
    path = catcher.get("ResultPath", "$")
    return lambda bindings: put_result(path, bindings["states"]["input"], bindings["states"]["errorOutput"])


def assigned(fields: State, data: Template) -> Template | None:
    """Return the template of the variables, whose `$` is `data`."""
    given = fields.get("Assign")
    if given is None:
        return None
    return _held(lambda bindings: _scope(bindings, data(bindings)).fill(given))


def condition(rule: State, data: Template) -> Template:
    """Return the template of a rule of a Choice."""
    return _held(lambda bindings: _scope(bindings, data(bindings)).holds(rule))


def number(state: State, name: str, *, least: int) -> Template | None:
    """Return the template of a number, or of the path to one."""
    if f"{name}Path" not in state:
        plain = state.get(name)
        return None if plain is None else lambda _: plain
    given, path = effective_input(state), state[f"{name}Path"]

    def value(bindings: Bindings) -> Any:
        seconds, field = _scope(bindings, given(bindings)).find(path), f"The {name}Path parameter"
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            raise PathError(f"{field} cannot be parsed as a long value: {path} == {seconds}")
        if seconds < least:
            raise PathError(f"{field} references a negative value: {path} == {seconds}")
        return seconds

    return _held(value)


def moment(state: State) -> Template | None:
    """Return the template of the end of a Wait; None if it has none."""
    if "TimestampPath" not in state:
        plain = time_of(str(state["Timestamp"])) if "Timestamp" in state else None
        return None if plain is None else lambda _: plain
    given, path = effective_input(state), state["TimestampPath"]

    def value(bindings: Bindings) -> datetime:
        text = _scope(bindings, given(bindings)).find(path)
        found = time_of(text) if isinstance(text, str) else None
        if found is None:
            raise PathError(
                "The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format "
                f"string: {path} == {text}"
            )
        return found

    return _held(value)


def text(state: State, name: str) -> Template | None:
    """Return the template of the error or the cause of a Fail."""
    path = state.get(f"{name}Path")
    if path is None:
        plain = state.get(name)
        return None if plain is None else lambda _: plain

    def value(bindings: Bindings) -> Any:
        given = bindings["states"]["input"]
        scope = _scope(bindings, given)
        try:
            found = scope.call(path) if path.startswith(CALL) else scope.find(path)
        except PathError as error:
            raise PathError(not_found(path, f"{name}Path", given)) from error
        if not isinstance(found, str):
            value = json.dumps(found)
            raise PathError(
                f"The value referenced by {name}Path must be a string, but the value was: {value}"
            )
        return found

    return _held(value)


def _scope(bindings: Bindings, data: Any) -> Scope:
    variables = {name: None if each is Utils.NULL_VALUE else each for name, each in bindings.items()}
    return Scope(data, lambda: bindings["states"]["context"], variables)


def _held(value: Template) -> Template:
    """Return the template with AWS's error for a path that leads to no value."""

    def held(bindings: Bindings) -> Any:
        try:
            return value(bindings)
        except PathError as error:
            raise StateError(RUNTIME, str(error)) from error

    return held
