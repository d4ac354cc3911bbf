"""Evaluation of JSONata fields with type checks and AWS's error reports."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jsonata.jsonata import Jsonata
from jsonata.utils import Utils
from ministack.services import stepfunctions as stock

from localcloud.base import jsonata_functions
from localcloud.base import states_language as language
from localcloud.base.states_language import QUERY_ERROR, RUNTIME, QueryError
from localcloud.base.states_paths import PathError, resolve
from localcloud.base.states_queries import CALL, Scope, not_found, put_result
from localcloud.patches import MINISTACK
from localcloud.services.stepfunctions.errors import execution_error

State = Mapping[str, Any]
Ctx = dict[str, Any]


def install() -> None:
    """Replace ministack's evaluation of fields."""
    MINISTACK.replace("services.stepfunctions:_apply_jsonata_arguments", arguments)
    MINISTACK.replace("services.stepfunctions:_apply_jsonata_output", output)
    MINISTACK.replace("services.stepfunctions:_apply_state_assign", assign)
    MINISTACK.replace("services.stepfunctions:_jsonata_state_field", field)
    MINISTACK.replace("services.stepfunctions:_evaluate_jsonata_choice_rule", condition)
    MINISTACK.replace("services.stepfunctions:_execute_wait", wait)
    MINISTACK.replace("services.stepfunctions:_fail_state_field", fail_field)
    MINISTACK.replace("services.stepfunctions:_resolve_path", resolve_path)
    MINISTACK.replace("services.stepfunctions:_resolve_path_or_ctx", resolve_path_or_context)
    MINISTACK.replace("services.stepfunctions:_resolve_params_obj", template)
    MINISTACK.replace("services.stepfunctions:_evaluate_rule", rule_holds)
    MINISTACK.replace("services.stepfunctions:_evaluate_intrinsic", intrinsic)
    MINISTACK.replace("services.stepfunctions:_apply_result_path_raw", put_result)


def arguments(state: State, raw_input: Any, ctx: Ctx | None = None) -> Any:
    """Return the evaluated `Arguments` of a Task; without them, its input."""
    if "Arguments" not in state:
        return raw_input
    return _evaluate(state["Arguments"], "Arguments", raw_input, ctx or {})


def output(
    state: State,
    raw_input: Any,
    ctx: Ctx | None = None,
    result: Any = None,
    error_output: Any = None,
    default: Any = None,
) -> Any:
    """Return the evaluated `Output` of a state, a choice or a catcher."""
    if "Output" not in state:
        return default
    return _evaluate(state["Output"], "Output", raw_input, ctx or {}, result, error_output)


def assign(
    state: State, raw_input: Any, ctx: Ctx | None, result: Any = None, error_output: Any = None
) -> None:
    """Set variables. All expressions use the values from before the state, and all variables change together."""
    assigned = state.get("Assign")
    if ctx is None or not isinstance(assigned, dict) or stock._state_query_language(state, ctx) != "JSONata":
        return
    new = _evaluate(assigned, "Assign", raw_input, ctx, result, error_output)
    ctx.setdefault("variables", {}).update(new)


def field(state: State, name: str, expected: str, raw_input: Any, ctx: Ctx) -> Any:
    """Return a field's evaluated value. AWS fails the state if it has another type."""
    value = _evaluate(state[name], name, raw_input, ctx)
    with_source = partial(language.require_type, name, expected, value, _source(state[name]))
    return _held(ctx, with_source) or value


def whole(state: State, name: str, raw_input: Any, ctx: Ctx, *, least: int) -> int:
    """Return a field's whole number."""
    value, source = _evaluate(state[name], name, raw_input, ctx), _source(state[name])
    return int(_held(ctx, partial(language.whole, name, value, least=least, source=source)))


def condition(rule: State, raw_input: Any, ctx: Ctx) -> bool:
    """Return the value of a choice's `Condition`, which must be true or false."""
    given = rule.get("Condition")
    value = _evaluate(given, "Condition", raw_input, ctx)
    _held(ctx, partial(language.require_type, "Condition", "boolean", value, _source(given)))
    return bool(value)


