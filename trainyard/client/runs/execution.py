"""An execution of a workflow, as Step Functions describes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Self

from trainyard.core.model.ends import SUCCEEDED
from trainyard.protocol.trial import part_of

OVER = ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED")


class State(NamedTuple):
    """A state that was entered."""

    entered: datetime
    name: str


@dataclass(frozen=True)
class Execution:
    """The execution in an answer of DescribeExecution."""

    arn: str
    status: str
    started: datetime
    stopped: datetime | None
    error: str
    cause: str
    output: str = ""

    @classmethod
    def of(cls, described: dict[str, Any]) -> Self:
        """Read the execution from the API's answer."""
        return cls(
            arn=described["executionArn"],
            status=described["status"],
            started=described["startDate"],
            stopped=described.get("stopDate"),
            error=described.get("error", ""),
            cause=described.get("cause", ""),
            output=described.get("output", ""),
        )

    @property
    def name(self) -> str:
        """Return the run's id. The executions of a continued study have one run."""
        return part_of(self.arn.rsplit(":", 1)[-1])[0]

    @property
    def succeeded(self) -> bool:
        """Return True if the run has succeeded. The execution of a trial succeeds with any outcome of its run."""
        output = json.loads(self.output or "null") if self.status == "SUCCEEDED" else None
        outcome = output.get("outcome", SUCCEEDED) if isinstance(output, dict) else SUCCEEDED
        return self.status == "SUCCEEDED" and outcome == SUCCEEDED

    @property
    def error_text(self) -> str:
        """Return error and cause, if there are any."""
        return ": ".join(each for each in (self.error, self.cause) if each)

    @property
    def is_over(self) -> bool:
        """Return True in every final status."""
        return self.status in OVER


def states_of(history: Iterable[dict[str, Any]]) -> Iterator[State]:
    """Yield every entered state, in order."""
    for event in history:
        if "stateEnteredEventDetails" in event:
            yield State(event["timestamp"], event["stateEnteredEventDetails"]["name"])
