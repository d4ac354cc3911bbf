"""What answers the token of a state that waits for a document or an image, or that may not be failed."""

from typing import ClassVar

from lambdas.core.model.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Done:
    """A document has ended well: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "done"


@dataclass(frozen=True, kw_only=True)
class Available:
    """EC2 has made the image: what answers the token of a state that waits for it."""

    kind: ClassVar[str] = "available"
    image: str


@dataclass(frozen=True, kw_only=True)
class Denied:
    """What answers a token that the role may not fail: the next state begins, and finds in the ledger that the attempt
    has ended."""

    kind: ClassVar[str] = "error"
    error: str
    cause: str
    train_seconds: int = 61
    heartbeat_seconds: int = 60
