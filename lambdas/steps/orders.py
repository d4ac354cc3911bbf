"""Orders to the hosts of a run: start an attempt, or leave it (docs/contracts/signals.md).

Each order goes two ways: as the run's `order.json`, which its hosts poll, and through Systems Manager to registered
hosts. A host obeys the first copy and ignores the second. Therefore a gang never waits for Systems Manager."""

from collections.abc import Collection

from lambdas.aws import s3, ssm
from lambdas.steps.observability import logger
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.protocol import keys, sources
from trainyard.protocol import orders as protocol
from trainyard.protocol.orders import Order, OrderKind


def give(order: Order, *, bucket: str, document: str) -> tuple[str, ...] | None:
    """Send the order; return the hosts that have it only from the bucket. A repeated call changes nothing.

    Return None without sending if a later order exists: the start of the next attempt, or the stop of this one."""
    if not _write(bucket, order):
        return None
    given = {"Run": order.run, "Attempt": str(order.attempt)}
    try:
        return ssm.send_to_registered(
            document, order.hosts, given, comment=f"{order.run} {order.kind} {order.attempt}"
        )
    except ServiceUnavailable as trouble:
        logger.warning("%s: %s only through the bucket: %s", order.run, order.kind, trouble.reason)
        return order.hosts


def find_started_attempt(bucket: str, run: str) -> int:
    """Return the attempt that the run's last order starts; 0 if that order is a stop, or if there is none."""
    there = s3.get_tagged(bucket, keys.order(run))
    order = _read(there.content) if there else None
    return order.attempt if order and order.kind is OrderKind.START else 0


def list_confirmations(bucket: str, run: str, attempt: int) -> Collection[str]:
    """Return the hosts whose agents have recorded the stop order of that attempt in the bucket."""
    found = s3.list_keys(bucket, keys.drain_confirmations(run, attempt))
    return frozenset(sources.writer_of(key) for key in found)


def _write(bucket: str, order: Order) -> bool:
    """Write the order, unless a later one exists; return whether the order is in place. A late stop does not replace
    the start of the next attempt, and a start does not replace the stop of its own attempt."""
    key = keys.order(order.run)
    while True:
        there = s3.get_tagged(bucket, key)
        last = _read(there.content) if there else None
        if last and last.sort_key >= order.sort_key:
            return last.sort_key == order.sort_key
        if s3.put_json_once(bucket, key, protocol.encode(order), over=there.etag if there else None):
            return True


def _read(content: bytes) -> Order | None:
    """Return the order in the bucket; None if the file is not an order. Any order replaces such a file."""
    try:
        return protocol.decode(content)
    except ValueError as error:
        logger.warning("order.json is not an order: %s", error)
        return None
