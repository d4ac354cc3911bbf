"""Signals: what this host says on the bus, in order, delivered late rather than never.

A signal that is superseded before it could be sent (an older progress, an older ready) is left out. When the host may
not put events for a while (denials.py), the last words go to the bucket and the host powers itself off.
"""

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from training.host.bucket import Bucket
from training.host.denials import Denials
from training.host.errors import AccessDenied, HostTrouble
from training.host.program.ending import Failed
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag
from trainyard.values import floats
from trainyard.values.wire import stamp

SUPERSEDED = {"credentials", "ready", "progress"}
ENDINGS = {"finished", "stopped", "failed"}
"""What ends a host's part in an attempt: left in the bucket too, since an event may be lost on its way."""
SIGN_OF_LIFE = "progress"
"""The signal of a chief's host that is left in the bucket too, once in SIGN_SECONDS: while the bus or the ledger is
down, the yard sees there that the attempt goes on."""
SIGN_SECONDS = 55.0
LARGEST = 1e15
"""Of any number in a signal (docs/contracts/signals.md)."""
RETRY_SECONDS = 5.0
DENIED = {"AccessDeniedException", "AccessDenied"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Signal:
    word: str
    attempt: int
    facts: dict[str, Any] = field(default_factory=dict)


def _countable(signal: Signal) -> dict[str, Any]:
    """Return the facts without numbers that the yard does not count up to: it would ignore them, too."""
    facts = {}
    for name, value in signal.facts.items():
        if isinstance(value, int | float) and LARGEST <= abs(value) < math.inf:
            logger.warning("%s: %s is left out, since it is %r", signal.word, name, value)
            value = None
        facts[name] = value
    return facts


def detail(signal: Signal, *, run: str, instance: str, at: datetime) -> dict[str, Any]:
    """The event's Detail, as docs/contracts/signals.md has it."""
    facts: dict[str, Any] = floats.with_texts(_countable(signal))
    return {
        "run": run,
        "attempt": signal.attempt,
        "instance": instance,
        "at": stamp(at),
        "signal": signal.word,
    } | facts


@dataclass(frozen=True, slots=True)
class Sender:
    """This host as IAM knows it, which lets it speak for no other: `user` is its aws:userid."""

    bus: str
    user: str

    @staticmethod
    def of(instance: str, tags: Mapping[str, str]) -> "Sender":
        """Raises KeyError naming a tag that is not there."""
        return Sender(tags[Tag.BUS], f"{tags[Tag.ROLE]}:{instance}")

    def of_peer(self, instance: str) -> "Sender":
        """Another host of the yard: one role is all hosts'."""
        return Sender(self.bus, f"{self.user.partition(':')[0]}:{instance}")

    @property
    def source(self) -> str:
        """Of its events."""
        return f"trainyard.host/{self.user}"

    def key(self, folder: str) -> str:
        """Return the key of the host's own file in a folder of its attempt."""
        return f"{folder}{self.user}.json"


def entry(signal: Signal, sender: Sender, event: dict[str, Any]) -> dict[str, str]:
    """What PutEvents is given; `event` is the signal's Detail."""
    return {
        "Source": sender.source,
        "DetailType": signal.word,
        "EventBusName": sender.bus,
        "Detail": json.dumps(event),
    }


def put(events: Any, asked: Mapping[str, str]) -> None:
    """One `entry`, for whoever has no Outbox. Raises AccessDenied; HostTrouble where the bus does not take it now."""
    bus, word = asked["EventBusName"], asked["DetailType"]
    try:
        answer = events.put_events(Entries=[asked])
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and error.response["Error"]["Code"] in DENIED:
            raise AccessDenied("events:PutEvents", f"the bus {bus}") from error
        raise HostTrouble(f"the bus {bus} does not take {word}: {error}; try again") from error
    if answer.get("FailedEntryCount"):
        refused = answer["Entries"][0]
        if refused.get("ErrorCode") in DENIED:
            raise AccessDenied("events:PutEvents", f"the bus {bus}")
        raise HostTrouble(f"the bus {bus} refused {word}: {refused}; try again")


def failed(attempt: int, ended: Failed, tail: str, *, how_far: Mapping[str, Any] | None = None) -> Signal:
    """Return the signal that a program or this host failed. `tail` holds the program's last lines, `how_far` its last
    progress and what it found when it restored."""
    return Signal(
        "failed",
        attempt,
        {
            "kind": ended.kind,
            "reason": ended.reason,
            "tail": tail,
            "exit_code": ended.exit_code,
            "final": ended.final,
            "advised": ended.advised,
            **(how_far or {}),
        },
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
        self._waiting: list[tuple[Signal, dict[str, Any]]] = []
        self._sending = False
        self._mute = False
        self._denials = Denials()
        self._left: dict[str, Any] = {}
        self._sign_at = float("-inf")

    def put(self, signal: Signal) -> None:
        event = detail(signal, run=self._run_id, instance=self._instance, at=datetime.now(UTC))
        logger.info(
            "signal %s %s", signal.word, {key: signal.facts[key] for key in signal.facts if key != "tail"}
        )
        with self._changed:
            if signal.word in SUPERSEDED:
                self._waiting = [(old, it) for old, it in self._waiting if old.word != signal.word]
            self._waiting.append((signal, event))
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until everything is sent; False when it could not be sent in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._sending, seconds)

    def run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                signal, event = self._waiting.pop(0)
                self._sending = True
            delivered = self._deliver(signal, event)
            with self._changed:
                self._sending = False
                if not delivered and not (
                    signal.word in SUPERSEDED and any(newer.word == signal.word for newer, _ in self._waiting)
                ):
                    self._waiting.insert(0, (signal, event))
                self._changed.notify_all()
                if not delivered:
                    self._changed.wait(RETRY_SECONDS)

    def _deliver(self, signal: Signal, event: dict[str, Any]) -> bool:
        """True when nothing more is to be done about this signal."""
        trouble = self._put(signal, event)
        self._leave_word(event)
        if trouble is None:
            self._denials.clear()
            return True
        logger.warning("%s", trouble.reason)
        for end in self._endings_that_wait():
            self._leave_word(end)
        if self._denials.ends_tries(trouble):
            self._say_last_words(event)
            return True
        return False

    def _put(self, signal: Signal, event: dict[str, Any]) -> HostTrouble | None:
        try:
            put(self._events, entry(signal, self._sender, event))
        except HostTrouble as trouble:
            return trouble
        return None

    def _endings_that_wait(self) -> list[dict[str, Any]]:
        with self._changed:
            return [event for signal, event in self._waiting if signal.word in ENDINGS]

    def _leave_word(self, event: dict[str, Any]) -> None:
        """For the time when the event does not arrive: the bus may be down or lose it, and the ledger may be down."""
        word, now = event["signal"], time.monotonic()
        has_ended = self._left.get("signal") in ENDINGS and self._left["attempt"] >= event["attempt"]
        is_sign = word == SIGN_OF_LIFE and now - self._sign_at >= SIGN_SECONDS and not has_ended
        if event == self._left or not (word in ENDINGS or is_sign):
            return
        try:
            key = self._sender.key(keys.words(self._run_id, event["attempt"]))
            self._bucket.write(key, json.dumps(event).encode())
        except HostTrouble as trouble:
            logger.warning("%s could not be left in the bucket: %s", word, trouble.reason)
            return
        self._left = event
        if is_sign:
            self._sign_at = now

    def _say_last_words(self, event: dict[str, Any]) -> None:
        if self._mute:
            return
        self._mute = True
        reason = (
            f"access denied: the host role lacks events:PutEvents on the bus {self._sender.bus}, so nobody can hear "
            "this host; allow it in the host role and start again"
        )
        words = last_words(event, reason, exit_code=None)
        try:
            key = self._sender.key(keys.last_words(self._run_id, event["attempt"]))
            self._bucket.write(key, json.dumps(words).encode())
        except HostTrouble as trouble:
            logger.warning("the last words could not be left either: %s", trouble.reason)
        self._on_mute(reason)


def last_words(event: dict[str, Any], reason: str, *, exit_code: int | None) -> dict[str, Any]:
    """A `failed` detail; what the host wanted to say when it was cut short goes along."""
    same = {key: event[key] for key in ("run", "attempt", "instance", "at")}
    return same | {
        "signal": "failed",
        "kind": "host",
        "reason": reason,
        "tail": event.get("tail", ""),
        "exit_code": exit_code,
        "final": True,
        "unsaid": event["signal"],
    }
