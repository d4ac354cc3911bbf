"""Decide the next step of the launch loop from the refusals so far.

Each round tries every open candidate once, in order; with `hardware.prefer: speed` a request names as many as possible.
The loop waits between rounds, longer each time. A refused quota had room when the run was planned, so other hosts use
it, or EC2 still counts the hosts of the last attempt. The round skips candidates that need as much of that quota.
"""

import math
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, assert_never

from lambdas.core.capacity.plan import TAKES, Refusal, describe_candidates, requests
from lambdas.core.capacity.retained_hosts import RetainedHosts
from trainyard.core.model.hardware import Preference
from trainyard.core.model.instance_types import InstanceType, Quota, instance_type, quota
from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import Candidate, Market, RefusalKind
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_roughly

SHORTEST_ROUND_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE_AT_LEAST = timedelta(minutes=2)
"""Searches with much patience or many candidates have longer pauses, because of MOST_TRIES."""
GROWTH, GROWING_ROUNDS = 2, 5
"""The factor between two pauses, and the round with the longest pause."""
MOST_TRIES = 100
"""The requests that a search aims at. An execution's history holds 25,000 events, a request needs about eight, and a
run may search again after every restart."""
MOST_REASON = 300

GRAVEST = (
    RefusalKind.ACCESS,
    RefusalKind.CONFIGURATION,
    RefusalKind.QUOTA,
    RefusalKind.UNSUPPORTED,
    RefusalKind.CAPACITY,
    RefusalKind.THROTTLED,
)


@dataclass(frozen=True)
class FleetRefusal:
    """EC2's refusal of one request."""

    kind: RefusalKind
    code: str
    reason: str


@dataclass(frozen=True)
class Try:
    """Request hosts of a candidate now. Attempt, candidate and round make the client token."""

    candidate: int
    round: int
    reason: str
    batch: tuple[int, ...] = ()
    """The other candidates of the same request."""


@dataclass(frozen=True)
class TryLater:
    """Every open candidate refused in this round: try again after a pause."""

    kind: ClassVar[str] = "wait"
    seconds: int
    reason: str


@dataclass(frozen=True)
class RetireFirst:
    """The hosts of the gang must end before another candidate gets a request for a whole gang. With `keep`, other
    hosts stay."""

    kind: ClassVar[str] = "retire"
    reason: str
    keep: RetainedHosts = RetainedHosts.NONE


@dataclass(frozen=True)
class GiveUp:
    """The search ends."""

    kind: ClassVar[str] = "gave_up"
    error: str
    """NoCapacity, QuotaExceeded, AccessDenied, Misconfigured or Aborted."""
    reason: str


def next_step(
    candidates: Sequence[Candidate],
    refusals: Sequence[Refusal],
    *,
    now: datetime,
    since: datetime,
    wait_minutes: float,
    deadline: datetime,
    held: int | None = None,
    first: Market | None = None,
    last: Collection[int] = (),
    order: Preference = Preference.PRICE,
) -> Try | TryLater | RetireFirst | GiveUp:
    """Return the next step of the launch loop.

    `refusals` belong to this search (this attempt) only. `since` is the begin of the search, which ends with the
    job's patience or at the run's `deadline`. `held` is the candidate of the remaining hosts: a gang is in one
    capacity pool, so only that one is tried. Candidates of the market `first` go before the others, the candidates
    `last` after them. With `hardware.prefer: speed` a request names several candidates, each time another one first:
    if EC2 launched a part of the gang in one of them, the others have not answered and are tried again.
    """
    for refusal in refusals:
        if end := _end_at_once(refusal.kind):
            error, advice = end
            answer = f"{refusal.code}: {refusal.reason}"
            return GiveUp(
                error, f"{advice}. Capacity pool: {candidates[refusal.candidate].pool}. Answer: {answer}"
            )
    if held is not None:
        return _beside_remaining(candidates, refusals, held)
    in_order = sorted(
        range(len(candidates)),
        key=lambda index: (first not in (None, candidates[index].market), index in last),
    )
    still_open = [index for index in in_order if not _is_excluded(index, candidates, refusals)]
    if not still_open:
        reason = _all_refused(
            "Every capacity pool refused for good.", candidates, refusals, "Allow more instance types"
        )
        return GiveUp(_word(refusals), reason)
    round_now = max((refusal.round for refusal in refusals), default=0)
    asked = [refusal for refusal in refusals if refusal.round == round_now]
    unasked = [
        index
        for index in still_open
        if not any(_is_answered(index, refusal, candidates) for refusal in asked)
    ]
    heads = [index for index in unasked if index not in {refusal.batch for refusal in asked}]
    if heads:
        return _try(heads[0], unasked, candidates, refusals, round_now, order)
    patience = since + timedelta(minutes=wait_minutes)
    give_up_at = min(patience, deadline)
    if max(refusal.at for refusal in refusals) >= give_up_at:
        ended_by = "limits.wait_minutes" if patience <= deadline else "limits.hours"
        searched = format_roughly((give_up_at - since).total_seconds())
        headline = f"No capacity pool had room within {searched} ({ended_by})."
        advice = f"Allow more instance types or a longer {ended_by}"
        if (word := _word(refusals)) == "QuotaExceeded":
            advice += ", end other hosts, or raise the full quota (`make preflight` prints the command)"
        return GiveUp(word, _all_refused(headline, candidates, refusals, advice))
    return _wait_or_begin_round(
        candidates, refusals, still_open, round_now, now=now, since=since, give_up_at=give_up_at, order=order
    )


