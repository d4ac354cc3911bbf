"""The time since the last answered prediction."""

import threading
from collections.abc import Callable

from trainyard.values.quantities import format_count, span


class Idle:
    """Counts answered predictions. Requests without an answer, and requests about the model, do not count."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """Begin with the answers to the golden rows. `clock` returns seconds."""
        self._seconds, self._clock, self._lock = seconds, clock, threading.Lock()
        self._count, self._last = 0, clock()

    def add(self) -> None:
        """Count an answer."""
        with self._lock:
            self._count, self._last = self._count + 1, self._clock()

    @property
    def count(self) -> int:
        return self._count

    @property
    def left(self) -> float:
        """The seconds until the server ends without another answer; 0 at its end."""
        return max(0.0, self._last + self._seconds - self._clock())

    @property
    def sentence(self) -> str:
        """A line for the log, which differs from each earlier one while the server is idle."""
        quiet = self._clock() - self._last
        return (
            f"{format_count(self._count, 'prediction')} answered, the last one {span(quiet)} ago; the host ends in "
            f"{span(self.left)} without another one"
        )
