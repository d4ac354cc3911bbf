"""The signals of a host, sent in order and retried until they arrive (training/host/reporting/outbox.py)."""

import json
from collections.abc import Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from simulation.aws.endpoint.api import Answer, ServiceError
from simulation.hosts.bucket import Unreachable
from simulation.hosts.faults import Fault, Late, SendsTwice, When
from simulation.hosts.flow import Flow, Sleep, Steps
from training.host.bucket import Bucket
from training.host.errors import HostTrouble
from training.host.reporting.outbox import DENIED, RETRY_SECONDS, SUPERSEDED, Sender, entry, final_report
from trainyard.protocol import keys, signals
from trainyard.protocol.signals import Ending, Sent, Signal

LOOK_SECONDS = 0.2
UNREACHABLE_SECONDS = 30.0
"""The time after which the agent's client gives a call up."""
A_MOMENT = timedelta(milliseconds=1)
"""The least time between two signals."""
SHOWN = ("step", "why", "kind", "reason", "role", "index", "final")


class Speaker(Protocol):
    """The machine that sends signals."""

    @property
    def instance(self) -> str: ...

    @property
    def is_cut_off(self) -> bool: ...

    def now(self) -> datetime: ...

    def call(self, service: str, operation: str, **request: Any) -> Answer: ...

    def flow(self, steps: Steps, what: str) -> Flow: ...

    def inject(self, word: str, when: When) -> Fault | None: ...

    def note(self, what: str, **details: Any) -> None: ...

    def power_off(self, reason: str) -> None: ...


@dataclass
class Message:
    """A signal to be sent."""

    sent: Sent
    is_injected: bool = False
    """True once the faults before this signal were injected, since retries do not repeat them."""


class Outbox:
    def __init__(self, speaker: Speaker, sender: Sender, bucket: Bucket, *, run: str) -> None:
        self._speaker = speaker
        self._sender = sender
        self._bucket = bucket
        self._run = run
        self._waiting: list[Message] = []
        self._sending = False
        self._mute = False
        self._sent_at = speaker.now()
        self._flow = speaker.flow(self._send_all(), f"outbox {speaker.instance}")

    def put(self, attempt: int, signal: Signal) -> None:
        self._sent_at = max(self._speaker.now(), self._sent_at + A_MOMENT)
        if isinstance(signal, SUPERSEDED):
            self._waiting = [
                old for old in self._waiting if old.sent.signal.detail_type != signal.detail_type
            ]
        instance = self._speaker.instance
        sent = Sent(run=self._run, attempt=attempt, instance=instance, at=self._sent_at, signal=signal)
        self._waiting.append(Message(sent))
        self._flow.wake()

    def flush(self, seconds: float) -> Steps:
        """Wait up to `seconds` until everything is sent."""
        left = seconds
        while (self._waiting or self._sending) and left > 0:
            yield LOOK_SECONDS
            left -= LOOK_SECONDS

    def hurry(self) -> None:
        """Try again at once, because the host may be reachable again."""
        self._flow.wake()

    def _send_all(self) -> Steps:
        while True:
            while not self._waiting:
                yield Sleep()
            message = self._waiting.pop(0)
            self._sending = True
            is_sent = yield from self._send(message)
            self._sending = False
            if is_sent:
                self._speaker.inject(message.sent.signal.detail_type, "after")
                yield 0.0
                continue
            if not self._is_superseded(message.sent.signal):
                self._waiting.insert(0, message)
            yield from self._pause()

    def _send(self, message: Message) -> Generator[float | Sleep, None, bool]:
        """Send a signal. Return True if it is on the bus."""
        fault = None
        if not message.is_injected:
            message.is_injected = True
            fault = self._speaker.inject(message.sent.signal.detail_type, "before")
            if fault:
                yield fault.seconds if isinstance(fault, Late) else 0.0
        is_sent = self._deliver(message.sent)
        if is_sent and isinstance(fault, SendsTwice):
            self._deliver(message.sent)
        return is_sent

    def _pause(self) -> Steps:
        yield Sleep() if self._speaker.is_cut_off else RETRY_SECONDS

    def _is_superseded(self, signal: Signal) -> bool:
        return isinstance(signal, SUPERSEDED) and any(
            newer.sent.signal.detail_type == signal.detail_type for newer in self._waiting
        )

    def _deliver(self, sent: Sent) -> bool:
        """Return True once this signal is done."""
        try:
            answer = self._speaker.call("events", "put_events", Entries=[entry(sent, self._sender)])
        except Unreachable:
            return False
        except ServiceError as error:
            if error.code in DENIED:
                self._store_final_report(sent)
                return True
            return False
        if not answer.get("FailedEntryCount"):
            known = signals.to_detail(sent.signal)
            shown = {key: known[key] for key in SHOWN if key in known}
            self._speaker.note(f"sends {sent.signal.detail_type}", attempt=sent.attempt, **shown)
            if isinstance(sent.signal, Ending):
                self._store(keys.copies_of_signals(self._run, sent.attempt), sent)
            return True
        if answer["Entries"][0].get("ErrorCode") in DENIED:
            self._store_final_report(sent)
            return True
        return False

    def _store(self, folder: str, sent: Sent) -> None:
        key = self._sender.key(folder)
        try:
            self._bucket.write(key, json.dumps(signals.encode(sent)).encode())
        except HostTrouble as trouble:
            self._speaker.note(f"cannot write {key}", reason=trouble.reason)

    def _store_final_report(self, sent: Sent) -> None:
        if self._mute:
            return
        self._mute = True
        reason = (
            f"access denied: the host role lacks events:PutEvents on the bus {self._sender.bus}, so nobody can hear "
            "this host; allow it in the host role and start again"
        )
        self._speaker.note("leaves its final report", reason=reason)
        report = final_report(sent, reason, exit_code=None)
        self._store(keys.final_reports(self._run, sent.attempt), report)
        self._speaker.power_off(reason)
