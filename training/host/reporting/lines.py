"""A program's output line by line: whatever bytes come, whole lines of text go. Pure.

A carriage return draws a line anew (progress bars): of all the drawings of a line its last one stays.
"""

import re
from dataclasses import dataclass

MOST_BYTES = 16 * 1024
"""Of one line; the rest of it is left out."""
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f\x85\u2028\u2029]")
"""Colours and other orders to a terminal, and what other tools would take for the end of a line."""


@dataclass(slots=True)
class Splitter:
    """Takes bytes as they come. `open` is the line under way as it looks by now."""

    _drawn: bytes = b""
    _drawing: bytes = b""

    def take(self, text: bytes) -> list[str]:
        """The lines that these bytes complete."""
        *whole, rest = text.split(b"\n")
        lines = []
        for piece in whole:
            self._draw(piece)
            lines.append(self.open)
            self._drawn = self._drawing = b""
        self._draw(rest)
        return lines

    @property
    def open(self) -> str:
        return readable(self._drawing if self._drawing.strip() else self._drawn)

    def _draw(self, piece: bytes) -> None:
        first, *anew = piece.split(b"\r")
        self._drawing = (self._drawing + first)[: MOST_BYTES + 1]
        for drawing in anew:
            if self._drawing.strip():
                self._drawn = self._drawing
            self._drawing = drawing[: MOST_BYTES + 1]


def readable(line: bytes) -> str:
    """One line of text; bytes that are no UTF-8 are shown as \\xNN."""
    text = ESCAPES.sub("", line[:MOST_BYTES].decode(errors="backslashreplace"))
    return text + " ... (the line goes on)" if len(line) > MOST_BYTES else text


def plain(text: bytes) -> str:
    """All lines of a piece of a log, the one under way too."""
    splitter = Splitter()
    lines = splitter.take(text)
    return "".join(f"{line}\n" for line in [*lines, splitter.open] if line)
