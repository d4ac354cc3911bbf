"""Split a program's output, which may be any bytes, into whole lines of text. Pure.

A log has no cursor, so this module keeps the few rows that a program may still redraw: a carriage return starts a row
again, backspaces overwrite it, and nested progress bars move up and down between their rows. The last drawing of each
row becomes its line.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from training.host.program.tracebacks import AGENTS_OWN

MOST_BYTES = 16 * 1024
"""The longest line in bytes of UTF-8. The rest of a longer line is left out."""
CONTINUES = " ... (the line continues)"
MOST_ROWS = 40
"""Most rows that a cursor may move up. tqdm nests at most 20 bars in its default terminal."""
MOST_PAYLOAD = 4096
"""The longest title, link, or image name in a control string, in characters."""
STRING = rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{{0,{MOST_PAYLOAD}}}"
"""The beginning of a control string of ECMA-48: OSC (titles, links), DCS, SOS, PM, APC."""
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])"
    rf"|{STRING}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*(?P<escape>[0-Z\\-~])?"
)
INTRODUCER = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")
COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
UNFINISHED = re.compile(rf"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|{STRING}\x1b?|\x1b[ -/]*)\Z")
"""A sequence whose end has not been read yet."""
TOKEN = re.compile(rf"\n|\r|\x08+|{SEQUENCE.pattern}")
MOVES = re.compile(r"[\x08\x1b\x90\x98\x9b\x9d-\x9f]")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters that a terminal does not show, or that other tools treat as the end of a line."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the program's output."""

    text: str = ""
    """The present drawing."""
    drawn: str = ""
    """The last earlier drawing that shows anything."""
    sent: bool = False
    """True if its line was returned already, and the program has moved up to the row since."""

    @property
    def shown(self) -> str:
        """The row as a line. A drawing of blanks, which only clears a bar, does not count."""
        return self.text if self.text.strip() or not self.drawn else self.drawn

    @property
    def lines(self) -> list[str]:
        """The lines of a row that has ended. A line of the agent does not replace a drawing."""
        is_own = self.text.startswith(AGENTS_OWN) and self.drawn
        return [self.drawn, self.text] if is_own else [self.shown]

    def begin_again(self) -> "Row":
        """Begin a new drawing of the row."""
        return replace(self, text="", drawn=self.text if self.text.strip() else self.drawn)

    def redraw(self, text: str) -> "Row":
        """Append to the row, and draw it again after each carriage return."""
        *drawings, last = (self.text + text).split("\r")
        drawn = next((drawing for drawing in reversed(drawings) if drawing.strip()), self.drawn)
        return replace(self, text=last[: MOST_BYTES + 1], drawn=drawn[: MOST_BYTES + 1])

    def write(self, text: str, column: int | None) -> "Row":
        """Overwrite the row from `column` on, or append to it (None)."""
        if column is None:
            return replace(self, text=(self.text + text)[: MOST_BYTES + 1])
        return replace(
            self, text=(self.text[:column] + text + self.text[column + len(text) :])[: MOST_BYTES + 1]
        )


EMPTY = Row()


