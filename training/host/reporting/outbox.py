"""The outbox: send this host's signals to the bus, in order, and retry until they are delivered.

A signal that a newer one supersedes before it is sent (progress, ready) is dropped. If the host is denied PutEvents for
a while (denials.py), it writes its final report to the bucket and powers itself off.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from training.host.bucket import Bucket
from training.host.denials import Denials
from training.host.errors import AccessDenied, HostTrouble
from training.host.program import ending
from trainyard.protocol import keys, signals, sources
from trainyard.protocol.signals import Credentials, Ending, FailureKind, Progress, Ready, Sent, Signal
from trainyard.protocol.tags import Tag

SUPERSEDED = (Credentials, Ready, Progress)
COPY_SECONDS = 55.0
"""Interval at which a chief's host also writes its progress to the bucket. There the yard sees that the attempt
continues while the bus or the ledger is down."""
RETRY_SECONDS = 5.0
DENIED = {"AccessDeniedException", "AccessDenied"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sender:
    """The identity with which this host sends signals."""

    bus: str
    user: str
    """The host's aws:userid. IAM lets the host put events only under this name."""

    @staticmethod
    def of(instance: str, tags: Mapping[str, str]) -> "Sender":
        """Return the sender that the host's tags name. Raises KeyError naming a missing tag."""
        return Sender(tags[Tag.BUS], f"{tags[Tag.ROLE]}:{instance}")

    def peer(self, instance: str) -> "Sender":
        """Return the sender of another host of the yard. All hosts have the same role."""
        return Sender(self.bus, f"{self.user.partition(':')[0]}:{instance}")

    def key(self, folder: str) -> str:
        """Return the key of the host's own file in a folder of its attempt."""
        return f"{folder}{self.user}.json"


def entry(sent: Sent, sender: Sender) -> dict[str, str]:
    """Return the entry for PutEvents."""
    return {
        "Source": sources.host_source(sender.user),
        "DetailType": sent.signal.detail_type,
        "EventBusName": sender.bus,
        "Detail": json.dumps(signals.encode(sent)),
    }


def put(events: Any, event: Mapping[str, str]) -> None:
    """Put one `entry` on the bus, without an Outbox. Raises AccessDenied; raises HostTrouble if the bus refuses it."""
    bus, word = event["EventBusName"], event["DetailType"]
    try:
        answer = events.put_events(Entries=[event])
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] in DENIED:
            raise AccessDenied("events:PutEvents", f"the bus {bus}") from error
        raise HostTrouble(f"the bus {bus} did not accept {word}: {error}; try again") from error
    if answer.get("FailedEntryCount"):
        refused = answer["Entries"][0]
        if refused.get("ErrorCode") in DENIED:
            raise AccessDenied("events:PutEvents", f"the bus {bus}")
        raise HostTrouble(f"the bus {bus} refused {word}: {refused}; try again")


def failed_signal(
    ended: ending.Failed, tail: str, *, progress: Mapping[str, Any] | None = None
) -> signals.Failed:
    """Return the signal that a program or this host failed. `tail` holds the program's last lines, `progress` its last
    progress and the state that it had restored."""
    return signals.Failed(
        kind=ended.kind,
        reason=ended.reason,
        tail=tail,
        exit_code=ended.exit_code,
        final=ended.final,
        advised=ended.advised,
        **(progress or {}),
    )


def final_report(unsent: Sent, reason: str, *, exit_code: int | None) -> Sent:
    """Return the failure of a host that cannot send signals any more. `unsent` is the signal that it could not send."""
    signal = unsent.signal
    return Sent(
        run=unsent.run,
        attempt=unsent.attempt,
        instance=unsent.instance,
        at=unsent.at,
        signal=signals.Failed(
            kind=FailureKind.HOST,
            reason=reason,
            tail=signal.tail if isinstance(signal, signals.Failed) else "",
            exit_code=exit_code,
            final=True,
            unsaid=signal.detail_type,
        ),
    )


