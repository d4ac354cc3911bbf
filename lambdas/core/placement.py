"""Placement: the next step of the launch loop, from the refusals so far.

Rounds: every open offer is asked once per round, in order; between rounds the loop waits, longer each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from lambdas.core.offers import Offer


class RefusalKind(StrEnum):
    """What kind of no it was. lambdas/aws maps EC2's codes to these."""

    CAPACITY = "capacity"  # no room in the pool now
    QUOTA = "quota"  # the account's quota is full
    THROTTLED = "throttled"  # too many requests
    UNSUPPORTED = "unsupported"  # this pool will never hold this gang (type not offered in the zone ...)
    CONFIGURATION = "configuration"  # the yard is set up wrongly: every pool would refuse
    ACCESS = "access"  # a role may not: every pool would refuse


@dataclass(frozen=True, slots=True)
class Refusal:
    """One no. `offer` is the index into the plan's offers; `code` is EC2's code, `reason` a sentence."""

    offer: int
    round: int
    kind: RefusalKind
    code: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Try:
    """Ask this offer now. (attempt, offer, round) makes the client token."""

    kind: ClassVar[str] = "try"
    offer: int
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Every open pool refused in this round: ask again after so many seconds."""

    kind: ClassVar[str] = "wait"
    seconds: int
    reason: str


@dataclass(frozen=True, slots=True)
class StartOver:
    """The survivors' pool has no room for the missing hosts: release the survivors, then ask for a whole gang."""

    kind: ClassVar[str] = "start_over"
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing more to try. `error` is a word of errors.py: NoOffer, AccessDenied, Misconfigured, QuotaExceeded."""

    kind: ClassVar[str] = "give_up"
    error: str
    reason: str


def next_step(
    offers: Sequence[Offer],
    refusals: Sequence[Refusal],
    *,
    now: datetime,
    since: datetime,
    give_up_at: datetime,
    held: int | None = None,
) -> Try | Wait | StartOver | GiveUp:
    """What the launch loop does next.

    `refusals` are those of this search (this attempt) only; `since` is when the search began. `held` is the
    offer in which surviving hosts of the last attempt live: a gang is one pool, so only that one is asked.
    """
    raise NotImplementedError


def give_up_at(since: datetime, wait_minutes: float, deadline: datetime) -> datetime:
    """When a search that began at `since` ends: the job's patience, and never after the run's deadline."""
    raise NotImplementedError
