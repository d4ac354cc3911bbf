"""Edges of the workflow launch. Its Plan and Launch are train's."""

from lambdas.core.edges.common import Answer
from lambdas.core.edges.conclude import Concluded
from trainyard.values.lazy import dataclass


class HostReached(Answer):
    """Systems Manager knows the host, so a session on it can begin."""

    kind = "launched"


@dataclass(frozen=True, kw_only=True)
class LaunchConcluded(Concluded):
    """The host, how to reach it, what it costs and until when at most; nothing of that where there is none. `held`:
    until when nobody ends it, used or not, where that was asked for; `dev`: the name of a dev host."""

    image: str | None = None
    instance: str | None = None
    address: str | None = None
    zone: str | None = None
    type: str | None = None
    market: str | None = None
    price: float | None = None
    until: str | None = None
    held: str | None = None
    connect: str | None = None
    dev: str | None = None