def answer_of(refusals: Sequence[tuple[str, FleetRefusal]]) -> FleetRefusal:
    """Return the refusal of a request from its refusals by type, at least one.

    A type is refused for its gravest reason. With several types the least grave one decides, because the next
    request may succeed for that type, unless one reason would refuse them all.
    """
    of_type: dict[str, FleetRefusal] = {}
    for name, no in refusals:
        of_type[name] = min(of_type.get(name, no), no, key=_gravity)
    gravest, least = min(of_type.values(), key=_gravity), max(of_type.values(), key=_gravity)
    decides = gravest if _end_at_once(gravest.kind) else least
    if len(of_type) == 1:
        return decides
    return FleetRefusal(
        decides.kind, decides.code, "; ".join(f"{name}: {no.reason}" for name, no in of_type.items())
    )


def pause_after(round_over: int, *, patience: timedelta, asks: int) -> timedelta:
    """Return the pause after a round: GROWTH times the last one, at most so long that the search makes about
    MOST_TRIES requests. docs/job-file.md describes it at `limits.wait_minutes`."""
    longest = max(LONGEST_PAUSE_AT_LEAST, patience * asks / MOST_TRIES)
    first: timedelta = max(SHORTEST_ROUND_PAUSE, longest / GROWTH**GROWING_ROUNDS)
    pause: timedelta = first * GROWTH ** min(round_over, GROWING_ROUNDS)
    return min(pause, longest)


def _wait_or_begin_round(
    candidates: Sequence[Candidate],
    refusals: Sequence[Refusal],
    still_open: Sequence[int],
    round_over: int,
    *,
    now: datetime,
    since: datetime,
    give_up_at: datetime,
    order: Preference,
) -> Try | TryLater:
    """Wait, or begin the next round. The last round begins when patience ends, so that capacity of the last minute
    is used."""
    last = max(refusal.at for refusal in refusals)
    asks = len(requests(still_open, candidates, order))
    pause = pause_after(round_over, patience=give_up_at - since, asks=asks)
    next_at = min(last + pause, give_up_at)
    if now >= next_at:
        return _try(still_open[0], still_open, candidates, refusals, round_over + 1, order)
    seconds = math.ceil((next_at - now).total_seconds())
    rounds = f"{round_over + 1} round{'s' if round_over else ''}"
    return TryLater(
        seconds,
        f"all {len(still_open)} open capacity pools refused in {rounds}; the next request is in {seconds} s",
    )


def _beside_remaining(
    candidates: Sequence[Candidate], refusals: Sequence[Refusal], held: int
) -> Try | RetireFirst:
    no = next((refusal for refusal in refusals if refusal.candidate == held), None)
    if no is None:
        return Try(
            held,
            0,
            f"the remaining hosts are {candidates[held].pool}; the missing hosts must join them there",
        )
    return RetireFirst(
        f"{candidates[held].pool}, with the remaining hosts, has no room for the missing ones "
        f"({no.code}: {no.reason}); a gang has one capacity pool, so the remaining "
        "hosts are released, and a whole gang is requested"
    )


def _end_at_once(kind: RefusalKind) -> tuple[str, str] | None:
    """Return the error and the advice if a refusal ends the search at once; None otherwise."""
    match kind:
        case RefusalKind.ACCESS:
            advice = "A role may not launch hosts, in any capacity pool; grant it the permission"
            return "AccessDenied", advice
        case RefusalKind.CONFIGURATION:
            advice = "The yard is set up wrongly, for every capacity pool; deploy or bake again"
            return "Misconfigured", advice
        case RefusalKind.QUOTA | RefusalKind.UNSUPPORTED | RefusalKind.CAPACITY | RefusalKind.THROTTLED:
            return None
    assert_never(kind)


