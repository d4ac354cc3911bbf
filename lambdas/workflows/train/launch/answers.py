"""The answers of Launch."""

from datetime import datetime

from lambdas.core.capacity.placement import GiveUp, RetireFirst, TryLater
from lambdas.core.run import readiness
from lambdas.steps.inputs import Answer
from lambdas.workflows.train.launch.request import LaunchRequest
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.values.lazy import dataclass


class Grown(Answer):
    """The answer to Signal, which had asked for more hosts; for the log."""

    kind = "grown"


@dataclass(frozen=True, kw_only=True)
class GangLaunched(Answer):
    """The gang is there; `ready_seconds` is how long it may need to get ready."""

    kind = "launched"
    ready_seconds: int
    deadline: datetime | None = None
    """When the hours of the run are used up."""


class PoolRefused(Answer):
    """This pool has no room; the next one is asked at once."""

    kind = "refused"


LaunchAnswer = GangLaunched | Grown | PoolRefused | TryLater | RetireFirst | GiveUp


def gang_launched(reason: str) -> GangLaunched:
    return GangLaunched(reason=reason, ready_seconds=int(readiness.PATIENCE.total_seconds()))


def answer_of_other_call(request: LaunchRequest) -> LaunchAnswer | None:
    """Return the answer if another call of this state was first, or if the execution has ended; else None."""
    records, attempt = request.ledger.require(request.run), request.attempt
    if records.run.cut_short:
        return GiveUp("Aborted", "the execution is over, so no host is launched for it")
    if attempt in records.attempts:
        return gang_launched("another call of this state has launched it")
    if records.count_launch_requests(attempt) != request.records.count_launch_requests(attempt):
        raise ServiceUnavailable(
            f"another call requests hosts for attempt {attempt} of {request.run}; this call is retried"
        )
    return None
