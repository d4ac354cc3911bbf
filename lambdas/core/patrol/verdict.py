"""Verdicts on a host, and the tag that keeps the last one until the next patrol."""

from datetime import datetime
from typing import ClassVar

from trainyard.protocol.verdicts import Action, Cause, Word
from trainyard.values import serialization
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A verdict. Users read its reason minutes later, so it names instants instead of time spans."""

    kind: ClassVar[Action]
    reason: str
    cause: Cause | None = None
    since: datetime | None = None
    """When the cause was first seen."""
    until: datetime | None = None
    """When the reason becomes untrue."""
    saves: float = 0.0
    """Dollars an hour that the act saves."""

    @property
    def word(self) -> Word:
        return Word.of(self.kind, self.cause)


class Keep(Verdict):
    """The host stays as it is."""

    kind = Action.KEEP


class Warn(Verdict):
    """The host stays as it is for now, and the subscribers of the yard are notified."""

    kind = Action.WARN


class Stop(Verdict):
    """EC2 stops the host: its disk stays, and the host can be started again."""

    kind = Action.STOP


class Archive(Verdict):
    """The host becomes an image and is terminated. It can be launched again from the image, in any zone."""

    kind = Action.ARCHIVE


class Terminate(Verdict):
    """The host is terminated, and its disk deleted."""

    kind = Action.TERMINATE


@dataclass(frozen=True)
class NeedsMetrics:
    """The verdict depends on metrics that have to be requested."""

    reason: str


@dataclass(frozen=True)
class Earlier:
    """The verdict of the last patrol, and when its cause was first seen."""

    word: Word
    since: datetime

    def to_tag(self) -> str:
        """Return the value of the tag Tag.VERDICT."""
        return f"{self.word} {serialization.timestamp(self.since)}"

    @staticmethod
    def of_tag(text: str | None, now: datetime) -> "Earlier | None":
        """Read the tag Tag.VERDICT. Return None for a host without a verdict, and for a tag from the future or of
        another form."""
        word, _, since = (text or "").partition(" ")
        try:
            found = Earlier(Word(word), serialization.parse_timestamp(since))
            return found if found.word.action and found.since <= now else None
        except ValueError:
            return None
