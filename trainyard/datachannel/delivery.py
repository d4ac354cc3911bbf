"""What has been sent and not acknowledged, and what has come too early.

The public ends send the oldest message that nobody has acknowledged again, and no other: after 200 ms to 1 s, by the
round trips they have seen. Nothing here knows a clock: `now` is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trainyard.datachannel.message import Message

FIRST_TIMEOUT, LONGEST_TIMEOUT, GRANULARITY = 0.2, 1.0, 0.01
FIRST_ROUND_TRIP = 0.1
SHARE_OF_ROUND_TRIP, SHARE_OF_VARIATION = 1 / 8, 1 / 4
MOST_EARLY = 10_000
"""Messages that may have come before their turn."""


@dataclass
class Sent:
    data: bytes
    at: float
    again: bool = False


@dataclass
class Outgoing:
    """By their numbers, the messages that may have to be sent again."""

    unacknowledged: dict[int, Sent] = field(default_factory=dict)
    size: int = 0
    """Of all of them, in bytes."""
    timeout: float = FIRST_TIMEOUT
    _round_trip: float = FIRST_ROUND_TRIP
    _variation: float = 0.0

    def sent(self, sequence: int, data: bytes, now: float) -> None:
        self.unacknowledged[sequence] = Sent(data, now)
        self.size += len(data)

    def acknowledged(self, sequence: int, now: float) -> bool:
        """Whether it was still waited for."""
        found = self.unacknowledged.pop(sequence, None)
        if found is None:
            return False
        self.size -= len(found.data)
        if not found.again:  # else nobody knows which of the two was acknowledged
            self._learn(now - found.at)
        return True

    def due(self, now: float) -> bytes | None:
        """The oldest, if it is time to send it again; counted as sent now."""
        oldest = next(iter(self.unacknowledged.values()), None)
        if oldest is None or now - oldest.at <= self.timeout:
            return None
        oldest.at, oldest.again = now, True
        return oldest.data

    def all_again(self, now: float) -> Iterator[bytes]:
        """Everything, in order: over a connection that is new."""
        for each in list(self.unacknowledged.values()):
            each.at, each.again = now, True
            yield each.data

    def _learn(self, took: float) -> None:
        self._variation += SHARE_OF_VARIATION * (abs(self._round_trip - took) - self._variation)
        self._round_trip += SHARE_OF_ROUND_TRIP * (took - self._round_trip)
        self.timeout = min(LONGEST_TIMEOUT, self._round_trip + max(GRANULARITY, 4 * self._variation))


@dataclass
class Incoming:
    """The next number, and messages whose turn has not come."""

    expected: int = 0
    early: dict[int, Message] = field(default_factory=dict)

    def take(self, message: Message) -> tuple[bool, list[Message]]:
        """Whether to acknowledge it, and what is now to be handled, in order.

        One that came before is acknowledged again: its acknowledgement may be what was lost.
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
