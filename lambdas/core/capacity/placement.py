"""Placement: the next step of the launch loop, from the refusals so far.

Rounds: every open offer is asked once per round, in order, by speed as many at once as one request can; between rounds
the loop waits, longer each time. A quota that was refused had room when the run was planned: other hosts use it, or
those of the last attempt are counted yet. Pools that need as much of it are not asked in that round.
"""

import math
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, assert_never

from lambdas.core.capacity.kept_hosts import KeptHosts
from lambdas.core.capacity.plan import TAKES, Refusal, in_words, requests
from trainyard.core.model.hardware import Preference
from trainyard.core.model.instance_types import InstanceType, Quota, instance_type, quota
from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import Market, Offer, RefusalKind
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import rounded

SHORTEST_ROUND_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE_AT_LEAST = timedelta(minutes=2)
"""With much patience or many pools MOST_TRIES makes the longest pause longer."""
GROWTH, GROWING_ROUNDS = 2, 5
"""How much longer each pause is than the one before, and after how many rounds it is the longest at the latest."""
MOST_TRIES = 100
"""What a search aims at. An execution's history holds 25,000 events, a try takes about eight of them,
and a run may search again after every restart."""
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
    """EC2's no to one request, with its code and message."""

    kind: RefusalKind
    code: str
    reason: str


@dataclass(frozen=True)
class Try:
    """Ask this offer now, and those `together` with it in the same request. (attempt, offer, round) makes the client
    token."""

    offer: int
    round: int
    reason: str
    together: tuple[int, ...] = ()


@dataclass(frozen=True)
class TryLater:
    """Every open pool refused in this round: ask again after so many seconds."""

    kind: ClassVar[str] = "wait"
    seconds: int
    reason: str


@dataclass(frozen=True)
class RetireFirst:
    """What there is of the gang must be ended before another pool is asked for a whole one; where survivors are kept,
    all but these."""

    kind: ClassVar[str] = "retire"
    reason: str
    keep: KeptHosts = KeptHosts.NONE


@dataclass(frozen=True)
class GiveUp:
    """Nobody is asked any more. `error`: NoOffer, QuotaExceeded, AccessDenied, Misconfigured or Aborted."""

    kind: ClassVar[str] = "gave_up"
    error: str
    reason: str


