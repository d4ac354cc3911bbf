"""The rows of launch requests, written before EC2 is asked: `pk = run#<run>`,
`sk = intent#<attempt>#<offer>#<round>`, of four and of three digits."""

from datetime import datetime

from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import RefusalKind
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class OfferRefusal:
    """Why one of several capacity pools of a launch request refused."""

    offer: int
    kind: RefusalKind
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class IntentRow:
    """A launch request."""

    attempt: int
    offer: int
    """The number of the plan's offer."""
    round: int
    """How often the plan was walked before."""
    token: str
    """The client token of the request."""
    at: datetime
    cpu_token: str | None = None
    """The client token of the request for the second gang."""
    offer_pool: str | None = None
    """The capacity pool in words, or how many pools were asked at once."""
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
    """Hosts that were asked for beside an attempt that trains; None for an attempt that has not begun."""
    warm: tuple[str, ...] = ()
    """Hosts that were claimed from the warm pool instead of asking EC2."""
    together: tuple[int, ...] = ()
    """The other offers that the same request asked."""
    taken: int | None = None
    """The offer that EC2 chose, of several."""
    refusals: tuple[OfferRefusal, ...] = ()
    """Why each of several pools refused, if EC2 chose none."""

    @property
    def where(self) -> int:
        """Return the offer that was asked, or that EC2 chose of several."""
        return self.offer if self.taken is None else self.taken

    def answers(self) -> list[tuple[int, str | None, str | None]]:
        """Return the offers that the answer is about, each with code and reason of its refusal."""
        if self.refusals:
            return [(each.offer, each.code, each.reason) for each in self.refusals]
        asked = (self.offer, *self.together) if self.answer is None else (self.where,)
        return [(offer, self.code, self.reason) for offer in asked]
