"""Notify: send each notification of the yard's topic to the webhooks that get it.

Lambda calls the function again after one minute, and after two more, while a webhook does not take a message. The
logbook records the webhooks that did, so each gets a message once. A message that a webhook refuses for good becomes a
dead letter at once, the others after the third try."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from lambdas import environment
from lambdas.aws import messages
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.core.webhooks import Message
from lambdas.needs import Needs, may
from lambdas.steps import webhooks
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import clock, logger
from lambdas.steps.webhooks import Delivery, WebhookSettings
from trainyard.command_line import command_line
from trainyard.core.model.errors import Infrastructure
from trainyard.protocol.webhooks import ME
from trainyard.values.lazy import dataclass


class NotifySettings(WebhookSettings):
    queue_url: str
    """The queue of dead letters."""


NEEDS = Needs(
    NotifySettings,
    (
        may("read webhooks"),
        may("send dead letters"),
        may("use the ledger", "BatchGetItem", "PutItem"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class NotifyInput:
    """An event of SNS, which has one record."""

    records: tuple[Mapping[str, Any], ...] = field(metadata={"json_key": "Records"})


@dataclass(frozen=True, kw_only=True)
class Notified:
    """The webhooks that took the message, for the log."""

    sent: tuple[str, ...]


@entry_point
def handler(given: NotifyInput) -> Notified:
    yard = environment.read(NotifySettings)
    sent: list[str] = []
    for record in given.records:
        sent += _notify(yard, Message.of(record["Sns"]))
    return Notified(sent=tuple(sent))


def _notify(yard: NotifySettings, message: Message) -> list[str]:
    """Send the message to the webhooks that lack it. Raise Infrastructure if a later try may reach some of them."""
    book, hooks = Logbook(yard.table_name), webhooks.find(yard.yard, message.submitter)
    for target in hooks.find_missing(message):
        logger.warning("the webhook %s of the job's notify does not exist any more", target)
    chosen = hooks.select(message)
    marks = {name: f"webhook#{message.id}#{name}" for name in chosen}
    done = book.find_once(marks.values()) if chosen else set()
    open_hooks = {name: hook for name, hook in chosen.items() if marks[name] not in done}
    sent, failed = [], []
    for each in webhooks.send(message, open_hooks, yard.networks, clock()):
        if each.problem and not each.is_final:
            failed.append(each)
            continue
        if each.problem:
            messages.give_up(yard.queue_url, _letter(message, each))
        else:
            sent.append(each.name)
        book.once(marks[each.name], clock())
    logger.info("%s (%s) was sent to %s", message.subject, message.kind, ", ".join(sent) or "no webhook")
    if failed:
        raise Infrastructure("; ".join(_explain(each, message) for each in failed))
    return sent


def _letter(message: Message, refused: Delivery) -> dict[str, str]:
    return {
        "webhook": refused.name,
        "subject": message.subject,
        "run": message.run,
        "reason": _explain(refused, message),
    }


def _explain(each: Delivery, message: Message) -> str:
    who = f"the webhook of {message.submitter}" if each.name == ME else f"the webhook {each.name}"
    return f"{who} did not get the message: {each.problem}. To try again: {command_line('webhook', 'test', each.name)}"
