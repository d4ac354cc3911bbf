"""Step Functions with AWS's behavior, on ministack's interpreter.

This package contains the execution of tasks (`tasks`: retries, task tokens, timeouts, heartbeats), answers to task
tokens (`callbacks`), the role of an execution (`authority`), its history (`history`) and log (`logs`), events after a
restart (`restart`), validation of definitions (`definition`), and error names (`errors`). ministack runs everything
between tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ministack.core.responses import error_response_json, json_response, now_iso
from ministack.services import stepfunctions as stock

from localcloud.base import states_language as language
from localcloud.base.context import Context
from localcloud.patches import MINISTACK
from localcloud.services.stepfunctions import (
    authority,
    callbacks,
    definition,
    errors,
    evaluation,
    history,
    logs,
    restart,
    tasks,
    variables,
)

NAME = re.compile(r"""[^\s<>{}\[\]?*"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f]+""")
"""Valid names of executions."""


def install(context: Context) -> None:
    """Install the parts into ministack's interpreter."""
    errors.install()
    history.install()
    logs.install()
    restart.install(context)
    callbacks.install()
    definition.install()
    authority.install()
    MINISTACK.replace("services.stepfunctions:_execute_task", tasks.execute_task)
    evaluation.install()
    variables.install()
    _keep_aborted_executions()
    _evaluate_output_of_succeed()
    _validate_starts()
    _hide_output_of_failure()


def _keep_aborted_executions() -> None:
    """Keep an aborted execution aborted, and end its waiting tasks."""
    stock_stop = MINISTACK.stock("services.stepfunctions:_stop_execution")

    def fail_execution(execution: dict[str, Any], error: str | None, cause: str | None) -> None:
        if execution["status"] != "RUNNING":
            return
        if error and cause:
            cause = evaluation.locate_cause(execution, _state_of(execution), error, cause)
        known = {name: value for name, value in (("error", error), ("cause", cause)) if value}
        execution.update(status="FAILED", stopDate=now_iso(), **known)
        stock._add_event(execution, "ExecutionFailed", {"executionFailedEventDetails": known})
        stock._emit_execution_status_event(execution)

    def stop_execution(data: dict[str, Any]) -> Any:
        answer = stock_stop(data)
        if answer[0] == 200:
            callbacks.abandon(str(data.get("executionArn")))
        return answer

    MINISTACK.replace("services.stepfunctions:_fail_execution", fail_execution)
    MINISTACK.replace("services.stepfunctions:_stop_execution", stop_execution)


def _state_of(execution: Mapping[str, Any]) -> str:
    """Return the state that the execution entered last."""
    entered = (event.get("stateEnteredEventDetails") for event in reversed(execution["events"]))
    return next((str(details["name"]) for details in entered if details), "")


def _evaluate_output_of_succeed() -> None:
    """Evaluate the `Output` of a JSONata Succeed state, which ministack ignores."""
    stock_output = MINISTACK.stock("services.stepfunctions:_apply_output_path")

    def apply_output_path(state: Mapping[str, Any], data: Any, ctx: dict[str, Any] | None = None) -> Any:
        is_jsonata = stock._state_query_language(state, ctx) == "JSONata"
        if state.get("Type") == "Succeed" and "Output" in state and is_jsonata:
            return stock._apply_jsonata_output(state, data, ctx, result=data, default=data)
        return stock_output(state, data, ctx)

    MINISTACK.replace("services.stepfunctions:_apply_output_path", apply_output_path)


def _validate_starts() -> None:
    """Validate input and name. A repeated name and input return the running execution."""
    stock_start = MINISTACK.stock("services.stepfunctions:_start_execution")

    def start_execution(data: dict[str, Any]) -> Any:
        given = data.get("input", "{}")
        if (fault := language.json_fault(given)) is not None:
            return error_response_json(
                "InvalidExecutionInput", f"Invalid State Machine Execution Input: '{fault}'", 400
            )
        name = data.get("name")
        if name is not None and not (len(name) <= 80 and NAME.fullmatch(name)):
            return error_response_json("InvalidName", f"Invalid Name: '{name}'", 400)
        answer = stock_start(data)
        if answer[0] == 200:
            started = stock._executions[json.loads(answer[2])["executionArn"]]
            logs.log(started, started["events"][0])
            history.count("ExecutionsStarted", started)
            return answer
        taken = re.search(r"Execution already exists: '([^']+)'", json.loads(answer[2]).get("message", ""))
        known = stock._executions.get(taken[1]) if taken else None
        if known is not None and known["status"] == "RUNNING" and known["input"] == given:
            return json_response({"executionArn": known["executionArn"], "startDate": known["startDate"]})
        return answer

    MINISTACK.replace("services.stepfunctions:_start_execution", start_execution)


def _hide_output_of_failure() -> None:
    """Show `output` only for a succeeded execution, and `error` and `cause` for a failed one."""
    stock_describe = MINISTACK.stock("services.stepfunctions:_describe_execution")

    def describe_execution(data: dict[str, Any]) -> Any:
        status, headers, body = stock_describe(data)
        shown = json.loads(body)
        if shown.get("status") not in (None, "SUCCEEDED"):
            shown = {key: value for key, value in shown.items() if key not in ("output", "outputDetails")}
        return status, headers, json.dumps(shown).encode()

    MINISTACK.replace("services.stepfunctions:_describe_execution", describe_execution)
