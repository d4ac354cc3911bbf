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


class Action(StrEnum):
    """What patrol does with a host."""

    KEEP = "keep"
    WARN = "warn"
    STOP = "stop"
    ARCHIVE = "archive"
    TERMINATE = "terminate"


ACTS = (Action.STOP, Action.ARCHIVE, Action.TERMINATE)


class Word(str):
    """A verdict in a tag or a row: `keep`, `warn-orphan`, `stop-idle`."""

    __slots__ = ()

    @staticmethod
    def of(action: Action, cause: Cause | None) -> "Word":
        return Word(f"{action}-{cause}" if cause else action)

    @property
    def action(self) -> Action:
        """Raises ValueError for a word that patrol has not written."""
        return Action(self.partition("-")[0])

    @property
    def cause(self) -> Cause | None:
        return next((cause for cause in Cause if cause == self.partition("-")[2]), None)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`since` is when its cause was first seen; `saves` the dollars an hour that acting on it saves. A reason is read
    minutes later: it names instants, no spans until now, and `until` is the instant from which it is untrue."""

    kind: ClassVar[Action]
    reason: str
    cause: Cause | None = None
    since: datetime | None = None
    until: datetime | None = None
    saves: float = 0.0

    @property
    def word(self) -> Word:
        return Word.of(self.kind, self.cause)


class Keep(Verdict):
    """Nothing is done."""

    kind = Action.KEEP


class Warn(Verdict):
    """Nothing is done yet, and somebody is told."""

    kind = Action.WARN


class Stop(Verdict):
    """EC2 stops it: its disk stays, and it can be started again."""

    kind = Action.STOP


class Archive(Verdict):
    """It becomes an image, then it is terminated: it can be launched again from the image, in any zone."""

    kind = Action.ARCHIVE


class Terminate(Verdict):
    """It ends, with its disk."""

    kind = Action.TERMINATE


@dataclass(frozen=True)
class Ask:
    """Only its metrics can tell."""

    reason: str


@dataclass(frozen=True)
class Earlier:
    """The verdict of the previous patrol on a host, and since when its cause is seen."""

    word: Word
    since: datetime

    def to_tag(self) -> str:
        """The value of the tag Tag.VERDICT."""
        return f"{self.word} {wire.stamp(self.since)}"

    @staticmethod
    def of_tag(text: str | None, now: datetime) -> "Earlier | None":
        """None for a host that was never judged, and for a tag that somebody else wrote: one from the future, too."""
        word, _, since = (text or "").partition(" ")
        try:
            found = Earlier(Word(word), wire.instant(since))
            return found if found.word.action and found.since <= now else None
        except ValueError:
            return None
