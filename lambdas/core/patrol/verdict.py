"""The verdicts on a host, and the tag that keeps one until the next patrol."""

from datetime import datetime
from typing import ClassVar

from trainyard.protocol.verdicts import Action, Cause, Word
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


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
        return f"{self.word} {serialization.timestamp(self.since)}"

    @staticmethod
    def of_tag(text: str | None, now: datetime) -> "Earlier | None":
        """None for a host that was never judged, and for a tag that somebody else wrote: one from the future, too."""
        word, _, since = (text or "").partition(" ")
        try:
            found = Earlier(Word(word), serialization.parse_timestamp(since))
            return found if found.word.action and found.since <= now else None
        except ValueError:
            return None
