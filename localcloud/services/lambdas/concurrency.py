"""The concurrency of the account's functions, and how much of it functions may reserve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ministack.core.responses import error_response_json
from ministack.services import lambda_svc

from localcloud.base.context import Context
from localcloud.base.refusals import Refusal
from localcloud.patches import MINISTACK

LEAST_UNRESERVED = 100
_limits: list[int] = []
"""The account's limit, once this part is installed."""


def install(context: Context) -> None:
    """Set the account's limit, which ministack derives from the memory of the machine."""
    _limits[:] = [context.settings.function_concurrency]
    stock = MINISTACK.stock("services.lambda_svc:_get_account_settings")

    def settings() -> Any:
        status, headers, body = stock()
        found = json.loads(body)
        found["AccountLimit"] |= {
            "ConcurrentExecutions": _limits[0],
            "UnreservedConcurrentExecutions": _limits[0] - _reserved(),
        }
        return status, headers, json.dumps(found).encode()

    stock_put = MINISTACK.stock("services.lambda_svc:_put_function_concurrency")

    def put(name: str, request: Mapping[str, Any]) -> Any:
        """Reserve concurrency for the API and for CloudFormation."""
        refused = refuse_reservation(name, int(request.get("ReservedConcurrentExecutions", 0)))
        if refused:
            return error_response_json(refused.code, refused.message, refused.status)
        return stock_put(name, request)

    MINISTACK.replace("services.lambda_svc:_get_account_settings", settings)
    MINISTACK.replace("services.lambda_svc:_put_function_concurrency", put)


def refuse_reservation(name: str, concurrency: int) -> Refusal | None:
    """Refuse a reservation that leaves too little for the functions without one."""
    least = min(LEAST_UNRESERVED, _limits[0])
    if not concurrency or _reserved(besides=name) + concurrency <= _limits[0] - least:
        return None
    return Refusal(
        "InvalidParameterValueException",
        "Specified ReservedConcurrentExecutions for function decreases account's UnreservedConcurrentExecution below "
        f"its minimum value of [{least}].",
    )


def _reserved(*, besides: str = "") -> int:
    functions = lambda_svc._functions.items()
    return sum(int(each.get("concurrency") or 0) for name, each in functions if name != besides)
