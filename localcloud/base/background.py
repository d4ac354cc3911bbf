"""Work off the request path: in a thread of its own, or at a later time."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


def in_background(name: str, work: Callable[[], None]) -> None:
    """Run `work` in a daemon thread."""
    threading.Thread(target=work, name=name, daemon=True).start()


class Timers:
    """A single thread that runs functions after a delay, one at a time."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._change = threading.Condition()
        threading.Thread(target=self._run_forever, name="timers", daemon=True).start()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` after `seconds`. `act` must check for itself that it is still needed."""
        with self._change:
            heapq.heappush(self._waiting, (time.monotonic() + seconds, next(self._count), act))
            self._change.notify()

    def _run_forever(self) -> None:
        while True:
            act = self._next()
            try:
                act()
            except Exception:  # one failure must not stop the others
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
