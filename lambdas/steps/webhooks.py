"""Webhooks of the yard: read them, and send them a message."""

import binascii
import json
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as Late
from datetime import datetime

from lambdas.aws import ssm
from lambdas.core.webhooks import Hooks, Message
from lambdas.core.webhooks.requests import make_request
from lambdas.environment import YardSettings
from lambdas.steps.http_post import NoAnswerError, RefusedError, post
from lambdas.steps.observability import logger
from trainyard.core.model import addresses, submitter
from trainyard.core.model.addresses import Network
from trainyard.protocol import webhooks
from trainyard.protocol.webhooks import Webhook
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.text import printable

MOST_SECONDS = 20.0
"""The longest time for one message, also if receivers send their answers a byte at a time."""
MOST_AT_ONCE = 16
RETRIED = (408, 425, 429)
"""Answers below 500 after which a later try may succeed."""
MOST_SAID = 200


class WebhookSettings(YardSettings):
    internal_webhooks: tuple[str, ...] = ()
    """Networks of internal servers that webhooks may reach."""

    @property
    def networks(self) -> tuple[Network, ...]:
        return addresses.networks_of(self.internal_webhooks)


@dataclass(frozen=True)
class Delivery:
    """The result of one request to a webhook."""

    name: str
    problem: str = ""
    """Why the webhook did not take the message. Empty: it did."""
    is_final: bool = True
    """False if a later try may succeed."""


def find(yard: str, sender: str) -> Hooks:
    """Return the webhooks of the yard and of this user. A malformed one is logged and left out."""
    folder = webhooks.folder(yard)
    of_yard = {
        name.removeprefix(f"{folder}/"): hook
        for name, value in ssm.read_secrets_below(folder).items()
        if (hook := _parse(name, value))
    }
    if sender in ("", submitter.UNKNOWN):
        return Hooks(of_yard, None)
    name = webhooks.own_parameter(yard, sender)
    value = ssm.read_secret(name)
    return Hooks(of_yard, _parse(name, value) if value else None)


def _parse(name: str, value: str) -> Webhook | None:
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if serialization.faults(Webhook, found):  # the faults contain the secret
        logger.error("the parameter %s is not a webhook", name)
        return None
    return serialization.from_json(Webhook, found)


def send(
    message: Message, hooks: Mapping[str, Webhook], networks: Collection[Network], now: datetime
) -> Iterator[Delivery]:
    """Send the message to all webhooks at once, and yield each result as it arrives."""
    if not hooks:
        return
    pool = ThreadPoolExecutor(MOST_AT_ONCE)
    names = {pool.submit(_post, hook, message, networks, now): name for name, hook in hooks.items()}
    waiting = dict(names)
    try:
        for done in as_completed(names, timeout=MOST_SECONDS):
            problem, is_final = done.result()
            yield Delivery(waiting.pop(done), problem, is_final)
    except Late:
        for name in waiting.values():
            yield Delivery(name, f"it did not answer within {MOST_SECONDS:g} s", is_final=False)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _post(hook: Webhook, message: Message, networks: Collection[Network], now: datetime) -> tuple[str, bool]:
    """Send the request. Return the problem, which is empty for success, and whether it is final."""
    try:
        request = make_request(hook, message, now)
        return _judge(*post(hook.url, request.body, request.headers, networks))
    except RefusedError as error:
        return str(error), True
    except binascii.Error:
        return "its key is malformed", True
    except NoAnswerError as error:
        return printable(str(error), MOST_SAID), False


def _judge(status: int, answer: str) -> tuple[str, bool]:
    if 200 <= status < 300:
        return "", True
    if 300 <= status < 400:
        return f"it answered {status}: redirects are not followed, so register the final address", True
    said = printable(answer.strip(), MOST_SAID)
    more = f" ({said})" if said else ""
    return f"it answered {status}{more}", status < 500 and status not in RETRIED
