"""The status that `python -m localcloud status` prints."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from ministack.core.responses import request_scope
from ministack.services import cloudformation, stepfunctions

from localcloud.base.context import Context
from localcloud.machine.hypervisor import Hypervisor, mounts
from localcloud.machine.python import functions_platform
from localcloud.server import admin
from localcloud.services.ec2.store.records import LOCK, instances


def install(context: Context, hypervisor: Hypervisor) -> None:
    """Answer `GET /_localcloud/status`. Installed last, so an answer means that every part is installed."""
    since = time.time()

    def status(request: dict[str, Any]) -> dict[str, Any]:
        with request_scope(context.account, context.region):
            return {
                "account": context.account,
                "region": context.region,
                "platform": functions_platform(),
                "up_seconds": round(time.time() - since, 1),
                "stacks": _stacks(),
                "hosts": _hosts(),
                "executions": _executions(),
                "not_enforced": {"security groups": hypervisor.no_firewall} if hypervisor.no_firewall else {},
                "missing": {"streams": problem} if (problem := mounts.missing()) else {},
                "unwritten": context.store.unwritten,
                "not_saved": context.store.failed,
            }

    admin.route("GET", "/status", status)


def _stacks() -> dict[str, str]:
    """Return the status of each deployed stack."""
    found = (stack for stack in cloudformation._stacks.values() if stack["StackStatus"] != "DELETE_COMPLETE")
    return {stack["StackName"]: stack["StackStatus"] for stack in found}


def _hosts() -> dict[str, int]:
    """Return the number of instances in each state."""
    with LOCK:
        return dict(Counter(instance.state for instance in instances()))


def _executions() -> dict[str, int]:
    """Return the number of executions in each status."""
    return dict(Counter(execution["status"] for execution in stepfunctions._executions.values()))
