"""Recover of a launch: another host, or stop."""

from typing import Any

from lambdas.core.images import launch
from lambdas.steps import recovery


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    return recovery.or_stop(event, launch.after)