def wait(state: State, raw_input: Any, ctx: Ctx | None = None) -> tuple[Any, str | None]:
    """Carry out a Wait state."""
    ctx = ctx or {}
    following = stock._next_or_end(state)
    if stock._state_query_language(state, ctx) != "JSONata":
        effective = stock._apply_input_path(state, raw_input, ctx)
        _sleep_by_paths(state, effective, ctx)
        return stock._apply_output_path(state, effective, ctx), following
    if "Seconds" in state:
        stock._scaled_sleep(whole(state, "Seconds", raw_input, ctx, least=0))
    elif "Timestamp" in state:
        value, source = (
            _evaluate(state["Timestamp"], "Timestamp", raw_input, ctx),
            _source(state["Timestamp"]),
        )
        moment = _held(ctx, partial(language.moment, "Timestamp", value, source))
        stock._sleep_until(moment.isoformat())
    result = output(state, raw_input, ctx, default=raw_input)
    assign(state, raw_input, ctx)
    return result, following


def _sleep_by_paths(state: State, effective: Any, ctx: Ctx) -> None:
    if "SecondsPath" in state:
        path = state["SecondsPath"]
        seconds = stock._resolve_path_or_ctx(path, effective, ctx)
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            raise execution_error(
                RUNTIME, f"The SecondsPath parameter cannot be parsed as a long value: {path} == {seconds}"
            )
        if seconds < 0:
            raise execution_error(
                RUNTIME, f"The SecondsPath parameter references a negative value: {path} == {seconds}"
            )
        stock._scaled_sleep(seconds)
    elif "TimestampPath" in state:
        path = state["TimestampPath"]
        text = stock._resolve_path_or_ctx(path, effective, ctx)
        moment = language.time_of(text) if isinstance(text, str) else None
        if moment is None:
            raise execution_error(
                RUNTIME,
                "The TimestampPath parameter does not reference a valid ISO-8601 extended offset date-time format "
                f"string: {path} == {text}",
            )
        stock._sleep_until(moment.isoformat())
    elif "Seconds" in state:
        stock._scaled_sleep(state["Seconds"])
    else:
        stock._sleep_until(state["Timestamp"])


def fail_field(state: State, name: str, default: Any, raw_input: Any, ctx: Ctx) -> str | None:
    """Return the `Error` or the `Cause` of a Fail state; None if it has none."""
    if name in state and stock._state_query_language(state, ctx) == "JSONata":
        return str(field(state, name, "string", raw_input, ctx))
    path = state.get(f"{name}Path")
    if path is None:
        return state.get(name)
    try:
        scope = _scope(raw_input, ctx)
        value = scope.call(path) if path.startswith(CALL) else scope.find(path)
    except PathError as error:
        raise execution_error(RUNTIME, not_found(path, f"{name}Path", raw_input)) from error
    if not isinstance(value, str):
        text = f"The value referenced by {name}Path must be a string, but the value was: {json.dumps(value)}"
        raise execution_error(RUNTIME, text)
    return value


def _evaluate(
    value: Any, location: str, raw_input: Any, ctx: Ctx, result: Any = None, error_output: Any = None
) -> Any:
    match value:
        case str() if value.startswith("{%") and value.endswith("%}"):
            return _one(_source(value), location, raw_input, ctx, result, error_output)
        case dict():
            return {
                key: _evaluate(each, f"{location}/{key}", raw_input, ctx, result, error_output)
                for key, each in value.items()
            }
        case list():
            return [
                _evaluate(each, f"{location}[{number}]", raw_input, ctx, result, error_output)
                for number, each in enumerate(value)
            ]
        case _:
            return value