def _gravity(no: FleetRefusal) -> int:
    return GRAVEST.index(no.kind)


def _is_excluded(index: int, candidates: Sequence[Candidate], refusals: Sequence[Refusal]) -> bool:
    """Return True if the candidate refused for good."""
    return any(refusal.candidate == index and _is_for_good(refusal, candidates) for refusal in refusals)


def _is_for_good(refusal: Refusal, candidates: Sequence[Candidate]) -> bool:
    match refusal.kind:
        case RefusalKind.UNSUPPORTED:
            return True
        case RefusalKind.QUOTA:  # Plan could not check an unknown quota
            return _format_hosts(candidates[refusal.candidate], refusal.gang) is None
        case RefusalKind.CAPACITY | RefusalKind.THROTTLED | RefusalKind.ACCESS | RefusalKind.CONFIGURATION:
            return False
    assert_never(refusal.kind)


def _is_answered(index: int, refusal: Refusal, candidates: Sequence[Candidate]) -> bool:
    """Return True if the candidate was refused, or needs at least as much of a quota as a refused one."""
    if refusal.candidate == index:
        return True
    if refusal.kind is not RefusalKind.QUOTA:
        return False
    mine, theirs = candidates[index], candidates[refusal.candidate]
    counted = _format_hosts(mine, refusal.gang)
    needs_no_less = _smallest(mine, refusal.gang).vcpus >= _smallest(theirs, refusal.gang).vcpus
    return counted is not None and counted == _format_hosts(theirs, refusal.gang) and needs_no_less


def _format_hosts(candidate: Candidate, gang: Gang) -> Quota | None:
    return quota(_smallest(candidate, gang), candidate.market)


def _smallest(candidate: Candidate, gang: Gang) -> InstanceType:
    """Return the type with the fewest vCPUs of those that this gang may have."""
    return min(
        (instance_type(choice.type) for choice in candidate.choices(gang)), key=lambda kind: kind.vcpus
    )


def _try(
    head: int,
    unasked: Sequence[int],
    candidates: Sequence[Candidate],
    refusals: Sequence[Refusal],
    round_now: int,
    order: Preference,
) -> Try:
    """Return the request for a candidate and for every other one that can join its batch."""
    others = [index for index in unasked if index != head]
    _, *batch = requests([head, *others], candidates, order)[0]
    if batch:
        why = _why_batch([candidates[index] for index in (head, *batch)], refusals)
    else:
        why = _why_try(candidates[head], refusals, round_now)
    return Try(head, round_now, why, tuple(batch))


def _why_batch(candidates: Sequence[Candidate], refusals: Sequence[Refusal]) -> str:
    prices = [candidate.price for candidate in candidates]
    after = f", after {_count(refusals)}" if refusals else ""
    return (
        f"any of {describe_candidates(candidates)} in one request: {TAKES[candidates[0].market]} "
        f"(${min(prices):.3f} to ${max(prices):.3f} per host and hour{after})"
    )


def _count(refusals: Sequence[Refusal]) -> str:
    return f"{len(refusals)} refusal{'s' if len(refusals) > 1 else ''}"


def _why_try(candidate: Candidate, refusals: Sequence[Refusal], round_now: int) -> str:
    if not refusals:
        return f"{candidate.pool}, is the first candidate (${candidate.price:.3f} per host and hour)"
    which = (
        "the next candidate"
        if round_now == max(refusal.round for refusal in refusals)
        else "the first open candidate again"
    )
    return f"{candidate.pool}, is {which} after {_count(refusals)}"


def _word(refusals: Sequence[Refusal]) -> str:
    return "QuotaExceeded" if all(refusal.kind is RefusalKind.QUOTA for refusal in refusals) else "NoCapacity"


def _all_refused(
    headline: str, candidates: Sequence[Candidate], refusals: Sequence[Refusal], advice: str
) -> str:
    """Return the headline, and a line with the number of requests and the last reason for each candidate."""
    lines = [f"{headline} No host is left running."]
    for index, candidate in enumerate(candidates):
        mine = [refusal for refusal in refusals if refusal.candidate == index]
        if mine:
            times = "once" if len(mine) == 1 else f"{len(mine)} times"
            lines.append(
                f"- {candidate.pool}: refused {times}; {mine[-1].code}: {mine[-1].reason[:MOST_REASON]}"
            )
        else:
            lines.append(f"- {candidate.pool}: not requested, because it needs as much of a full quota")
    lines.append(f"{advice}, or try later.")
    return "\n".join(lines)
