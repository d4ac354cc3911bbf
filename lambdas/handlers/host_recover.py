"""Recover of a launch: another host, or stop."""

from typing import Any

from lambdas.core import relaunch
from lambdas.handlers import again


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    return again.or_stop(event, relaunch.after)
