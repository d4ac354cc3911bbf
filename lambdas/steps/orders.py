"""Orders to the hosts of a run: start an attempt, or leave it (docs/contracts/signals.md).

Each goes two ways: as the run's `order.json`, which its hosts look at, and by Systems Manager where that knows them. A
host obeys whichever comes first, once. So neither a host that Systems Manager does not know nor Systems Manager's own
trouble keeps a gang waiting.
"""

from collections.abc import Collection

from lambdas.aws import s3, ssm
from lambdas.steps.observability import logger
from trainyard.core.model.errors import ServiceUnavailable
from trainyard.protocol import keys, sources
from trainyard.protocol import orders as protocol
from trainyard.protocol.orders import Order, OrderKind


def give(order: Order, *, bucket: str, document: str) -> tuple[str, ...] | None:
    """Give the order; the hosts that have it from the bucket alone. Given again it changes nothing.

    None, and nobody has it, where one stands that comes after it: the next attempt's start, or its own one's stop."""
    if not _write(bucket, order):
        return None
    given = {"Run": order.run, "Attempt": str(order.attempt)}
    try:
        return ssm.send_to_known(
            document, order.hosts, given, comment=f"{order.run} {order.word} {order.attempt}"
        )
    except ServiceUnavailable as trouble:
        logger.warning("%s: %s by the bucket alone: %s", order.run, order.word, trouble.reason)
        return order.hosts


def started(bucket: str, run: str) -> int:
    """The attempt whose start is the run's last order; 0 where that was to leave, or there is none."""
    there = s3.get_tagged(bucket, keys.order(run))
    order = _read(there.content) if there else None
    return order.attempt if order and order.word is OrderKind.START else 0


def taken(bucket: str, run: str, attempt: int) -> Collection[str]:
    """The hosts whose agent has the order to leave that attempt, as they have left word of in the bucket."""
    found = s3.keys(bucket, keys.leaving(run, attempt))
    return frozenset(sources.writer_of(key) for key in found)


def _write(bucket: str, order: Order) -> bool:
    """Whether it stands then: of a stop that is late and the next attempt's start the start stays, and a start never
    takes back that its attempt is over."""
    key = keys.order(order.run)
    while True:
        there = s3.get_tagged(bucket, key)
        last = _read(there.content) if there else None
        if last and last.sort_key >= order.sort_key:
            return last.sort_key == order.sort_key
        if s3.put_json_once(bucket, key, protocol.encode(order), over=there.etag if there else None):
            return True


def _read(content: bytes) -> Order | None:
    """Return the order that stands in the bucket; None for a text that is none, which any order replaces."""
    try:
        return protocol.decode(content)
    except ValueError as error:
        logger.warning("what stands for the last order is none: %s", error)
        return None
