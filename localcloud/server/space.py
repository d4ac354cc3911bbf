"""A full disk is said to whoever uploads: ministack takes an object that it could not write, and forgets it later."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.base.context import Context

_failures: contextvars.ContextVar[list[OSError] | None] = contextvars.ContextVar("s3_failures", default=None)


def install(context: Context) -> None:
    """Answer InsufficientStorage (507, which no client tries again) when an object is not on the disk."""
    from ministack import app
    from ministack.core.responses import error_response_xml
    from ministack.services import s3

    stock_write, stock_handle = s3._atomic_write, app.SERVICE_HANDLERS["s3"]

    def write(*arguments: Any, **named: Any) -> None:
        try:
            stock_write(*arguments, **named)
        except OSError as error:
            failures = _failures.get()
            if failures is not None:
                failures.append(error)
            raise

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> Any:
        failures: list[OSError] = []
        _failures.set(failures)  # this request's: its context is its own
        answer = await stock_handle(method, path, headers, body, query_params)
        if not failures:
            return answer
        message = f"The object could not be written below {context.state}: {failures[0].strerror}."
        return error_response_xml("InsufficientStorage", message, 507)

    s3._atomic_write = write
    app.SERVICE_HANDLERS["s3"] = handle
