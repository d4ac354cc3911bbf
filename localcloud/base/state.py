"""What survives a restart: ministack's stores, and what the other parts ask to keep.

Written some seconds after every change, and once more at shutdown, each file by replacing it: a killed server
loses at most these.
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
"""The folder of kept parts, in the state folder."""
FORMAT = "2"
"""It rises when a class that is kept changes or moves: then the state of another version is refused."""
FORMAT_FILE = "format"
PAUSE = 1.0
"""Seconds between a change and its being written; changes in between share one write."""
SHARE = 0.006
"""The most of a processor's time that writing may take: after a long write the next one waits longer."""
LONGEST = 10.0
"""Seconds after which it is written without being told: executions and schedules change things by themselves."""


def has_other_format(folder: Path) -> bool:
    """Return True if another version of the local cloud has written this folder of kept parts."""
    mark = folder / FORMAT_FILE
    return any(folder.glob("*.kept")) and not (mark.exists() and mark.read_text() == FORMAT)


@dataclass(frozen=True)
class Part:
    """A thing to keep: `save` answers its bytes (None: nothing to keep yet), `restore` takes them back. `may_differ`:
    whether it may be another one than at the last call."""

    name: str
    save: Callable[[], bytes | None]
    restore: Callable[[bytes], None]
    may_differ: Callable[[], bool]


class Store:
    """The folder of kept parts, and the thread that writes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: list[Part] = []
        self._written: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        """Parts whose last version could not be written, and why."""
        self._changed = threading.Event()
        self._writing = threading.Lock()

    def keep(
        self,
        name: str,
        save: Callable[[], bytes | None],
        restore: Callable[[bytes], None],
        may_differ: Callable[[], bool] = lambda: True,
    ) -> None:
        """Write what `save` answers whenever something changed; give it to `restore` at the next start.

        `save` and `may_differ` run in the store's thread: they must take whatever lock protects what they read.
        Parts are restored in the order in which they were kept.
        """
        self.parts.append(Part(name, save, restore, may_differ))

    def changed(self) -> None:
        """Something may have changed: write soon."""
        self._changed.set()

    @property
    def unwritten(self) -> bool:
        """Whether something may have changed since the last write began."""
        return self._changed.is_set() or self._writing.locked()

    def restore(self) -> None:
        """Give every part what it had when the last server ended. A part that refuses stops the start."""
        for part in self.parts:
            path = self._path(part.name)
            if path.exists():
                part.restore(path.read_bytes())
                log.info("restored %s", part.name)

    def write(self) -> None:
        """Write every part that differs from what is on disk."""
        with self._writing:
            self._changed.clear()  # what changes from here on is for the next write
            for part in self.parts:
                try:
                    if part.may_differ() or part.name in self.failed:
                        self._write(part)
                    self.failed.pop(part.name, None)
                except Exception as error:  # one part that cannot be saved must not lose the others
                    log.exception("%s could not be saved; the last version stays", part.name)
                    self.failed[part.name] = str(error)

    def write_forever(self) -> None:
        """Write a moment after each change; for a daemon thread."""
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
