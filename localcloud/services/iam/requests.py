"""An AWS request as IAM sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cbor2


@dataclass
class Request:
    """A request to a service. `expanded` is True once all its pairs were checked."""

    service: str
    action: str
    body: bytes
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expanded: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the top-level members of the request in any protocol. Empty if it cannot be parsed."""
        try:
            if self.body[:1] == b"{":
                parsed = json.loads(self.body)
            elif self.body and not self.parameters:
                parsed = cbor2.loads(self.body)
            else:
                parsed = {name: self.parameter(name) for name in self.parameters}
        except (ValueError, cbor2.CBORDecodeError):
            return {}  # the service itself answers a body that it cannot parse
        return parsed if isinstance(parsed, dict) else {}

    def parameter(self, name: str) -> Any:
        """Return a query parameter without the list that parsers add."""
        value = self.parameters.get(name)
        return value[0] if isinstance(value, list) and value else value
