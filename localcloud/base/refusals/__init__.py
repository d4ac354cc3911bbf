"""Refusals of AWS, decided from a request. Pure, because the local cloud and the simulator use these modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Request = Mapping[str, Any]
"""Parameters in boto3's format."""


@dataclass(frozen=True)
class Refusal:
    """An error of AWS."""

    code: str
    message: str
    status: int = 400


Rule = Callable[[Request], Refusal | None]


def first(*found: Refusal | None) -> Refusal | None:
    """Return the first refusal."""
    return next((each for each in found if each), None)
