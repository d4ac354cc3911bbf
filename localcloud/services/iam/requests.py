"""One AWS request as IAM sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import cbor2


@dataclass
class Request:
    """What was asked of which service. `expanded` tells that its pairs were checked once already."""

    service: str
    action: str
    body: bytes
    parameters: Mapping[str, Any] = field(default_factory=dict)
    expanded: bool = False

    def fields(self) -> dict[str, Any]:
        """The request's top-level members, whatever protocol it came in; empty when it cannot be read."""
        try:
            if self.body[:1] == b"{":
                parsed = json.loads(self.body)
            elif self.body and not self.parameters:
                parsed = cbor2.loads(self.body)
            else:
                parsed = {name: self.parameter(name) for name in self.parameters}
        except (ValueError, cbor2.CBORDecodeError):
            return {}  # the service itself answers for a body it cannot read
        return parsed if isinstance(parsed, dict) else {}

    def parameter(self, name: str) -> Any:
        """One query parameter, without the list that parsers put around it."""
        value = self.parameters.get(name)
        return value[0] if isinstance(value, list) and value else value
