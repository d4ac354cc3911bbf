"""A function that a thread calls at intervals, and once more at the end."""

import logging
import threading
from collections.abc import Callable

from training.host.denials import Denials
from training.host.errors import HostTrouble

logger = logging.getLogger(__name__)


class Repeat(threading.Thread):
    """A thread that calls `act(last=False)` every few seconds. A trouble that may pass is retried. A final trouble, and
    a denial that lasts (denials.py), ends the thread and is kept in `trouble`."""

    def __init__(self, name: str, act: Callable[[bool], None], *, every: float) -> None:
        super().__init__(name=name, daemon=True)
        self.trouble: HostTrouble | None = None
        self._act = act
        self._every = every
        self._ended = threading.Event()
        self._denials = Denials()

    def run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self._act(False)
                self._denials.clear()
            except HostTrouble as trouble:
                logger.warning("%s: %s", self.name, trouble.reason)
                if self._denials.ends_tries(trouble):
                    self.trouble = trouble
                    return
            except OSError as error:  # the disk may be full: the program will fail by that, or make room
                logger.warning("%s: %s", self.name, error)
            except Exception:  # our own bug: if the thread ended silently, nothing would be uploaded any more
                logger.exception("%s failed and is retried", self.name)

    def finish(self) -> None:
        """Stop, and call `act` a last time. Raises HostTrouble or OSError if that call fails."""
        self._ended.set()
        self.join()
        self._act(True)

    def end(self) -> None:
        """Stop without a last call."""
        self._ended.set()
        self.join()
