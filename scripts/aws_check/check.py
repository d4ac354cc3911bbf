"""Checks of assumptions about AWS, and the account where they run."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

Answer = dict[str, Any]
ONCE = Config(retries={"total_max_attempts": 2, "mode": "standard"})


class Stage(StrEnum):
    """A limit of the cost of checks."""

    FREE = "free"
    CENTS = "cents"
    HOST = "host"

    @property
    def dollars(self) -> float:
        """The most that the checks of this stage cost on AWS."""
        return {Stage.FREE: 0.0, Stage.CENTS: 0.05, Stage.HOST: 0.05}[self]

    def includes(self, other: "Stage") -> bool:
        """Return True if a user who allows this stage also allows the other one."""
        return [*Stage].index(other) <= [*Stage].index(self)


class Verdict(StrEnum):
    """The result of a check."""

    HOLDS = "holds"
    DIFFERS = "differs"
    UNKNOWN = "unknown"
    """The check could not be made, for example because a permission is missing."""


@dataclass(frozen=True)
class Finding:
    """The verdict of a check, in a sentence that names what AWS answered."""

    verdict: Verdict
    seen: str


@dataclass
class Account:
    """The account of the environment. It records every answer, and deletes what a check has created."""

    session: boto3.Session
    answers: dict[str, Answer] = field(default_factory=dict)
    """The answers of the current check, by operation."""
    undo: list[Callable[[], object]] = field(default_factory=list)
    """Deletes the resources of the current check, the last one first."""

    @property
    def region(self) -> str:
        return str(self.session.region_name)

    def call(self, service: str, operation: str, region: str | None = None, /, **parameters: Any) -> Answer:
        """Return the answer of AWS. Raise ClientError, which is recorded, too."""
        client: Any = self.session.client(service, region_name=region or self.region, config=ONCE)
        try:
            answer: Answer = getattr(client, operation)(**parameters)
        except ClientError as error:
            self._record(operation, error.response)
            raise
        self._record(operation, answer)
        return answer

    def refusal(self, service: str, operation: str, region: str | None = None, /, **parameters: Any) -> str:
        """Return the code with which AWS refuses the call; an empty text if AWS accepts it."""
        try:
            self.call(service, operation, region, **parameters)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return ""

    def clean_up(self) -> list[str]:
        """Delete what the check has created. Return a line for each resource that remains."""
        left = []
        while self.undo:
            try:
                self.undo.pop()()
            except (BotoCoreError, ClientError) as error:
                left.append(str(error))
        return left

    def until(self, ready: Callable[[], bool], seconds: float) -> float | None:
        """Wait until the condition holds. Return the seconds that it took; None if it did not hold in time."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            with suppress(ClientError):
                if ready():
                    return time.monotonic() - began
            time.sleep(2)
        return None

    def _record(self, operation: str, answer: Any) -> None:
        name = operation.replace("_", "-")
        number = sum(each.rpartition(".")[0] == name for each in self.answers) + 1
        self.answers[f"{name}.{number}"] = answer


@dataclass(frozen=True)
class Check:
    """A check of one assumption."""

    name: str
    assumption: str
    stage: Stage
    run: Callable[[Account], Finding]


def expect(holds: bool, seen: str) -> Finding:
    """Return the finding of a check whose assumption is as expected, or not."""
    return Finding(Verdict.HOLDS if holds else Verdict.DIFFERS, seen)
