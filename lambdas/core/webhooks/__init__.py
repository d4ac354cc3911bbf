"""Webhooks: which of them get a message, and the requests that they get. Pure."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from trainyard.protocol.webhooks import ME, Attribute, NotificationKind, Webhook, kind_in, name_in
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Message:
    """A notification as the yard's topic delivers it."""

    id: str
    at: datetime
    kind: NotificationKind
    subject: str
    text: str
    run: str = ""
    submitter: str = ""
    notify: tuple[str, ...] = ()
    """The targets in `notify` of the job."""

    @staticmethod
    def of(sns: Mapping[str, Any]) -> "Message":
        """Return the message in a record of SNS. A message without a kind is an alarm of CloudWatch."""
        attributes = sns.get("MessageAttributes") or {}
        given = {name: str(value.get("Value", "")) for name, value in attributes.items()}
        kind = given.get(Attribute.KIND)
        body = str(sns["Message"])
        return Message(
            id=str(sns["MessageId"]),
            at=datetime.fromisoformat(str(sns["Timestamp"])),
            kind=NotificationKind(kind) if kind else NotificationKind.ALARM,
            subject=str(sns.get("Subject") or "A message of the yard"),
            text=body if kind else _describe_alarm(body),
            run=given.get(Attribute.RUN, ""),
            submitter=given.get(Attribute.SUBMITTER, ""),
            notify=tuple(filter(None, given.get(Attribute.NOTIFY, "").split(","))),
        )


def _describe_alarm(body: str) -> str:
    """Return description and reason of an alarm of CloudWatch, or the text itself for anything else."""
    try:
        alarm = json.loads(body)
        lines = (alarm.get("AlarmDescription"), alarm.get("NewStateReason"))
    except (ValueError, AttributeError):
        return body
    return "\n".join(str(line) for line in lines if line) or body


@dataclass(frozen=True)
class Hooks:
    """The webhooks that may get a message."""

    of_yard: Mapping[str, Webhook]
    """The webhooks of the yard, by name."""
    own: Webhook | None
    """The webhook of the submitter."""

    def select(self, message: Message) -> dict[str, Webhook]:
        """Return the webhooks that get the message, by name or ME."""
        named = {name_in(target) for target in message.notify if self._find(target)}
        return {
            name: hook
            for name, hook in self._all.items()
            if message.kind in hook.on and (name in named or not hook.named_only)
        }

    def find_missing(self, message: Message) -> tuple[str, ...]:
        """Return the targets of the job that were removed, or registered with another kind, after its submission."""
        return tuple(target for target in message.notify if self._find(target) is None)

    @property
    def _all(self) -> dict[str, Webhook]:
        return {**self.of_yard, **({ME: self.own} if self.own else {})}

    def _find(self, target: str) -> Webhook | None:
        hook = self._all.get(name_in(target))
        return hook if hook and kind_in(target) in ("", hook.kind) else None
