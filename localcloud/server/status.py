"""What `python -m localcloud status` says."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from localcloud.server import admin

if TYPE_CHECKING:
    from localcloud.base.context import Context


def install(context: Context) -> None:
    """Answer `GET /_localcloud/status`. Installed last: an answer means that every part is installed."""
    since = time.time()

    def status(request: dict[str, Any]) -> dict[str, Any]:
        from ministack.core.responses import request_scope

        with request_scope(context.account, context.region):
            return {
                "account": context.account,
                "region": context.region,
                "up_seconds": round(time.time() - since, 1),
                "stacks": _stacks(),
                "hosts": _hosts(),
                "executions": _executions(),
                "unwritten": context.store.unwritten,
                "not_saved": context.store.failed,
            }

    admin.route("GET", "/status", status)


def _stacks() -> dict[str, str]:
    """Name -> status of the deployed stacks."""
    from ministack.services import cloudformation

    found = (stack for stack in cloudformation._stacks.values() if stack["StackStatus"] != "DELETE_COMPLETE")
    return {stack["StackName"]: stack["StackStatus"] for stack in found}


def _hosts() -> dict[str, int]:
    """How many instances are in which state."""
    from localcloud.services.ec2.store.records import LOCK, instances

    with LOCK:
        return dict(Counter(instance.state for instance in instances()))


def _executions() -> dict[str, int]:
    """How many executions have which status."""
    from ministack.services import stepfunctions

    return dict(Counter(execution["status"] for execution in stepfunctions._executions.values()))
