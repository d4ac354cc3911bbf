"""The order that stands in the bucket: the second way of each, for a host that Systems Manager does not know (yet).

order.json in the run's folder names the run's latest order. The agent looks at it once a second while it waits, every
five seconds while a program runs; mostly S3 answers 304, without a body.
"""

import math
import time
from collections.abc import Callable

from training.host import orders
from training.host.bucket import Bucket
from training.host.errors import HostTrouble
from training.host.paths import Paths
from training.host.reporting.outbox import Sender
from trainyard.protocol import keys
from trainyard.protocol import orders as protocol
from trainyard.protocol.orders import Order, OrderKind

LOOK_SECONDS = 1.0
SELDOM_SECONDS = 5.0
SLACK_SECONDS = 0.1
"""A turn that comes a little early is not to wait for the next."""


def seconds_between_looks(phase: str) -> float:
    """By the phase of the agent (state.State)."""
    return {"waiting": LOOK_SECONDS, "done": math.inf}.get(phase, SELDOM_SECONDS)


class StandingOrder:
    """`instance` is this host, as its `sender`; `phase` is asked for the agent's. In `mailbox` it leaves word: the
    bucket as the host's own role may use it."""

    def __init__(
        self,
        bucket: Bucket,
        mailbox: Bucket,
        run: str,
        paths: Paths,
        *,
        instance: str,
        sender: Sender,
        phase: Callable[[], str],
    ) -> None:
        self._bucket, self._mailbox, self._run, self._paths = bucket, mailbox, run, paths
        self._instance, self._sender, self._phase = instance, sender, phase
        self._seen = ""
        self._looked_at = float("-inf")

    def turn(self) -> None:
        """To be called every LOOK_SECONDS."""
        now = time.monotonic()
        if now - self._looked_at >= seconds_between_looks(self._phase()) - SLACK_SECONDS:
            self._looked_at = now
            self._look()

    def _look(self) -> None:
        found = self._bucket.read_if_changed(keys.order(self._run), self._seen)
        if found is None:
            return
        order = read(found.body, instance=self._instance)
        if order:
            orders.give(order, self._paths)
            if order.word is OrderKind.STOP:
                self._mailbox.write(taken_key(order, self._sender), b"{}")
        self._seen = found.etag


def read(text: bytes, *, instance: str) -> Order | None:
    """Return the order for this host; None if it is for others. Raises HostTrouble for a text that is no order."""
    try:
        order = protocol.decode(text)
    except ValueError as error:
        raise HostTrouble(f"order.json of the run is no order ({error}): only the yard writes it") from error
    return order if instance in order.hosts else None


def taken_key(order: Order, sender: Sender) -> str:
    """Where a host leaves word that it has the order to leave."""
    return sender.key(keys.leaving(order.run, order.attempt))
