"""`Assign` of states in JSONPath, which ministack evaluates in JSONata only, and the limit of a Pass state's output."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any

from ministack.services import stepfunctions as stock

from localcloud.base import states_language as language
from localcloud.patches import MINISTACK
from localcloud.services.stepfunctions.errors import execution_error
from localcloud.services.stepfunctions.evaluation import Ctx, State, template

EXECUTE = "services.stepfunctions:_execute_pass"
SELECTOR = "services.stepfunctions:_apply_result_selector"
OUTPUT = "services.stepfunctions:_apply_output_path"
RULE = "services.stepfunctions:_evaluate_rule"
CATCHER = "services.stepfunctions:_apply_catcher"
_result: contextvars.ContextVar[tuple[int, Any]] = contextvars.ContextVar("sfn_result", default=(0, None))
_rule: contextvars.ContextVar[State | None] = contextvars.ContextVar("sfn_rule", default=None)


def install() -> None:
    """Assign after the output, which sees the old values. `$` is the result of a Task or Pass, else the input."""
    stock_selector, stock_output = MINISTACK.stock(SELECTOR), MINISTACK.stock(OUTPUT)
    stock_pass = MINISTACK.stock(EXECUTE)
    stock_rule, stock_catcher = MINISTACK.stock(RULE), MINISTACK.stock(CATCHER)

    def select(state: State, data: Any) -> Any:
        _result.set((id(state), data))
        return stock_selector(state, data)

    def hold(rule: State, data: Any, ctx: Ctx | None = None) -> bool:
        holds = bool(stock_rule(rule, data, ctx))
        if "Next" in rule:
            _rule.set(rule if holds else None)
        return holds

    def output(state: State, data: Any, ctx: Ctx | None = None) -> Any:
        found = stock_output(state, data, ctx)
        owner, result = _result.get()
        if stock._state_query_language(state, ctx) != "JSONata":
            source = (_rule.get() or state) if state.get("Type") == "Choice" else state
            _assign(source, result if owner == id(state) else data, ctx)
        return found

    def catch(catcher: State, raw_input: Any, ctx: Ctx, language: str, error_output: Any) -> Any:
        found = stock_catcher(catcher, raw_input, ctx, language, error_output)
        if language != "JSONata":
            _assign(catcher, error_output, ctx)
        return found

    def execute_pass(state: State, raw_input: Any, ctx: Ctx | None = None) -> Any:
        found, following = stock_pass(state, raw_input, ctx)
        if too_large := language.excess(found, ((ctx or {}).get("State") or {}).get("Name", "")):
            raise execution_error(language.TOO_LARGE, too_large)
        return found, following

    MINISTACK.replace(EXECUTE, execute_pass)
    MINISTACK.replace(SELECTOR, select)
    MINISTACK.replace(OUTPUT, output)
    MINISTACK.replace(RULE, hold)
    MINISTACK.replace(CATCHER, catch)


def _assign(source: State, data: Any, ctx: Ctx | None) -> None:
    assigned = source.get("Assign")
    if ctx is None or not isinstance(assigned, Mapping):
        return
    ctx.setdefault("variables", {}).update(template(assigned, data, ctx))
