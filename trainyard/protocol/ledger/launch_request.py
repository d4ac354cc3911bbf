"""The rows of launch requests, written before EC2 is asked: `pk = run#<run>`,
`sk = launch-request#<attempt>#<candidate>#<round>`, of four and of three digits."""

from dataclasses import field
from datetime import datetime

from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import RefusalKind
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class CandidateRefusal:
    """Why one of several candidates of a launch request refused."""

    candidate: int = field(metadata={"formerly": "offer"})
    kind: RefusalKind
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class LaunchRequestRow:
    """A launch request."""

    attempt: int
    candidate: int
    """The number of the candidate in the plan."""
    round: int
    """How many times the whole plan had been tried before."""
    token: str
    """The client token of the request."""
    at: datetime
    cpu_token: str | None = None
    """The client token of the request for the second gang."""
    capacity_pool: str | None = field(default=None, metadata={"formerly": "offer_pool"})
    """The capacity pool in words, or how many pools the request named."""
    answered: datetime | None = None
    answer: str | None = None
    """`launched` or `refused`; None while the answer is unknown."""
    gang: Gang = Gang.MAIN
    """The gang that was refused."""
    refusal: str | None = None
    """A RefusalKind."""
    code: str | None = None
    reason: str | None = None
    more: int | None = None
    """Hosts to add to an attempt that trains; None for an attempt that has not begun."""
    warm: tuple[str, ...] = ()
    """Hosts claimed from the warm pool instead of a request to EC2."""
    batch: tuple[int, ...] = field(default=(), metadata={"formerly": "together"})
    """The other candidates of the same request."""
    chosen: int | None = field(default=None, metadata={"formerly": "taken"})
    """The candidate that EC2 chose, if the request named several."""
    refusals: tuple[CandidateRefusal, ...] = ()
    """Why each of several candidates refused, if EC2 chose none."""

    @property
    def where(self) -> int:
        """Return the only candidate of the request, or the one that EC2 chose."""
        return self.candidate if self.chosen is None else self.chosen

    def answers(self) -> list[tuple[int, str | None, str | None]]:
        """Return the candidates that the answer is about, each with code and reason of its refusal."""
        if self.refusals:
            return [(each.candidate, each.code, each.reason) for each in self.refusals]
        candidates = (self.candidate, *self.batch) if self.answer is None else (self.where,)
        return [(candidate, self.code, self.reason) for candidate in candidates]