class Outbox(threading.Thread):
    """A thread that sends signals in their order. `on_mute` is called once if PutEvents is denied."""

    def __init__(
        self,
        events: Any,
        sender: Sender,
        bucket: Bucket,
        *,
        run: str,
        instance: str,
        on_mute: Callable[[str], None],
    ) -> None:
        super().__init__(name="outbox", daemon=True)
        self._events = events
        self._sender = sender
        self._bucket = bucket
        self._run_id = run
        self._instance = instance
        self._on_mute = on_mute
        self._changed = threading.Condition()
        self._waiting: list[Sent] = []
        self._sending = False
        self._mute = False
        self._denials = Denials()
        self._last_copy: Sent | None = None
        self._progress_copied_at = float("-inf")

    def put(self, attempt: int, signal: Signal) -> None:
        """Queue a signal about that attempt."""
        sent = Sent(
            run=self._run_id, attempt=attempt, instance=self._instance, at=datetime.now(UTC), signal=signal
        )
        shown = {key: value for key, value in signals.to_detail(signal).items() if key != "tail"}
        logger.info("signal %s %s", signal.detail_type, shown)
        with self._changed:
            if isinstance(signal, SUPERSEDED):
                self._waiting = [old for old in self._waiting if old.signal.detail_type != signal.detail_type]
            self._waiting.append(sent)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all signals are sent. Return False if the time is over before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._sending, seconds)

    def run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                sent = self._waiting.pop(0)
                self._sending = True
            delivered = self._deliver(sent)
            with self._changed:
                self._sending = False
                if not delivered and not self._is_superseded(sent.signal):
                    self._waiting.insert(0, sent)
                self._changed.notify_all()
                if not delivered:
                    self._changed.wait(RETRY_SECONDS)

    def _is_superseded(self, signal: Signal) -> bool:
        return isinstance(signal, SUPERSEDED) and any(
            newer.signal.detail_type == signal.detail_type for newer in self._waiting
        )

    def _deliver(self, sent: Sent) -> bool:
        """Send a signal, and return True if no further try is needed."""
        trouble = self._put(sent)
        self._copy_to_bucket(sent)
        if trouble is None:
            self._denials.clear()
            return True
        logger.warning("%s", trouble.reason)
        for end in self._endings_that_wait():
            self._copy_to_bucket(end)
        if self._denials.ends_tries(trouble):
            self._write_final_report(sent)
            return True
        return False

    def _put(self, sent: Sent) -> HostTrouble | None:
        try:
            put(self._events, entry(sent, self._sender))
        except HostTrouble as trouble:
            return trouble
        return None

    def _endings_that_wait(self) -> list[Sent]:
        with self._changed:
            return [sent for sent in self._waiting if isinstance(sent.signal, Ending)]

    def _copy_to_bucket(self, sent: Sent) -> None:
        """Write endings, and progress at intervals, to the bucket, too: the bus may be down or lose the event, and the
        ledger may be down."""
        last, now = self._last_copy, time.monotonic()
        has_ended = last is not None and isinstance(last.signal, Ending) and last.attempt >= sent.attempt
        is_due = now - self._progress_copied_at >= COPY_SECONDS
        is_progress = isinstance(sent.signal, Progress) and is_due and not has_ended
        if sent == last or not (isinstance(sent.signal, Ending) or is_progress):
            return
        try:
            self._write(keys.copies_of_signals(self._run_id, sent.attempt), sent)
        except HostTrouble as trouble:
            logger.warning(
                "%s could not be written to the bucket: %s", sent.signal.detail_type, trouble.reason
            )
            return
        self._last_copy = sent
        if is_progress:
            self._progress_copied_at = now

    def _write_final_report(self, sent: Sent) -> None:
        if self._mute:
            return
        self._mute = True
        reason = (
            f"access denied: the host role lacks events:PutEvents on the bus {self._sender.bus}, so this host cannot "
            "send signals; allow it in the host role and start again"
        )
        try:
            report = final_report(sent, reason, exit_code=None)
            self._write(keys.final_reports(self._run_id, sent.attempt), report)
        except HostTrouble as trouble:
            logger.warning("the final report could not be written either: %s", trouble.reason)
        self._on_mute(reason)

    def _write(self, folder: str, sent: Sent) -> None:
        self._bucket.write(self._sender.key(folder), json.dumps(signals.encode(sent)).encode())
