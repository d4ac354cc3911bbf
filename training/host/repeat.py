"""Something done again and again beside the main thread, and once more at the end."""

import logging
import threading
from collections.abc import Callable

from training.host.errors import HostTrouble

logger = logging.getLogger(__name__)


class Repeat(threading.Thread):
    """Calls `act(last=False)` every few seconds. What may pass is tried again; a final trouble is kept in `trouble`."""

    def __init__(self, name: str, act: Callable[[bool], None], *, every: float) -> None:
        super().__init__(name=name, daemon=True)
        self.trouble: HostTrouble | None = None
        self._act = act
        self._every = every
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self._act(False)
            except HostTrouble as trouble:
                logger.warning("%s: %s", self.name, trouble.reason)
                if trouble.final:
                    self.trouble = trouble
                    return

    def finish(self) -> None:
        """Stop, and do it a last time; raises the trouble that keeps the last time from succeeding."""
        self._ended.set()
        self.join()
        if self.trouble:
            raise self.trouble
        self._act(True)
