"""Messages that are sent and not acknowledged, and messages that arrived before their turn.

As in the public ends, only the oldest message without an acknowledgement is sent again, after 200 ms to 1 s that follow
the measured round trips. The time is always an argument, `now`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trainyard.datachannel.message import Message

FIRST_TIMEOUT, LONGEST_TIMEOUT, GRANULARITY = 0.2, 1.0, 0.01
FIRST_ROUND_TRIP = 0.1
SHARE_OF_ROUND_TRIP, SHARE_OF_VARIATION = 1 / 8, 1 / 4
MOST_EARLY = 10_000
"""The most messages that are kept before their turn."""


@dataclass
class Sent:
    data: bytes
    at: float
    again: bool = False


@dataclass
class Outgoing:
    """The messages that may have to be sent again, by their numbers."""

    unacknowledged: dict[int, Sent] = field(default_factory=dict)
    size: int = 0
    """The sum of these messages in bytes."""
    timeout: float = FIRST_TIMEOUT
    _round_trip: float = FIRST_ROUND_TRIP
    _variation: float = 0.0

    def add(self, sequence: int, data: bytes, now: float) -> None:
        self.unacknowledged[sequence] = Sent(data, now)
        self.size += len(data)

    def acknowledge(self, sequence: int, now: float) -> bool:
        """Remove a message, and return True if it was still unacknowledged."""
        found = self.unacknowledged.pop(sequence, None)
        if found is None:
            return False
        self.size -= len(found.data)
        if not found.again:  # After a repetition, either copy may have been acknowledged.
            self._learn(now - found.at)
        return True

    def next_due(self, now: float) -> bytes | None:
        """Return the oldest message if it is time to repeat it, and count it as sent now."""
        oldest = next(iter(self.unacknowledged.values()), None)
        if oldest is None or now - oldest.at <= self.timeout:
            return None
        oldest.at, oldest.again = now, True
        return oldest.data

    def repeat_all(self, now: float) -> Iterator[bytes]:
        """Yield all messages in order, to repeat them over a new connection."""
        for each in list(self.unacknowledged.values()):
            each.at, each.again = now, True
            yield each.data

    def _learn(self, took: float) -> None:
        self._variation += SHARE_OF_VARIATION * (abs(self._round_trip - took) - self._variation)
        self._round_trip += SHARE_OF_ROUND_TRIP * (took - self._round_trip)
        self.timeout = min(LONGEST_TIMEOUT, self._round_trip + max(GRANULARITY, 4 * self._variation))


@dataclass
class Incoming:
    """The next expected number, and messages that arrived before their turn."""

    expected: int = 0
    early: dict[int, Message] = field(default_factory=dict)

    def take(self, message: Message) -> tuple[bool, list[Message]]:
        """Return True if the message is to be acknowledged, and the messages that can be handled now, in order.

        A repeated message is acknowledged again, because its first acknowledgement may be lost.
        """
        if message.sequence < self.expected:
            return True, []
        if message.sequence > self.expected:
            if message.sequence not in self.early and len(self.early) >= MOST_EARLY:
                return False, []
            self.early[message.sequence] = message
            return True, []
        ready = [message]
        self.expected += 1
        while (following := self.early.pop(self.expected, None)) is not None:
            ready.append(following)
            self.expected += 1
        return True, ready
