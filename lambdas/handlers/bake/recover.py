"""Recover of a bake: another builder, or stop."""

from typing import Any

from lambdas.core.images import bake
from lambdas.steps import recovery


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    return recovery.or_stop(event, bake.after)
