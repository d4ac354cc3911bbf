"""The program's log on the host: stamped line by line as it is written. chunks.py brings it to the bucket.

The lines follow from the bytes of the raw log alone. So an agent that was restarted splits the raw log again and skips
as many lines as the stamped log has: no line is lost, repeated or stamped a second time.
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
HEARD_AT_ONCE = 1000


def ignore(line: str) -> None:
    """Do nothing with a line."""


@dataclass(slots=True)
class StampedLog:
    """`who` stands in every line: `<role>-<index> <instance id>`. `hide` takes secrets out of a line.

    `hear` is called with each line as it was printed, of very many at once with the last ones, and with each whole
    drawing of a progress bar that is there when the log is looked at. `hear_open` is called with the line under way
    whenever it changes; it may end in the middle of a number.
    """

    raw: Path
    path: Path
    who: str
    hide: Callable[[str], str] = str
    hear: Callable[[str], None] = ignore
    hear_open: Callable[[str], None] = ignore
    _read: int = 0
    _written: int = -1
    _skip: int = 0
    _drawings: list[str] = field(default_factory=list)
    _splitter: Splitter = field(default_factory=Splitter)
    _open: str = ""

    def stamp(self, now: datetime) -> None:
        """Stamp every line that was completed since the last look. After an OSError the next call goes on there."""
        if self._written < 0:
            self._go_on_after_another()
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
                for line in lines[-HEARD_AT_ONCE:]:
                    self.hear(line)
        self._open = ""
        if self._splitter.open:
            self._open = self._line(self._splitter.open, now)
            self.hear_open(self._splitter.open)
        before, self._drawings = self._drawings, [] if self._skip else self._splitter.drawings
        for drawing in self._drawings:
            if drawing not in before:
                self.hear(drawing)

    @property
    def open(self) -> str:
        """The line under way, with the time it was last seen to change; empty when there is none."""
        return self._open.rstrip("\n")

    @property
    def size(self) -> int:
        """Bytes of the whole lines that are stamped."""
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

    def _go_on_after_another(self) -> None:
        lines, whole = 0, 0
        if self.path.exists():
            with self.path.open("rb") as stamped:
                for line in stamped:
                    if line.endswith(b"\n"):
                        lines, whole = lines + 1, whole + len(line)
            os.truncate(self.path, whole)
        self._skip, self._written = lines, whole


def note(raw: Path, text: str) -> None:
    """A line of the agent's own in the program's log, never in the middle of a line of the program's."""
    raw.parent.mkdir(parents=True, exist_ok=True)
    before = "" if end_of(raw, 1) in (b"", b"\n") else "\n"
    with raw.open("a") as log:
        log.write(f"{before}{AGENTS_OWN}{text}\n")


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
