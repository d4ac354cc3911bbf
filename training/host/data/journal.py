"""A journal of the files of a data entry and their objects. A restarted agent fetches only files that are missing."""

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from training.host.bucket import Object


@dataclass(frozen=True, slots=True)
class ObjectState:
    """An object's ETag and time, with the size (bytes) and time (ns) of its file."""

    etag: str
    changed: str
    size: int
    mtime: int

    @classmethod
    def of(cls, item: Object, path: Path) -> Self:
        stat = path.stat()
        return cls(item.etag, item.changed, stat.st_size, stat.st_mtime_ns)


class Journal:
    """The journal of one data entry. Threads may share it. A file that has changed since its entry counts as
    missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._noted = _read(path)

    def holds(self, name: str, item: Object, path: Path) -> bool:
        """Return True if the file at `path` has the content of this object."""
        noted = self._noted.get(name)
        return noted is not None and path.is_file() and noted == ObjectState.of(item, path)

    def note(self, name: str, item: Object, path: Path) -> None:
        noted = ObjectState.of(item, path)
        line = json.dumps([name, noted.etag, noted.changed, noted.size, noted.mtime])
        with self._lock:
            self._noted[name] = noted
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as journal:
                journal.write(line + "\n")


def _read(path: Path) -> dict[str, ObjectState]:
    """Read a journal. The last line of a name counts. Half a line, left by an agent that was killed, is skipped."""
    noted: dict[str, ObjectState] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                name, etag, changed, size, mtime = json.loads(line)
            except ValueError:
                continue
            noted[name] = ObjectState(etag, changed, size, mtime)
    return noted