def _one(source: str, location: str, raw_input: Any, ctx: Ctx, result: Any, error_output: Any) -> Any:
    states = {"input": raw_input, "result": result, "errorOutput": error_output, "context": context_of(ctx)}
    variables = ctx.get("variables", {}).items()
    bindings = {name: Utils.NULL_VALUE if value is None else value for name, value in variables}
    bindings["states"] = states
    try:
        parsed = Jsonata.jsonata(source, timeout=1000)
        stock._register_sfn_jsonata_functions(parsed)
        jsonata_functions.register(parsed)
        value = parsed.evaluate(None, bindings)
    except Exception as error:  # the library raises arbitrary exceptions
        code = getattr(error, "error", None)
        raise _failure(ctx, language.threw(source, location, code, str(error))) from error
    if value is None and not stock._jsonata_result_defined(source, bindings):
        raise _failure(ctx, language.undefined_error(source, location))
    if not isinstance(value, dict | list | str | int | float | None):
        raise _failure(ctx, language.unsupported_error(source, location))
    return value


def context_of(ctx: Ctx) -> dict[str, Any]:
    """Return the context object for expressions. Only tasks have a retry count."""
    execution = stock._executions.get(ctx["Execution"]["Id"]) or {}
    machine = stock._state_machines.get(execution.get("stateMachineArn")) or {}
    own = {"RoleArn": machine.get("roleArn"), "RedriveCount": 0}
    state = {key: value for key, value in ctx["State"].items() if key != "RetryCount" or ctx.get("is_task")}
    others: dict[str, Any] = {key: ctx[key] for key in ("Map", "Task") if key in ctx}
    return {
        "Execution": {**ctx["Execution"], **own},
        "State": state,
        "StateMachine": ctx["StateMachine"],
        **others,
    }


def resolve_path(path: str, data: Any) -> Any:
    """Return the value of a JSONPath in an input. A missing value fails the execution."""
    return _found(lambda: resolve(path, data) if path else data)


def _scope(data: Any, ctx: Ctx | None) -> Scope:
    return Scope(data, lambda: context_of(ctx or {}), (ctx or {}).get("variables", {}))


def _found(find: Callable[[], Any]) -> Any:
    """Return the value. A path without one fails the execution."""
    try:
        return find()
    except PathError as error:
        raise execution_error(RUNTIME, str(error)) from error


def resolve_path_or_context(path: str, data: Any, ctx: Ctx | None = None) -> Any:
    """Return the value of a JSONPath in the input, a variable (`$name`) or the context object (`$$`)."""
    return _found(lambda: _scope(data, ctx).find(path))


def template(given: Any, data: Any, ctx: Ctx | None = None) -> Any:
    """Return `Parameters` or a selector with its paths and intrinsic functions evaluated."""
    return _found(lambda: _scope(data, ctx).fill(given))


def intrinsic(text: str, data: Any, ctx: Ctx) -> Any:
    """Return the value of an intrinsic function."""
    return _found(lambda: _scope(data, ctx).call(text))


def rule_holds(rule: State, data: Any, ctx: Ctx | None = None) -> bool:
    """Return True if the rule of a Choice in JSONPath holds."""
    return bool(_found(lambda: _scope(data, ctx).holds(rule)))


def _held(ctx: Ctx, check: Callable[[], Any]) -> Any:
    try:
        return check()
    except QueryError as error:
        raise _failure(ctx, error) from error


def _failure(ctx: Ctx, error: QueryError) -> Any:
    """Add the failure to the history and return the exception that fails the state."""
    execution, state = stock._executions.get(ctx["Execution"]["Id"]), str(ctx["State"]["Name"])
    cause = locate_cause(execution, state, QUERY_ERROR, str(error))
    details = {"cause": cause, "error": QUERY_ERROR, "location": error.location, "state": state}
    stock._add_event(execution, "EvaluationFailed", {"evaluationFailedEventDetails": details})
    return execution_error(QUERY_ERROR, cause)


def locate_cause(execution: Mapping[str, Any], state: str, error: str, cause: str) -> str:
    """Return the cause, preceded by the execution's state."""
    entered = next(
        (
            event["id"]
            for event in reversed(execution["events"])
            if (event.get("stateEnteredEventDetails") or {}).get("name") == state
        ),
        0,
    )
    return language.locate_cause(error, cause, state if entered else "", entered)


def _source(value: Any) -> str:
    """Return the text of an expression without its delimiters."""
    return value[2:-2].strip() if isinstance(value, str) else ""
