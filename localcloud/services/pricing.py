"""The Price List Query API, with the prices in the settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from ministack.core.responses import get_region

from localcloud.base.context import Context
from localcloud.base.price_list import PriceList, PriceListError
from localcloud.patches import MINISTACK

NAME = "pricing"
TARGET = "AWSPriceListService"


def install(context: Context) -> None:
    """Answer the service `pricing`, which ministack lacks."""
    prices = PriceList(context.settings)

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> tuple[int, dict[str, str], bytes]:
        operation = headers.get("x-amz-target", "").split(".")[-1]
        status, answer = await asyncio.to_thread(_answer, prices, operation, body, get_region())
        return status, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()

    MINISTACK.extend("app:SERVICE_HANDLERS", {NAME: handle})
    pattern = {"target_prefixes": [TARGET], "host_patterns": []}
    MINISTACK.extend("core.router:SERVICE_PATTERNS", {NAME: pattern})
    MINISTACK.extend("core.iam_actions:SERVICE_TO_IAM_NAMESPACE", {NAME: NAME})


def _answer(prices: PriceList, operation: str, body: bytes, region: str) -> tuple[int, dict[str, Any]]:
    if operation != "GetProducts":
        message = f"the local cloud does not support {operation}"
        return 400, {"__type": "UnknownOperationException", "message": message}
    try:
        return 200, prices.get_products(json.loads(body or b"{}"), asked_in=region)
    except PriceListError as error:
        return 400, {"__type": error.code, "message": str(error)}
