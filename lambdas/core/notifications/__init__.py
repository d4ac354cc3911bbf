"""Notifications to the yard's subscribers: when one is due, and its text; one module for each subject. Pure."""

from collections.abc import Iterable

from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Notification:
    """A message to the subscribers of the yard's topic. `steps/notification.py` sends it."""

    subject: str
    lines: Iterable[str]
    """May be a generator: it is read only if the notification is sent."""
    once_key: str = ""
    """The logbook's key of a notification that is sent once. Empty: the sender keeps the record."""

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)
