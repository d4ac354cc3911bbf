"""Notifications to the yard's subscribers: when one is due, and its text; one module for each subject. Pure."""

from collections.abc import Iterable, Mapping

from trainyard.protocol.ledger.run import Outcome
from trainyard.protocol.webhooks import Attribute, NotificationKind
from trainyard.values.lazy import dataclass


@dataclass(frozen=True)
class Notification:
    """A message to the subscribers of the yard's topic. `steps/notification.py` sends it."""

    subject: str
    lines: Iterable[str]
    """May be a generator: it is read only if the notification is sent."""
    kind: NotificationKind
    once_key: str = ""
    """The logbook's key of a notification that is sent once. Empty: the sender keeps the record."""
    run: str = ""
    submitter: str = ""
    """The user who submitted the run."""
    notify: tuple[str, ...] = ()
    """The targets in `notify` of the run's job."""

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def attributes(self) -> Mapping[Attribute, str]:
        """Return the attributes that decide which webhooks the function `notify` calls."""
        values = {
            Attribute.KIND: self.kind.value,
            Attribute.RUN: self.run,
            Attribute.SUBMITTER: self.submitter,
            Attribute.NOTIFY: ",".join(self.notify),
        }
        return {name: value for name, value in values.items() if value}

    @staticmethod
    def kind_of_end(outcome: str) -> NotificationKind:
        """Return the kind of the notification of an end with this Outcome."""
        failed = outcome in (Outcome.FAILED, Outcome.REFUSED)
        return NotificationKind.FAILURE if failed else NotificationKind.END
