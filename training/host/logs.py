"""The program's log on its way to the bucket while the program runs.

S3 cannot append, so the object is written whole each time: the larger the log, the rarer, so that no more than
about a megabyte a second is sent. Past a limit the object holds the beginning and the end.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from training.host.bucket import Bucket

MOST_BYTES = 32 * 1024 * 1024
HEAD_BYTES = 1024 * 1024
EVERY_SECONDS = 3.0
BYTES_PER_SECOND = 1024 * 1024


def due_after(size: int) -> float:
    """Seconds to wait before a log of this size is sent again."""
    return max(EVERY_SECONDS, min(size, MOST_BYTES) / BYTES_PER_SECOND)


def excerpt(path: Path, *, most: int = MOST_BYTES, head: int = HEAD_BYTES) -> bytes:
    """The whole log, or its beginning and its end with the number of bytes left out between."""
    with path.open("rb") as log:
        size = os.fstat(log.fileno()).st_size
        if size <= most:
            return log.read(most)
        start = log.read(head)
        log.seek(size - (most - head))
        note = f"\n... {size - most} bytes left out ...\n".encode()
        return start + note + log.read(most - head)


def end_of(path: Path, most: int) -> bytes:
    """The last `most` bytes of the log; empty while there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - most))
            return log.read(most)
    except FileNotFoundError:
        return b""


def size_of(path: Path) -> int:
    """Bytes of the log; -1 while there is none."""
    return path.stat().st_size if path.exists() else -1


@dataclass(slots=True)
class LogUpload:
    """One log's way to one key."""

    bucket: Bucket
    path: Path
    key: str
    sent: int = -1
    next_at: float = 0.0

    def send(self, now: float, *, last: bool = False) -> None:
        """Send the log if it grew and is due; with `last`, if it grew at all."""
        size = size_of(self.path)
        if size == self.sent or (now < self.next_at and not last):
            return
        self.bucket.write(self.key, excerpt(self.path))
        self.sent = size
        self.next_at = now + due_after(size)
