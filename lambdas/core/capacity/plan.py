"""Launch requests for the candidates of a plan, and the refusals of EC2.

`candidates.make_plan` makes the plan, `placement.next_step` walks it. A candidate is one instance type in one
Availability Zone in one market, with its price.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import assert_never

from trainyard.core.model.gang import missing
from trainyard.core.model.hardware import Preference
from trainyard.core.model.instance_types import instance_type
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.launch_request import CandidateRefusal, LaunchRequestRow
from trainyard.protocol.plan import Candidate, Market, Priced, RefusalKind
from trainyard.values.lazy import dataclass

TAKES = {
    Market.SPOT: "EC2 chooses the one with the most room",
    Market.ON_DEMAND: "EC2 chooses the cheapest with room",
}
"""How EC2 chooses among several capacity pools of a request."""


def describe_candidates(candidates: Sequence[Candidate]) -> str:
    """Describe a request: `g5.xlarge in us-east-1a, spot`, or `12 spot pools`."""
    first = candidates[0]
    return first.pool if len(candidates) == 1 else f"{len(candidates)} {first.market.replace('_', '-')} pools"


def requests(
    indexes: Sequence[int], candidates: Sequence[Candidate], order: Preference
) -> tuple[tuple[int, ...], ...]:
    """Return the requests for these candidates. The first candidate is in the first request."""
    match order:
        case Preference.PRICE:
            return tuple((index,) for index in indexes)
        case Preference.SPEED:
            found: list[list[int]] = []
            for index in indexes:
                joined = next(
                    (each for each in found if _joins(candidates[each[0]], candidates[index])), None
                )
                if joined is None:
                    found.append([index])
                else:
                    joined.append(index)
            return tuple(map(tuple, found))
    assert_never(order)


@dataclass(frozen=True)
class Part:
    """The hosts of one request: those that a gang lacks, all of one of the types in `choices`."""

    gang: Gang
    count: int
    choices: tuple[Priced, ...]
    """The types of every candidate of the request."""
    least: int
    """With fewer hosts EC2 launches none."""

    def price_of(self, name: str) -> Priced:
        """Return the choice of that name. Raise KeyError for a type that is not part of the request."""
        return {choice.type: choice for choice in self.choices}[name]


@dataclass(frozen=True)
class Refusal:
    """The refusal of one candidate."""

    candidate: int
    """The index of the candidate in the plan."""
    round: int
    kind: RefusalKind
    code: str
    """EC2's error code."""
    reason: str
    at: datetime
    gang: Gang = Gang.MAIN
    """The gang that was refused."""
    batch: int | None = None
    """The first candidate of the request, if it named several."""


def parts(
    job: Job, candidates: Sequence[Candidate], remaining: Collection[tuple[str, Gang, str]]
) -> tuple[Part, ...]:
    """Return the parts that the attempt lacks in addition to its remaining hosts (instance, gang, type), the scarcer
    main gang first. A gang has one type, so missing hosts match the remaining ones."""
    job, found = fit_job(job, candidates[0]), []
    for gang in Gang:
        mine = [(instance, name) for instance, its_gang, name in remaining if its_gang is gang]
        types = {name for _, name in mine}
        choices = tuple(
            each
            for candidate in candidates
            for each in candidate.choices(gang)
            if not types or each.type in types
        )
        count, least = missing(job, gang, [instance for instance, _ in mine])
        found.append(Part(gang, count, choices, least))
    return tuple(part for part in found if part.count)


def list_refusals(row: LaunchRequestRow) -> tuple[Refusal, ...]:
    """Return the refusal of each capacity pool that refused this launch request; none before EC2 has answered."""
    if row.answer != "refused":
        return ()
    alone = CandidateRefusal(
        row.where, RefusalKind(row.refusal or RefusalKind.CAPACITY), row.code or "", row.reason or ""
    )
    return tuple(
        Refusal(
            candidate=each.candidate,
            round=row.round,
            gang=row.gang,
            kind=each.kind,
            code=each.code,
            reason=each.reason,
            at=row.answered or row.at,
            batch=row.candidate if row.batch else None,
        )
        for each in row.refusals or (alone,)
    )


def fit_job(job: Job, candidate: Candidate) -> Job:
    """Return the job with no more workers than fit into this capacity pool."""
    return job if candidate.workers is None else job.with_most_workers(candidate.workers)


def _joins(one: Candidate, other: Candidate) -> bool:
    """Return True if one request can ask for both: it names one market, one number of hosts, one launch template and,
    in their tags, one number of GPUs."""
    return _is_shared(one) == _is_shared(other)


def _is_shared(candidate: Candidate) -> tuple[Market, int | None, int, int]:
    return (
        candidate.market,
        candidate.workers,
        candidate.initialization_rate,
        instance_type(candidate.type).gpus,
    )
