"""Work that nobody waits for: at once in a thread of its own, or later."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


def in_background(name: str, work: Callable[[], None]) -> None:
    """Do it in a thread of its own, which ends with the server."""
    threading.Thread(target=work, name=name, daemon=True).start()


class Timers:
    """Runs functions later, one after the other, in one thread."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._change = threading.Condition()
        threading.Thread(target=self._run_forever, name="timers", daemon=True).start()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` in `seconds`; it must check for itself whether it is still wanted."""
        with self._change:
            heapq.heappush(self._waiting, (time.monotonic() + seconds, next(self._count), act))
            self._change.notify()

    def _run_forever(self) -> None:
        while True:
            act = self._next()
            try:
                act()
            except Exception:  # the others must still run
                log.exception("a timed action failed")

    def _next(self) -> Callable[[], None]:
        with self._change:
            while True:
                if not self._waiting:
                    self._change.wait()
                    continue
                due = self._waiting[0][0] - time.monotonic()
                if due <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._change.wait(due)
