"""Command documents: their steps and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from localcloud.base.run_command import DEFAULT_STEP, matches, step_timeout
from simulation.aws.endpoint.api import ServiceError


@dataclass(frozen=True)
class CommandDocument:
    name: str
    steps: tuple[tuple[str, float], ...]
    """Names and timeouts in seconds."""
    parameters: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, name: str, content: Mapping[str, Any]) -> Self:
        """Read an SSM document of type Command from its template."""
        steps = tuple(
            (step["name"], step_timeout(str(step["inputs"].get("timeoutSeconds", DEFAULT_STEP))))
            for step in content["mainSteps"]
        )
        return cls(name, steps, content.get("parameters") or {})

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.steps)

    def check(self, given: Mapping[str, Sequence[str]]) -> None:
        """Raise InvalidParameters for values that the document does not accept."""
        unknown = sorted(set(given) - set(self.parameters))
        if unknown:
            raise ServiceError(
                "InvalidParameters", f"Parameters not defined in the document: {', '.join(unknown)}"
            )
        for name, facts in self.parameters.items():
            values = given.get(name) or ([facts["default"]] if "default" in facts else [])
            if len(values) != 1:
                raise ServiceError(
                    "InvalidParameters", f"Parameter {name} takes one value, got {len(values)}"
                )
            pattern = facts.get("allowedPattern")
            if pattern and not matches(pattern, str(values[0])):
                raise ServiceError(
                    "InvalidParameters",
                    f"Parameter {name} value {values[0]!r} does not match the pattern {pattern}",
                )
