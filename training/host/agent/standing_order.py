"""The standing order in the bucket: a second way for orders, for hosts that Systems Manager has not registered yet.

order.json in the run's folder holds the run's latest order. The agent reads it once a second while it waits, and every
5 s while a program runs. Usually S3 answers 304, without a body.
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
RUNNING_LOOK_SECONDS = 5.0
SLACK_SECONDS = 0.1
"""A turn that comes a little early counts as due."""


def seconds_between_looks(phase: str) -> float:
    """Return the interval between two looks in this phase of the agent (state.State)."""
    return {"waiting": LOOK_SECONDS, "done": math.inf}.get(phase, RUNNING_LOOK_SECONDS)


class StandingOrder:
    """Polls the run's order for this host (`instance`, `sender`). `phase` returns the agent's phase. In `mailbox`, the
    bucket with the host's own role, this host confirms the order to stop."""

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
        """Look if it is due. Call it every LOOK_SECONDS."""
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
            if order.kind is OrderKind.STOP:
                self._mailbox.write(confirmation_key(order, self._sender), b"{}")
        self._seen = found.etag


def read(text: bytes, *, instance: str) -> Order | None:
    """Return the order for this host; None if it is for others. Raises HostTrouble if the text is not an order."""
    try:
        order = protocol.decode(text)
    except ValueError as error:
        raise HostTrouble(
            f"order.json of the run is not an order ({error}): only the yard writes it"
        ) from error
    return order if instance in order.hosts else None


def confirmation_key(order: Order, sender: Sender) -> str:
    """Return the key of a host's confirmation of the order to stop."""
    return sender.key(keys.drain_confirmations(order.run, order.attempt))
