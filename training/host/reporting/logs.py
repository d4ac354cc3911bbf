"""The program's log on the host, with a time stamp in each line. chunks.py uploads it.

The lines depend only on the bytes of the raw log. A restarted agent splits the raw log again and skips the lines that
the stamped log already has, so no line is lost, repeated, or stamped twice.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from training.host.program.tracebacks import AGENTS_OWN
from training.host.reporting.lines import Splitter
from trainyard.values.serialization import timestamp

AT_ONCE_BYTES = 1024 * 1024
LINES_AT_ONCE = 1000


def ignore(line: str) -> None:
    """Ignore a line."""


@dataclass(slots=True)
class StampedLog:
    """The raw log of a program, and its copy with time stamps."""

    raw: Path
    path: Path
    who: str
    """The host in every line: `<role>-<index> <instance id>`."""
    hide: Callable[[str], str] = str
    """Removes secrets from a line."""
    on_line: Callable[[str], None] = ignore
    """Called with each printed line (only the last of very many), and with each whole drawing of a progress bar that
    the log shows."""
    on_open_line: Callable[[str], None] = ignore
    """Called with the present line whenever it changes; it may end within a number."""
    _read: int = 0
    _written: int = -1
    _skip: int = 0
    _drawings: list[str] = field(default_factory=list)
    _splitter: Splitter = field(default_factory=Splitter)
    _open: str = ""

    def stamp(self, now: datetime) -> None:
        """Stamp all lines that were completed since the last call. After an OSError, the next call continues there."""
        if self._written < 0:
            self._continue_earlier()
        if size_of(self.raw) <= self._read:
            return
        with self.raw.open("rb") as raw:
            raw.seek(self._read)
            while text := raw.read(AT_ONCE_BYTES):
                splitter = self._splitter.copy()
                lines = splitter.take(text)
                known, lines = min(self._skip, len(lines)), lines[self._skip :]
                self._append("".join(self._line(line, now) for line in lines).encode())
                self._read += len(text)
                self._skip -= known
                self._splitter = splitter
                for line in lines[-LINES_AT_ONCE:]:
                    self.on_line(line)
        self._open = ""
        if self._splitter.open:
            self._open = self._line(self._splitter.open, now)
            self.on_open_line(self._splitter.open)
        before, self._drawings = self._drawings, [] if self._skip else self._splitter.drawings
        for drawing in self._drawings:
            if drawing not in before:
                self.on_line(drawing)

    @property
    def open(self) -> str:
        """The present line, with the time of its last change; empty if there is none."""
        return self._open.rstrip("\n")

    @property
    def size(self) -> int:
        """The size of the stamped lines in bytes."""
        return max(0, self._written)

    def _line(self, line: str, now: datetime) -> str:
        return f"{timestamp(now)} {self.who} | {self.hide(line)}\n"

    def _append(self, text: bytes) -> None:
        try:
            with self.path.open("ab") as stamped:
                stamped.write(text)
        except OSError:
            if self.path.exists():
                os.truncate(self.path, self._written)
            raise
        self._written += len(text)

    def _continue_earlier(self) -> None:
        lines, whole = 0, 0
        if self.path.exists():
            with self.path.open("rb") as stamped:
                for line in stamped:
                    if line.endswith(b"\n"):
                        lines, whole = lines + 1, whole + len(line)
            os.truncate(self.path, whole)
        self._skip, self._written = lines, whole


def note(raw: Path, text: str) -> None:
    """Write a line of the agent into the program's log, always as a line of its own."""
    raw.parent.mkdir(parents=True, exist_ok=True)
    before = "" if end_of(raw, 1) in (b"", b"\n") else "\n"
    with raw.open("a") as log:
        log.write(f"{before}{AGENTS_OWN}{text}\n")


def end_of(path: Path, most: int) -> bytes:
    """Return the last `most` bytes of a log; empty if it does not exist."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - most))
            return log.read(most)
    except FileNotFoundError:
        return b""


def size_of(path: Path) -> int:
    """Return the size of a log in bytes; -1 if it does not exist."""
    return path.stat().st_size if path.exists() else -1
