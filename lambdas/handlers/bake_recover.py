"""Recover of a bake: another builder, or stop."""

from typing import Any

from lambdas.core import bake
from lambdas.handlers import again


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    return again.or_stop(event, bake.after)
