"""Pagination of Systems Manager's answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from localcloud.services.ssm.document import SsmError

Json = dict[str, Any]
Item = TypeVar("Item")


def page(found: Sequence[Item], request: Json, key: str, shown: Callable[[Item], Json], most: int) -> Json:
    """Return one page in AWS's format. The token is a position."""
    token = request.get("NextToken") or "0"
    if not token.isdigit() or int(token) > len(found):
        raise SsmError("InvalidNextToken", f"{token!r} is not a token of this listing.")
    start, count = int(token), min(int(request.get("MaxResults") or most), most)
    answer: Json = {key: [shown(item) for item in found[start : start + count]]}
    if start + count < len(found):
        answer["NextToken"] = str(start + count)
    return answer


def remove_empty(answer: Json) -> Json:
    return {key: value for key, value in answer.items() if value is not None}