@dataclass(slots=True)
class Splitter:
    """Splits bytes, in pieces of any size, into lines.

    A row is complete at its end, unless the program has just moved its cursor up and may return to it. With nested
    bars, as many rows are held back as the cursor has moved up."""

    _half: bytes = b""
    _sequence: str = ""
    _rows: list[Row] = field(default_factory=lambda: [EMPTY])
    _at: int = 0
    _column: int | None = None
    _newest: int = 0
    _height: int = 0
    _new_rows: int = 0

    def copy(self) -> "Splitter":
        """Return an independent splitter in this one's state."""
        return replace(self, _rows=[*self._rows])

    def take(self, piece: bytes) -> list[str]:
        """Return the lines that these bytes complete."""
        read, used = codecs.utf_8_decode(self._half + piece, "backslashreplace", False)
        self._half = (self._half + piece)[used:]
        text, self._sequence = self._sequence + read, ""
        if INTRODUCER.search(text):
            text = COLOURS.sub("", text)
            if unfinished := UNFINISHED.search(text, max(0, len(text) - MOST_PAYLOAD - 3)):
                text, self._sequence = text[: unfinished.start()], unfinished[0]
        if self._column is not None or len(self._rows) > 1 or MOVES.search(text):
            return [cut_line(line) for line in self._draw(text)]
        return self._split(text)

    def _split(self, text: str) -> list[str]:
        """Return the lines of a text without cursor moves, many times faster than `_draw`."""
        *whole, rest = CONTROLS.sub("", text).split("\n")
        row, lines = self._rows[0], []
        for piece in whole:
            if row is EMPTY and "\r" not in piece:
                lines.append(cut_line(piece))
            else:
                lines += map(cut_line, row.redraw(piece).lines)
                row = EMPTY
        self._rows, self._height = [row.redraw(rest) if rest else row], 0
        return lines

    def finish(self) -> list[str]:
        """Return the lines of all rows that are held back, including the present one, and begin again."""
        lines = [cut_line(row.shown) for row in self._rows if row.shown]
        self._rows, self._at, self._column, self._newest, self._height = [EMPTY], 0, None, 0, 0
        return lines

    @property
    def open(self) -> str:
        """The present text of the row that was drawn last."""
        return cut_line(self._rows[self._newest].shown)

    @property
    def drawings(self) -> list[str]:
        """The last whole drawing of each row that may still change. `open`, in contrast, may end within a number."""
        return [cut_line(row.drawn) for row in self._rows if row.drawn]

    def _draw(self, text: str) -> Iterator[str]:
        begin = 0
        for token in TOKEN.finditer(text):
            if token.start() > begin:
                self._write(CONTROLS.sub("", text[begin : token.start()]))
            begin = token.end()
            if token[0] == "\n":
                yield from self._next_row()
            else:
                self._move(token)
        if begin < len(text):
            self._write(CONTROLS.sub("", text[begin:]))

    def _write(self, text: str) -> None:
        row, column = self._rows[self._at], self._column
        self._rows[self._at] = row.write(text, column)
        self._column = None if column is None or column + len(text) >= len(row.text) else column + len(text)
        if text.strip():
            self._newest = self._at

    def _next_row(self) -> Iterator[str]:
        """Go down one row. Below the last row a new one begins, and rows that are not held back are complete.

        A line of the agent completes all other rows, because the agent appends it wherever the program's cursor is.
        """
        row = self._rows[self._at]
        if row.text.startswith(AGENTS_OWN):
            self._rows[self._at] = replace(row, text="")
            yield from self.finish()
            yield row.text
            return
        self._at, self._column = self._at + 1, None
        if self._at < len(self._rows):
            self._rows[self._at] = self._rows[self._at].begin_again()
            return
        self._rows.append(EMPTY)
        self._new_rows += 1
        if self._new_rows > self._height:
            self._height = 0
        self._newest = self._at
        while len(self._rows) - 1 > self._height:
            row = self._rows.pop(0)
            self._at, self._newest = self._at - 1, self._newest - 1
            if row.shown or not row.sent:
                yield row.shown

    def _move(self, token: re.Match[str]) -> None:
        count = int(digits) if (digits := token["parameters"] or "").isdigit() else 1
        match token[0][0], token["final"] or token["escape"]:
            case "\r", _:
                self._redraw()
            case "\x08", _:
                self._move_left(len(token[0]))
            case _, "D" if token["final"]:
                self._move_left(count)
            case _, "G" if token["final"] and count == 1:
                self._redraw()
            case _, "K":
                self._erase(digits)
            case _, ("A" | "F" | "M") as final if token["final"] in ("A", "F") or token["escape"] == "M":
                self._up(count)
                if final == "F":
                    self._redraw()
            case _, ("B" | "E") as final if token["final"]:
                self._at = min(self._at + count, len(self._rows) - 1)
                if final == "E":
                    self._redraw()

    def _redraw(self) -> None:
        self._rows[self._at], self._column = self._rows[self._at].begin_again(), None

    def _move_left(self, count: int) -> None:
        column = len(self._rows[self._at].text) if self._column is None else self._column
        self._column = max(0, column - count)

    def _erase(self, what: str) -> None:
        """Erase to the end of the row, or the whole row."""
        if what in ("1", "2"):
            self._redraw()
        elif self._column is not None:
            row = self._rows[self._at]
            self._rows[self._at], self._column = replace(row, text=row.text[: self._column]), None

    def _up(self, count: int) -> None:
        """Move the cursor up. Rows above the first one kept were returned as lines; redrawn, they become lines
        again."""
        count = min(count, MOST_ROWS)
        missing = max(0, count - self._at)
        self._rows[:0] = [Row(sent=True)] * missing
        self._at, self._newest = self._at + missing - count, self._newest + missing
        self._column, self._new_rows = None, 0
        self._height = min(max(self._height, count), MOST_ROWS)


def cut_line(line: str) -> str:
    """Cut a line after the last whole character that fits."""
    if len(line) * 4 <= MOST_BYTES or len(encoded := line.encode()) <= MOST_BYTES:
        return line
    return encoded[:MOST_BYTES].decode(errors="ignore") + CONTINUES


def plain(text: bytes) -> str:
    """Return all lines of a piece of a log, including the present one."""
    splitter = Splitter()
    lines = splitter.take(text)
    return "".join(f"{line}\n" for line in [*lines, *splitter.finish()] if line)
