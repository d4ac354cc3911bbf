"""Something done again and again beside the main thread, and once more at the end."""

import logging
import threading
from collections.abc import Callable

from training.host.denials import Denials
from training.host.errors import HostTrouble

logger = logging.getLogger(__name__)


class Repeat(threading.Thread):
    """Calls `act(last=False)` every few seconds. What may pass is tried again; a final trouble is kept in `trouble`, a
    denial once it has lasted (denials.py)."""

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
            except OSError as error:  # the disk may be full: the program will say so, or make room
                logger.warning("%s: %s", self.name, error)
            except (
                Exception
            ):  # a fault of ours: a thread that ended in silence would bring nothing away any more
                logger.exception("%s failed and is tried again", self.name)

    def finish(self) -> None:
        """Stop, and do it a last time; raises what keeps the last time from succeeding: HostTrouble or OSError."""
        self._ended.set()
        self.join()
        self._act(True)

    def end(self) -> None:
        """Stop, and leave it at that."""
        self._ended.set()
        self.join()
