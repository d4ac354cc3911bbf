"""What a request needs: one check for every (action, resource) pair, each with the facts its conditions may ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Check:
    """The caller must be allowed `action` on `resource`; `context` holds condition keys in lower case.

    A request is allowed when every one of its checks is.
    """

    action: str
    resource: str
    context: Mapping[str, Any] = field(default_factory=dict)
