"""Size and validity of PutEvents entries, as EventBridge checks them.

Pure, because the simulator uses this module too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MOST_BYTES = 262_144
TOO_LARGE = "Total size of the entries in the request is over the limit."


def are_too_large(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if EventBridge refuses the whole request because of its size."""
    return sum(map(_size, entries)) >= MOST_BYTES


def fault_of(entry: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the error fields for an entry that cannot be put, or None for a valid entry."""
    for name in ("Source", "DetailType", "Detail"):
        if not entry.get(name):
            reason = f"Parameter {name} is not valid. Reason: {name} is a required argument."
            return {"ErrorCode": "InvalidArgument", "ErrorMessage": reason}
    detail = entry["Detail"]
    try:
        # a state machine passes the object itself
        is_object = isinstance(detail if isinstance(detail, dict) else json.loads(detail), dict)
    except ValueError:
        is_object = False
    return None if is_object else {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}


def _size(entry: Mapping[str, Any]) -> int:
    """Return the size as AWS counts it: 14 bytes for a time, plus all texts."""
    detail = entry.get("Detail")
    text = json.dumps(detail) if isinstance(detail, dict) else detail
    texts = [entry.get("Source"), entry.get("DetailType"), text, *(entry.get("Resources") or ())]
    return 14 * ("Time" in entry) + sum(len(each.encode()) for each in texts if each)
