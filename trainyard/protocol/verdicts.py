"""The verdicts of patrol on a host in tags and rows: an action, and the cause that a later pass needs."""

from enum import StrEnum
from typing import assert_never


class Cause(StrEnum):
    """The cause of a verdict."""

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
    """The action of patrol on a host."""

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
    def action(self) -> Action | None:
        """Return the action, or None for a word that patrol did not write."""
        return next((action for action in Action if action == self.partition("-")[0]), None)

    @property
    def cause(self) -> Cause | None:
        return next((cause for cause in Cause if cause == self.partition("-")[2]), None)
