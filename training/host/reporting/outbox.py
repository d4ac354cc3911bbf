"""The outbox: signals of this host on the bus, in order, delivered late rather than never.

A signal that is superseded before it could be sent (an older progress, an older ready) is left out. When the host may
not put events for a while (denials.py), its final report goes to the bucket and the host powers itself off.
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
SIGN_SECONDS = 55.0
"""How often a chief's host leaves its progress in the bucket too: while the bus or the ledger is down, the yard sees
there that the attempt goes on."""
RETRY_SECONDS = 5.0
DENIED = {"AccessDeniedException", "AccessDenied"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sender:
    """This host as IAM names it: `user` is its aws:userid, the only one under which it may put events."""

    bus: str
    user: str

    @staticmethod
    def of(instance: str, tags: Mapping[str, str]) -> "Sender":
        """Return the sender that the host's tags name. Raises KeyError naming a missing tag."""
        return Sender(tags[Tag.BUS], f"{tags[Tag.ROLE]}:{instance}")

    def of_peer(self, instance: str) -> "Sender":
        """Return another host of the yard; all hosts have one role."""
        return Sender(self.bus, f"{self.user.partition(':')[0]}:{instance}")

    def key(self, folder: str) -> str:
        """Return the key of the host's own file in a folder of its attempt."""
        return f"{folder}{self.user}.json"


def entry(sent: Sent, sender: Sender) -> dict[str, str]:
    """Return what PutEvents takes."""
    return {
        "Source": sources.host_source(sender.user),
        "DetailType": sent.signal.word,
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
        raise HostTrouble(f"the bus {bus} does not take {word}: {error}; try again") from error
    if answer.get("FailedEntryCount"):
        refused = answer["Entries"][0]
        if refused.get("ErrorCode") in DENIED:
            raise AccessDenied("events:PutEvents", f"the bus {bus}")
        raise HostTrouble(f"the bus {bus} refused {word}: {refused}; try again")


def failed(ended: ending.Failed, tail: str, *, how_far: Mapping[str, Any] | None = None) -> signals.Failed:
    """Return the signal that a program or this host failed. `tail` holds the program's last lines, `how_far` its last
    progress and what it found when it restored."""
    return signals.Failed(
        kind=ended.kind,
        reason=ended.reason,
        tail=tail,
        exit_code=ended.exit_code,
        final=ended.final,
        advised=ended.advised,
        **(how_far or {}),
    )


def final_report(unsaid: Sent, reason: str, *, exit_code: int | None) -> Sent:
    """Return the failure of a host that could not send a signal any more."""
    signal = unsaid.signal
    return Sent(
        run=unsaid.run,
        attempt=unsaid.attempt,
        instance=unsaid.instance,
        at=unsaid.at,
        signal=signals.Failed(
            kind=FailureKind.HOST,
            reason=reason,
            tail=signal.tail if isinstance(signal, signals.Failed) else "",
            exit_code=exit_code,
            final=True,
            unsaid=signal.word,
        ),
    )


class Outbox(threading.Thread):
    """Sends signals in the order they were put. `on_mute` is called once when PutEvents is denied."""

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
        self._left: Sent | None = None
        self._sign_at = float("-inf")

    def put(self, attempt: int, signal: Signal) -> None:
        """Send the signal about that attempt, behind those that wait."""
        sent = Sent(
            run=self._run_id, attempt=attempt, instance=self._instance, at=datetime.now(UTC), signal=signal
        )
        shown = {key: value for key, value in signals.known(signal).items() if key != "tail"}
        logger.info("signal %s %s", signal.word, shown)
        with self._changed:
            if isinstance(signal, SUPERSEDED):
                self._waiting = [old for old in self._waiting if old.signal.word != signal.word]
            self._waiting.append(sent)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is sent; False when it could not be sent in time."""
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
            newer.signal.word == signal.word for newer in self._waiting
        )

    def _deliver(self, sent: Sent) -> bool:
        """Return True once nothing more is to be done about this signal."""
        trouble = self._put(sent)
        self._leave_word(sent)
        if trouble is None:
            self._denials.clear()
            return True
        logger.warning("%s", trouble.reason)
        for end in self._endings_that_wait():
            self._leave_word(end)
        if self._denials.ends_tries(trouble):
            self._leave_final_report(sent)
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

    def _leave_word(self, sent: Sent) -> None:
        """Leave an ending, and now and then a progress, in the bucket too: the bus may be down or lose the event, and
        the ledger may be down."""
        left, now = self._left, time.monotonic()
        has_ended = left is not None and isinstance(left.signal, Ending) and left.attempt >= sent.attempt
        is_due = now - self._sign_at >= SIGN_SECONDS
        is_sign = isinstance(sent.signal, Progress) and is_due and not has_ended
        if sent == left or not (isinstance(sent.signal, Ending) or is_sign):
            return
        try:
            self._write(keys.words(self._run_id, sent.attempt), sent)
        except HostTrouble as trouble:
            logger.warning("%s could not be left in the bucket: %s", sent.signal.word, trouble.reason)
            return
        self._left = sent
        if is_sign:
            self._sign_at = now

    def _leave_final_report(self, sent: Sent) -> None:
        if self._mute:
            return
        self._mute = True
        reason = (
            f"access denied: the host role lacks events:PutEvents on the bus {self._sender.bus}, so nobody can hear "
            "this host; allow it in the host role and start again"
        )
        try:
            report = final_report(sent, reason, exit_code=None)
            self._write(keys.last_words(self._run_id, sent.attempt), report)
        except HostTrouble as trouble:
            logger.warning("the final report could not be left either: %s", trouble.reason)
        self._on_mute(reason)

    def _write(self, folder: str, sent: Sent) -> None:
        self._bucket.write(self._sender.key(folder), json.dumps(signals.encode(sent)).encode())
