"""Pages of Systems Manager's listings. A token is the index of the first row of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from simulation.aws.endpoint.api import Request, ServiceError

Item = TypeVar("Item")
PAGE = 50


def take_page(
    rows: Sequence[Item], request: Request, least: int, most: int = PAGE
) -> tuple[Sequence[Item], str | None]:
    size = int(request.get("MaxResults") or most)
    if not least <= size <= most:
        raise ServiceError(
            "ValidationException", f"MaxResults is {size}; it must be between {least} and {most}."
        )
    first = int(request.get("NextToken") or 0)
    return rows[first : first + size], str(first + size) if first + size < len(rows) else None
