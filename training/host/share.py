"""Work that may take only a small share of a processor, because the program is what users pay for."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Share:
    """The work of one thread. After each turn it pauses until the turn was this share of the time."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._next_at = 0.0

    @property
    def is_left(self) -> bool:
        """True once the pause after the last turn has ended."""
        return time.monotonic() >= self._next_at

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Measure the processor time of one turn."""
        before = time.thread_time()
        try:
            yield
        finally:
            self._next_at = time.monotonic() + (time.thread_time() - before) / self._share
