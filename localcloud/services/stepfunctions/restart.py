"""Executions that ran when the local cloud stopped: they are FAILED, and their events follow later."""

from __future__ import annotations

import logging
import socket
import time
from typing import Any

from ministack.core.responses import request_scope
from ministack.services import stepfunctions as stock

from localcloud.base.background import in_background
from localcloud.base.context import Context
from localcloud.patches import MINISTACK

log = logging.getLogger(__name__)

PAUSE, LONGEST = 0.1, 60.0


def install(context: Context) -> None:
    """Report the failed executions. ministack fails them silently when it loads its state."""
    stock_restore = MINISTACK.stock("services.stepfunctions:load_persisted_state")

    def restore(data: dict[str, Any]) -> None:
        running = [arn for arn, found in _executions(data) if found.get("status") == "RUNNING"]
        stock_restore(data)
        if running:
            in_background("cut off", lambda: _emit_events(context, running))

    MINISTACK.replace("services.stepfunctions:load_persisted_state", restore)


def _executions(data: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    kept: Any = data.get("executions") or {}
    found = kept.all_items() if hasattr(kept, "all_items") else kept.items()
    return [(str(each["executionArn"]), each) for _, each in found]


def _emit_events(context: Context, running: list[str]) -> None:
    """Emit events and run targets later, because rules and functions load after executions and call the endpoint."""
    _until_it_answers(context.port)
    for arn in running:
        region, account = arn.split(":")[3:5]
        with request_scope(account, region):
            execution = stock._executions[arn]
            details = {"error": execution["error"], "cause": execution["cause"]}
            stock._add_event(execution, "ExecutionFailed", {"executionFailedEventDetails": details})
            stock._emit_execution_status_event(execution)
    log.info("%s executions ended with the last server", len(running))


def _until_it_answers(port: int) -> None:
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(PAUSE)