def next_step(
    offers: Sequence[Offer],
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
    """What the launch loop does next.

    `refusals` are those of this search (this attempt) only; `since` is when the search began, which ends with the job's
    patience, and never after the run's `deadline`. `held` is the offer in which surviving hosts of the last
    attempt live: a gang is one pool, so only that one is asked. The pools of the market `first` go before the others,
    the offers `last` after them. By speed one request asks several, each time in the name of another: where EC2
    has launched a part of the gang in one of them, the others have said nothing and are asked again.
    """
    for refusal in refusals:
        if end := _end_at_once(refusal.kind):
            error, advice = end
            answer = f"{refusal.code}: {refusal.reason}"
            return GiveUp(error, f"{advice}. Asked: {offers[refusal.offer].pool}. Answer: {answer}")
    if held is not None:
        return _beside_survivors(offers, refusals, held)
    in_order = sorted(
        range(len(offers)), key=lambda index: (first not in (None, offers[index].market), index in last)
    )
    still_open = [index for index in in_order if not _is_excluded(index, offers, refusals)]
    if not still_open:
        reason = _all_refused("Every pool refused for good.", offers, refusals, "Allow more instance types")
        return GiveUp(_word(refusals), reason)
    round_now = max((refusal.round for refusal in refusals), default=0)
    asked = [refusal for refusal in refusals if refusal.round == round_now]
    unasked = [
        index for index in still_open if not any(_is_answered(index, refusal, offers) for refusal in asked)
    ]
    leads = [index for index in unasked if index not in {refusal.lead for refusal in asked}]
    if leads:
        return _try(leads[0], unasked, offers, refusals, round_now, order)
    patience = since + timedelta(minutes=wait_minutes)
    give_up_at = min(patience, deadline)
    if max(refusal.at for refusal in refusals) >= give_up_at:
        ended_by = "limits.wait_minutes" if patience <= deadline else "limits.hours"
        headline = f"No pool had room within {rounded((give_up_at - since).total_seconds())} ({ended_by})."
        advice = f"Allow more instance types or a longer {ended_by}"
        if (word := _word(refusals)) == "QuotaExceeded":
            advice += ", end other hosts, raise the quota that is full (`make preflight` says how)"
        return GiveUp(word, _all_refused(headline, offers, refusals, advice))
    return _after_round(
        offers, refusals, still_open, round_now, now=now, since=since, give_up_at=give_up_at, order=order
    )


def answer_of(refusals: Sequence[tuple[str, FleetRefusal]]) -> FleetRefusal:
    """What a request was answered of which (type, no) are the refusals, at least one.

    A type is refused for its gravest reason. With several types the least grave one decides, since the request may
    yet be granted for that type; but not over what would refuse them all."""
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
    """How long to wait after a round: GROWTH times as long as before, up to where the search makes about MOST_TRIES
    tries. docs/job-file.md says so at `limits.wait_minutes`."""
    longest = max(LONGEST_PAUSE_AT_LEAST, patience * asks / MOST_TRIES)
    first: timedelta = max(SHORTEST_ROUND_PAUSE, longest / GROWTH**GROWING_ROUNDS)
    pause: timedelta = first * GROWTH ** min(round_over, GROWING_ROUNDS)
    return min(pause, longest)


def _after_round(
    offers: Sequence[Offer],
    refusals: Sequence[Refusal],
    still_open: Sequence[int],
    round_over: int,
    *,
    now: datetime,
    since: datetime,
    give_up_at: datetime,
    order: Preference,
) -> Try | TryLater:
    """Every open offer refused in this round: wait, or begin the next. The last round begins when patience
    ends, so that a pool which frees up in the last minute is not missed."""
    last = max(refusal.at for refusal in refusals)
    asks = len(requests(still_open, offers, order))
    pause = pause_after(round_over, patience=give_up_at - since, asks=asks)
    next_at = min(last + pause, give_up_at)
    if now >= next_at:
        return _try(still_open[0], still_open, offers, refusals, round_over + 1, order)
    seconds = math.ceil((next_at - now).total_seconds())
    rounds = f"{round_over + 1} round{'s' if round_over else ''}"
    return TryLater(
        seconds, f"all {len(still_open)} open pools refused in {rounds}; asking again in {seconds} s"
    )


def _beside_survivors(offers: Sequence[Offer], refusals: Sequence[Refusal], held: int) -> Try | RetireFirst:
    no = next((refusal for refusal in refusals if refusal.offer == held), None)
    if no is None:
        return Try(held, 0, f"the survivors are {offers[held].pool}; the missing hosts must join them there")
    return RetireFirst(
        f"{offers[held].pool}, where the survivors are, has no room for the missing hosts "
        f"({no.code}: {no.reason}); a gang is one pool, so the survivors are released and a whole gang is asked for"
    )


def _end_at_once(kind: RefusalKind) -> tuple[str, str] | None:
    """The error and the advice with which a refusal ends the search that no other pool and no later time can change."""
    match kind:
        case RefusalKind.ACCESS:
            advice = "A role may not launch hosts, which no other pool changes; give it the permission"
            return "AccessDenied", advice
        case RefusalKind.CONFIGURATION:
            advice = "The yard is set up wrongly, for every pool; deploy or bake again"
            return "Misconfigured", advice
        case RefusalKind.QUOTA | RefusalKind.UNSUPPORTED | RefusalKind.CAPACITY | RefusalKind.THROTTLED:
            return None
    assert_never(kind)


def _gravity(no: FleetRefusal) -> int:
    return GRAVEST.index(no.kind)


def _is_excluded(index: int, offers: Sequence[Offer], refusals: Sequence[Refusal]) -> bool:
    """A pool that said never."""
    return any(refusal.offer == index and _is_for_good(refusal, offers) for refusal in refusals)


def _is_for_good(refusal: Refusal, offers: Sequence[Offer]) -> bool:
    match refusal.kind:
        case RefusalKind.UNSUPPORTED:
            return True
        case RefusalKind.QUOTA:  # of one that nobody knows, Plan could not say that it is large enough
            return _counted(offers[refusal.offer], refusal.gang) is None
        case RefusalKind.CAPACITY | RefusalKind.THROTTLED | RefusalKind.ACCESS | RefusalKind.CONFIGURATION:
            return False
    assert_never(refusal.kind)


def _is_answered(index: int, refusal: Refusal, offers: Sequence[Offer]) -> bool:
    """Whether the offer was refused, or needs as much of a quota as one that was refused for it."""
    if refusal.offer == index:
        return True
    if refusal.kind is not RefusalKind.QUOTA:
        return False
    mine, theirs = offers[index], offers[refusal.offer]
    counted = _counted(mine, refusal.gang)
    needs_no_less = _smallest(mine, refusal.gang).vcpus >= _smallest(theirs, refusal.gang).vcpus
    return counted is not None and counted == _counted(theirs, refusal.gang) and needs_no_less


def _counted(offer: Offer, gang: Gang) -> Quota | None:
    return quota(_smallest(offer, gang), offer.market)


def _smallest(offer: Offer, gang: Gang) -> InstanceType:
    """Of the types that this gang may be of here, the one with the fewest vCPUs."""
    return min((instance_type(choice.type) for choice in offer.choices(gang)), key=lambda kind: kind.vcpus)


def _try(
    lead: int,
    unasked: Sequence[int],
    offers: Sequence[Offer],
    refusals: Sequence[Refusal],
    round_now: int,
    order: Preference,
) -> Try:
    """The request in the name of the lead, for those of the others that it can ask, too."""
    others = [index for index in unasked if index != lead]
    _, *together = requests([lead, *others], offers, order)[0]
    if together:
        why = _why_together([offers[index] for index in (lead, *together)], refusals)
    else:
        why = _why_try(offers[lead], refusals, round_now)
    return Try(lead, round_now, why, tuple(together))


def _why_together(offers: Sequence[Offer], refusals: Sequence[Refusal]) -> str:
    prices = [offer.price for offer in offers]
    after = f", after {_count(refusals)}" if refusals else ""
    return (
        f"any of {in_words(offers)}, asked at once: {TAKES[offers[0].market]} "
        f"(${min(prices):.3f} to ${max(prices):.3f} per host and hour{after})"
    )


def _count(refusals: Sequence[Refusal]) -> str:
    return f"{len(refusals)} refusal{'s' if len(refusals) > 1 else ''}"


def _why_try(offer: Offer, refusals: Sequence[Refusal], round_now: int) -> str:
    if not refusals:
        return f"{offer.pool}, is the first offer (${offer.price:.3f} per host and hour)"
    which = (
        "the next offer"
        if round_now == max(refusal.round for refusal in refusals)
        else "the first open offer again"
    )
    return f"{offer.pool}, is {which} after {_count(refusals)}"


def _word(refusals: Sequence[Refusal]) -> str:
    return "QuotaExceeded" if all(refusal.kind is RefusalKind.QUOTA for refusal in refusals) else "NoOffer"


def _all_refused(headline: str, offers: Sequence[Offer], refusals: Sequence[Refusal], advice: str) -> str:
    """The headline, then every pool's last reason and how often it was asked."""
    lines = [f"{headline} Nothing is left running."]
    for index, offer in enumerate(offers):
        mine = [refusal for refusal in refusals if refusal.offer == index]
        if mine:
            times = "once" if len(mine) == 1 else f"{len(mine)} times"
            lines.append(f"- {offer.pool}: asked {times}; {mine[-1].code}: {mine[-1].reason[:MOST_REASON]}")
        else:
            lines.append(f"- {offer.pool}: not asked, it needs as much of a quota that is full")
    lines.append(f"{advice}, or try later.")
    return "\n".join(lines)
