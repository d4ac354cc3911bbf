"""The verdicts on a host, and the tag that keeps one until the next patrol."""

from datetime import datetime
from enum import StrEnum
from typing import ClassVar, assert_never

from trainyard.values import wire
from trainyard.values.lazy import dataclass


class Cause(StrEnum):
    """What a verdict rests on, as far as a later patrol must know it."""

    BUSY = "busy"
    ORPHAN = "orphan"
    UNKNOWN = "unknown"
    STOPPED = "stopped"
    IDLE = "idle"
    LEASE = "lease"
    LIMITS = "limits"

    @property
    def is_by_metrics(self) -> bool:
        match self:
            case Cause.BUSY | Cause.IDLE | Cause.UNKNOWN:
                return True
            case Cause.ORPHAN | Cause.STOPPED | Cause.LEASE | Cause.LIMITS:
                return False
        assert_never(self)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`since` is when its cause was first seen; `saves` the dollars an hour that acting on it saves. A reason is read
    minutes later: it names instants, no spans until now, and `until` is the instant from which it is untrue."""

    kind: ClassVar[str]
    reason: str
    cause: Cause | None = None
    since: datetime | None = None
    until: datetime | None = None
    saves: float = 0.0

    @property
    def word(self) -> str:
        """As the tag has it: `keep`, `warn-orphan`, `stop-idle`."""
        return f"{self.kind}-{self.cause}" if self.cause else self.kind


class Keep(Verdict):
    """Nothing is done."""

    kind = "keep"


class Warn(Verdict):
    """Nothing is done yet, and somebody is told."""

    kind = "warn"


class Stop(Verdict):
    """EC2 stops it: its disk stays, and it can be started again."""

    kind = "stop"


class Archive(Verdict):
    """It becomes an image, then it is terminated: it can be launched again from the image, in any zone."""

    kind = "archive"


class Terminate(Verdict):
    """It ends, with its disk."""

    kind = "terminate"


ACTS = (Stop.kind, Archive.kind, Terminate.kind)


@dataclass(frozen=True)
class Ask:
    """Only its metrics can tell."""

    reason: str


@dataclass(frozen=True)
class Earlier:
    """What the patrol before said of the host: `word` of its verdict, and since when that cause is seen."""

    word: str
    since: datetime

    @property
    def kind(self) -> str:
        return self.word.partition("-")[0]

    @property
    def cause(self) -> Cause | None:
        word = self.word.partition("-")[2]
        return next((cause for cause in Cause if cause == word), None)

    def to_tag(self) -> str:
        """The value of the tag Tag.VERDICT."""
        return f"{self.word} {wire.stamp(self.since)}"

    @staticmethod
    def of_tag(text: str | None, now: datetime) -> "Earlier | None":
        """None for a host that was never judged, and for a tag that somebody else wrote: one from the future, too."""
        word, _, since = (text or "").partition(" ")
        try:
            found = Earlier(word, wire.instant(since)) if word and since else None
        except ValueError:
            return None
        return found if found and found.since <= now else None
