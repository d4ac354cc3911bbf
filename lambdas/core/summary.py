"""summary.json: what a person wants to know about a run when it is over."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from lambdas.core.cost import HostLife


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


class Ending(StrEnum):
    """How an attempt ended (ledger: attempt#<n>.ending)."""

    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    START_FAILED = "start_failed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """One attempt as the ledger knows it. `pool` is the offer in words."""

    attempt: int
    pool: str
    hosts: tuple[str, ...]
    launched: datetime | None = None
    mustered: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    ending: Ending | None = None
    reason: str | None = None
    from_step: int | None = None
    to_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """All that is known about a run when it is over. `job` is the job as admitted (None: refused);
    `objects` are the keys the run left in the bucket; `metrics` is metrics.json."""

    run: str
    bucket: str
    outcome: Outcome
    reason: str
    created: datetime
    ended: datetime
    error: str | None = None
    job: Mapping[str, Any] | None = None
    job_key: str | None = None
    execution_arn: str | None = None
    attempts: tuple[AttemptFacts, ...] = ()
    hosts: tuple[HostLife, ...] = ()
    progress: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    objects: tuple[str, ...] = ()
    image: str | None = None


def ending_of(error: str) -> Ending:
    """The ending of an attempt that failed with this error word."""
    raise NotImplementedError


def summarise(facts: RunFacts) -> dict[str, Any]:
    """The content of summary.json."""
    raise NotImplementedError


def notice(summary: Mapping[str, Any]) -> tuple[str, str]:
    """Subject (at most 100 characters of ASCII, as SNS asks) and text of the notification."""
    raise NotImplementedError


def places(run: str, bucket: str, objects: Iterable[str]) -> dict[str, str]:
    """Where things are: s3 URIs by what they are, only those that exist."""
    raise NotImplementedError
