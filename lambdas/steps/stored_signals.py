"""Signals that hosts leave in the bucket in case their events are lost: the end of their part in an attempt, and the
progress of a chief once a minute. IAM lets each host write only its own file."""

from collections.abc import Iterator
from datetime import datetime

from lambdas.aws import s3
from lambdas.steps.observability import logger
from trainyard.protocol import keys, signals, sources
from trainyard.protocol.signals import Ending, Failed, Sent
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class StoredSignal:
    """A signal in the bucket. Its host also sent it as an event."""

    at: datetime
    sent: Sent

    @property
    def is_ending(self) -> bool:
        """Return True if the host has ended its part in the attempt."""
        return isinstance(self.sent.signal, Ending)


def endings_of(bucket: str, run: str, attempt: int) -> list[StoredSignal]:
    """Return the ends that hosts of this attempt reported, oldest first."""
    found = list_signals(bucket, run, attempt)
    return sorted((left for left in found if left.is_ending), key=lambda left: left.at)


def list_signals(bucket: str, run: str, attempt: int) -> Iterator[StoredSignal]:
    """Return the signals that hosts of this attempt left. Invalid files are logged and skipped."""
    for key in s3.list_keys(bucket, keys.copies_of_signals(run, attempt)):
        sent = _read(bucket, key)
        if isinstance(sent, Sent) and sent.at:
            yield StoredSignal(at=sent.at, sent=sent)
        else:
            logger.warning(
                "%s is not a signal of a host: %s", key, "it has no time" if isinstance(sent, Sent) else sent
            )


def final_report_of(bucket: str, run: str, attempt: int, instance: str) -> tuple[Sent, Failed] | None:
    """Return the failure that a host could only leave in the bucket because it may not put events."""
    for key in s3.list_keys(bucket, keys.final_reports(run, attempt)):
        if sources.writer_of(key) == instance:
            sent = _read(bucket, key)
            if isinstance(sent, Sent) and isinstance(sent.signal, Failed):
                return sent, sent.signal
            logger.warning("%s is not a failure of a host: %s", key, sent)
    return None


def _read(bucket: str, key: str) -> Sent | str:
    try:
        detail = s3.get_json(bucket, key) or {}
    except ValueError as error:
        return str(error)
    sent = signals.decode(str(detail.get("signal")), detail)
    if isinstance(sent, Sent) and sent.instance != sources.writer_of(key):
        return f"it names another host, {sent.instance}"
    return sent
