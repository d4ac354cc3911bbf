"""Try a webhook: send it a message at once, and answer with the result. `trainyard webhook test` calls this function.

It is a function of its own, because a user who may call `notify` could send any message in the yard's name."""

from uuid import uuid4

from lambdas import environment
from lambdas.core.webhooks import Message
from lambdas.needs import Needs, may
from lambdas.steps import webhooks
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import clock
from lambdas.steps.webhooks import WebhookSettings
from trainyard.protocol.webhooks import ME, NOT_REGISTERED, NotificationKind
from trainyard.values.lazy import dataclass

NEEDS = Needs(WebhookSettings, (may("read webhooks"),))


@dataclass(frozen=True, kw_only=True)
class TryInput:
    name: str
    """The name of a webhook of the yard, or ME."""
    user: str
    """The caller."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    is_sent: bool
    problem: str = ""
    """Why the webhook did not take the message."""


@entry_point
def handler(given: TryInput) -> Tried:
    yard = environment.read(WebhookSettings)
    hooks = webhooks.find(yard.yard, given.user)
    hook = hooks.own if given.name == ME else hooks.of_yard.get(given.name)
    if hook is None:
        return Tried(is_sent=False, problem=NOT_REGISTERED)
    message = Message(
        id=f"test-{uuid4()}",
        at=clock(),
        kind=NotificationKind.END,
        subject=f"Trainyard {yard.yard}: a test of this webhook",
        text=f"{given.user} tests this webhook. No run has ended.",
        submitter=given.user,
    )
    (result,) = webhooks.send(message, {given.name: hook}, yard.networks, clock())
    return Tried(is_sent=not result.problem, problem=result.problem)
