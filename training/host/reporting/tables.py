"""Tables that programs such as fastai and skorch print while they train: a header with names, then one row per
epoch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from training.host.reporting.words import COUNTS, OWN

NUMBERS = re.compile(r"[\s|]*\d+[\s|][\s\d.:|%eEnNaAiIfF+-]*")
"""A row: a whole number, then numbers and times."""
LOSSES, ACCURACIES = (
    ("train_loss", "training_loss", "loss"),
    ("train_acc", "train_accuracy", "training_accuracy"),
)
"""Names of the columns of the training. Columns of an evaluation have other names."""


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one epoch."""

    epoch: int
    loss: float
    accuracy: float | None
    others: Mapping[str, float]
    """The numbers of the other columns. Columns of an evaluation may be called `accuracy`."""


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table. `has_bars` is True if bars separate them."""

    columns: tuple[str, ...]
    has_bars: bool

    def row(self, line: str) -> Row | None:
        """Return the numbers of a row; None if the line is not a row of this table."""
        cells = _cells(line, has_bars=self.has_bars)
        if not is_row(line) or len(cells) != len(self.columns):
            return None
        named = dict(zip(self.columns, cells, strict=True))
        loss = next((number for name in LOSSES if (number := _number(named.get(name))) is not None), None)
        accuracy = next(
            (number for name in ACCURACIES if (number := _number(named.get(name))) is not None), None
        )
        others = {
            f"val_{name}" if name in OWN else name: number
            for name, cell in list(named.items())[1:]
            if name not in LOSSES + ACCURACIES
            and name not in COUNTS
            and (number := _number(cell)) is not None
        }
        return None if loss is None else Row(int(cells[0]), loss, accuracy, others)


def read_header(line: str) -> Table | None:
    """Return the table that begins with this line; None if the line is not a header."""
    lowered = line.lower()
    has_bars = "|" in line
    columns = tuple(cell.replace(" ", "_") for cell in _cells(lowered, has_bars=has_bars))
    names = all(column.replace("_", "").isalnum() and not column[0].isdigit() for column in columns)
    if len(columns) > 1 and columns[0] == "epoch" and names and set(columns) & set(LOSSES):
        return Table(columns, has_bars)
    return None


def is_row(line: str) -> bool:
    """Return True if a line has only numbers and begins with a whole number."""
    return line.lstrip(" |")[:1].isdigit() and bool(NUMBERS.fullmatch(line))


def _cells(line: str, *, has_bars: bool) -> list[str]:
    return [cell.strip() for cell in line.strip(" |").split("|")] if has_bars else line.split()


def _number(cell: str | None) -> float | None:
    try:
        return None if cell is None else float(cell)
    except ValueError:
        return None
