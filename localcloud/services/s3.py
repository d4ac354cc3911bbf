"""The object's version in the event that tells of it: a new version of a key is a new thing to its reader."""

from __future__ import annotations

import contextvars
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.base.context import Context

_version: contextvars.ContextVar[str | None] = contextvars.ContextVar("s3_event_version", default=None)


def install(context: Context) -> None:
    """Add `detail.object.version-id`, which ministack leaves out, to S3's events on the default bus."""
    from ministack.services import eventbridge, s3

    stock_fire, stock_dispatch = s3._fire_s3_event, eventbridge._dispatch_event

    def fire_s3_event(*arguments: Any, version_id: str | None = None, **named: Any) -> None:
        _version.set(version_id)  # this runs in a thread and a context of its own
        stock_fire(*arguments, version_id=version_id, **named)

    def dispatch_event(event: Mapping[str, Any], view: Any = None) -> Any:
        version = _version.get()
        if event.get("Source") == "aws.s3" and version:
            detail = json.loads(event["Detail"])
            detail["object"]["version-id"] = version
            event = {**event, "Detail": json.dumps(detail)}
        return stock_dispatch(event, view)

    s3._fire_s3_event = fire_s3_event
    eventbridge._dispatch_event = dispatch_event
