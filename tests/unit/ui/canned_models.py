"""Two models of the canned yard: `digits` with four versions, and `line` without one."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.unit.ui.canned import TRAINING, stamp

REASON = (
    "version 3 of digits differs from TensorFlow's answers at its export: row 2, p: found 0.7, expected 0.2"
)


def models(now: datetime) -> Mapping[str, list[dict[str, Any]]]:
    """Return the rows by their partition key."""
    at = stamp(now - timedelta(hours=5))
    own = {"owner": "ada", "created": at}
    line = {"sk": "model", "name": "line", "request": "r", **own}
    aliases = {"default": Decimal(2), "champion": Decimal(1)}
    canary = {
        "version": Decimal(1),
        "percent": Decimal(5),
        "started": at,
        "until": stamp(now + timedelta(hours=1)),
        "by": "ada",
        "request": "r",
    }
    waiting = {"version": Decimal(1), "by": "ada", "at": at, "until": canary["until"], "request": "r"}
    pending = {"champion": waiting | {"why": "set-default"}}
    tried = {"canary": canary, "shadow": canary, "pending": pending}
    digits = line | {"name": "digits", "next": Decimal(5), "aliases": aliases, **tried}
    states = {1: "ready", 2: "ready", 3: "refused", 4: "making"}
    versions = [_version(number, state, at) for number, state in states.items()]
    moves = [
        {
            "sk": f"moved#{number}",
            "alias": "default",
            "new": Decimal(number),
            "by": "ada",
            "at": at,
            "request": "r",
        }
        for number in (1, 2)
    ]
    moves[1] |= {"old": Decimal(1), "approved": "bob"}
    return {
        "models": [{"sk": name, "name": name, **own} for name in ("digits", "line")],
        "model#digits": [digits, *(each | {"why": "set-default"} for each in moves), *versions],
        "model#line": [line],
    }


def _version(number: int, state: str, at: str) -> dict[str, Any]:
    return {
        "sk": f"version#{number:05}",
        "number": Decimal(number),
        "label": f"v{number}",
        "state": state,
        "by": "ada",
        "at": at,
        "request": "r",
        "origin": f"s3://bucket/runs/{TRAINING}/model/",
        "run": TRAINING,
        "metrics": {"accuracy": Decimal("0.9712")},
        "lite": "whole",
        **({"reason": REASON} if state == "refused" else {}),
    }
