"""State that survives a restart: ministack's stores, and the state of other parts.

The store writes a few seconds after each change and once more at shutdown, replacing each file atomically. A killed
server loses only those seconds.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

KEPT = "kept"
"""Subfolder of the state folder."""
FORMAT = "2"
"""Raise this number when a stored class changes or moves. State of another format is refused."""
FORMAT_FILE = "format"
PAUSE = 1.0
"""Seconds between a change and its write. Changes in between share one write."""
SHARE = 0.006
"""Highest share of a processor's time for writing. After a long write the next one waits longer."""
LONGEST = 10.0
"""Seconds between writes without a reported change: executions and schedules change on their own."""


def has_other_format(folder: Path) -> bool:
    """Return True if another version of the local cloud wrote this folder."""
    mark = folder / FORMAT_FILE
    return any(folder.glob("*.kept")) and not (mark.exists() and mark.read_text() == FORMAT)


@dataclass(frozen=True)
class Part:
    """A part with state:

    `save` returns bytes (None if empty), `restore` loads them, `may_differ` returns False if unchanged.
    """

    name: str
    save: Callable[[], bytes | None]
    restore: Callable[[bytes], None]
    may_differ: Callable[[], bool]


class Store:
    """The folder of saved parts, and the thread that writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: list[Part] = []
        self._written: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        """Parts whose last write failed, with the error."""
        self._changed = threading.Event()
        self._writing = threading.Lock()

    def keep(
        self,
        name: str,
        save: Callable[[], bytes | None],
        restore: Callable[[bytes], None],
        may_differ: Callable[[], bool] = lambda: True,
    ) -> None:
        """Write the result of `save` after changes, and pass it to `restore` at the next start.

        `save` and `may_differ` run in the store's thread, so they must take the lock that protects their data. Parts
        are restored in the order of registration.
        """
        self.parts.append(Part(name, save, restore, may_differ))

    def request_write(self) -> None:
        """Request a write soon."""
        self._changed.set()

    @property
    def unwritten(self) -> bool:
        """Return True if a change may have happened since the last write began."""
        return self._changed.is_set() or self._writing.locked()

    def restore(self) -> None:
        """Restore every part from the last server's state. A part that raises stops the start."""
        for part in self.parts:
            path = self._path(part.name)
            if path.exists():
                part.restore(path.read_bytes())
                log.info("restored %s", part.name)

    def write(self) -> None:
        """Write every part that differs from its file."""
        with self._writing:
            self._changed.clear()  # later changes belong to the next write
            for part in self.parts:
                try:
                    if part.may_differ() or part.name in self.failed:
                        self._write(part)
                    self.failed.pop(part.name, None)
                except Exception as error:  # one failing part must not lose the others
                    log.exception("%s could not be saved; the last version stays", part.name)
                    self.failed[part.name] = str(error)

    def write_forever(self) -> None:
        """Write a moment after each change. Runs in a daemon thread."""
        pause = PAUSE
        while True:
            self._changed.wait(LONGEST)
            time.sleep(pause)
            began = time.thread_time()
            self.write()
            took = time.thread_time() - began
            pause = max(PAUSE, took / SHARE)
            log.debug("written in %.2f s", took)

    def _write(self, part: Part) -> None:
        content = part.save()
        if content is None:
            return
        digest = hashlib.blake2b(content).hexdigest()
        if self._written.get(part.name) == digest:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FORMAT_FILE).write_text(FORMAT)
        new = self._path(part.name).with_suffix(".new")
        new.write_bytes(content)
        new.replace(self._path(part.name))
        self._written[part.name] = digest

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.kept"
