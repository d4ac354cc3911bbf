"""What `python -m localcloud status` says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from localcloud import admin

if TYPE_CHECKING:
    from localcloud.context import Context


def install(context: Context) -> None:
    """Answer `GET /_localcloud/status`. Installed last: an answer means that every part is installed."""
    since = time.time()

    def status(request: dict[str, Any]) -> dict[str, Any]:
        return {
            "account": context.account,
            "region": context.region,
            "up_seconds": round(time.time() - since, 1),
            "unwritten": context.store.unwritten,
        }

    admin.route("GET", "/status", status)
