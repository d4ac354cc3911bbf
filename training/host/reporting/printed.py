"""Find step, loss, and accuracy in a program's output, if it reports nothing and its job has no pattern.

A line counts only if it has a position of the training, and either a loss or accuracy of the training or a form that
only a training prints: a wrong number is worse than none. Patterns are RE2's, whose time grows only with the line's
length. POSITIONS are tried in their order.
"""

import re
import threading
from dataclasses import dataclass, field, replace
from itertools import pairwise

from training.host.reporting import tables
from training.host.reporting.positions import (
    ASIDE_HEADLINE,
    BARE_BAR,
    BEHIND_RICH,
    EPOCH_OVER,
    HEADLINE,
    RICH,
    TRAINERS_EPOCHS,
    TRAINERS_STEPS,
    YOLO,
)
from training.host.reporting.progress import NUMBERS
from training.host.reporting.reading import (
    LONGEST,
    Reading,
    count_of,
    evaluated_in,
    may_have_number,
    others_in,
    read,
    values_in,
)

MOST_WAITING = 20
FORM = re.compile(r"[0-9.,=>#━╸╺ -]+")
"""The part that differs between two drawings of a bar."""
TRAINER = "trainer"
"""The counting of Hugging Face's Trainer: by a bare bar, which it draws again after each dictionary."""
STRANGERS = 20
"""After this many lines with another way of counting, a program counts in that way."""


class RecentLines:
    """Lines that wait to be read, at most 20. The line before one of the same form makes room first, so that the last
    line of an epoch stays beside a bar that is drawn a hundred times a second. Threads may share it."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        with self._lock:
            self._lines.append((FORM.sub("", line[:LONGEST]), line))
            if len(self._lines) > MOST_WAITING:
                alike = (at for at, (this, after) in enumerate(pairwise(self._lines)) if this[0] == after[0])
                del self._lines[next(alike, 0)]

    def take(self) -> list[str]:
        """Return the lines in their order, each once."""
        with self._lock:
            lines, self._lines = self._lines, []
        return [line for _, line in lines]


@dataclass(slots=True)
class PrintedLines:
    """Reads progress line by line, and adds up steps over epochs.

    A program counts in one way: its first, unless it has only counted epochs so far. Lines that count in another way (a
    bar of an evaluation, the sum of an epoch) do not change the step.
    """

    others: dict[str, float] = field(default_factory=dict)
    """The other metrics in the last line that had progress."""
    _way: str = ""
    _table: tables.Table | None = None
    _strangers: int = 0
    _epoch: float | None = None
    _epochs: int | None = None
    _first_epoch: int = 1
    _bar_of: int | None = None
    """The end of the last bare bar before the Trainer's first dictionary, which is the Trainer's own."""
    _waiting: dict[str, float] = field(default_factory=dict)
    """Numbers of the Trainer's dictionary that wait for the bar with their step."""
    _trainers_epochs: int | None = None
    _trainers_steps: int | None = None
    _is_behind_rich: bool = False
    """True right after a drawing of rich's bar."""
    _passed: int = 0
    """Steps of the epochs that have ended."""
    _at: int = 0
    _of: int | None = None
    _at_epoch: float | None = None
    _is_evaluated: bool = False
    _is_aside: bool = False
    _restarts: bool = False
    """True once the program has begun to count again."""

    @property
    def counts_steps(self) -> bool:
        """True once the program counts more than epochs."""
        return self._way not in ("", "epoch")

    def metrics(self, line: str) -> dict[str, float]:
        """Return the progress in a line. A line of the agent has none."""
        line, self.others = line[:LONGEST].replace("\N{MINUS SIGN}", "-"), {}
        if not may_have_number(line):
            return {}
        if headline := HEADLINE.search(line):
            self._begin_epoch(float(headline["epoch"]), count_of(headline["epochs"]))
            self._is_evaluated = self._is_aside = False
            return {}
        if ASIDE_HEADLINE.search(line):
            self._is_aside = True
            return {}
        if found := TRAINERS_EPOCHS.search(line):
            self._trainers_epochs = count_of(found["number"])
            return {}
        if found := TRAINERS_STEPS.search(line):
            self._trainers_steps = count_of(found["number"])
            return {}
        behind_rich, self._is_behind_rich = self._is_behind_rich, bool(RICH.search(line))
        if behind_rich and BEHIND_RICH.search(line):
            self._is_behind_rich = True
            return {name: value for name, value in values_in(line) if name in NUMBERS}
        self._table = tables.read_header(line) or self._table
        reading = self._row(line) or read(line)
        if reading:
            numbers = self._take(reading)
            self.others = {**self.others, **dict(others_in(line))} if numbers else {}
            return numbers
        if over := EPOCH_OVER.search(line):
            self._begin_epoch(float(over["epoch"]), count_of(over["epochs"]))
            return self._count_epochs({"epoch": int(over["epoch"])})
        self.others = dict(evaluated_in(line)) if self._way else {}
        if bar := BARE_BAR.search(line):
            return self._draw_bar(count_of(bar["at"]) or 0, count_of(bar["of"]))
        return {}

    def _draw_bar(self, at: int, of: int | None) -> dict[str, float]:
        """Count by the Trainer's bar. The bar of its evaluation has a different end."""
        if self._way != TRAINER:
            self._bar_of = of
        if self._way != TRAINER or of is None or of != self._bar_of:
            return {}
        numbers, self._waiting = self._waiting, {}
        return {"step": at, "steps": of, "epoch": int(self._epoch or 0)} | numbers

    def _row(self, line: str) -> Reading | None:
        """Read a row of a table or of rich's bar."""
        if rich := RICH.search(line):
            last = count_of(rich["last"])
            return replace(
                read(line) or Reading(),
                way="rich",
                at=count_of(rich["at"]),
                of=count_of(rich["of"]),
                in_epoch=True,
                epoch=float(rich["epoch"]),
                epochs=None if last is None else last + 1,
                from_zero=True,
            )
        if yolo := YOLO.search(line):
            at, of = count_of(yolo["at"]), count_of(yolo["of"])
            return Reading(way="yolo", at=at, of=of, in_epoch=True, epoch=float(yolo["epoch"]))
        row = self._table.row(line) if self._table else None
        self.others = dict(row.others) if row else {}
        return Reading(loss=row.loss, accuracy=row.accuracy, epoch=float(row.epoch)) if row else None

    def _begin_epoch(self, epoch: float, epochs: int | None) -> None:
        self._epoch, self._epochs = epoch, epochs or self._epochs
        if epoch == 0:
            self._first_epoch = 0

    def _take(self, reading: Reading) -> dict[str, float]:
        if reading.from_zero:
            self._first_epoch = 0
        if reading.epoch is not None:
            self._begin_epoch(reading.epoch, reading.epochs)
        if reading.at is not None or reading.epoch is not None:
            self._is_aside = False
        if self._is_aside:
            return {}
        if reading.is_trainers and self._bar_of and self._way in ("", "epoch", TRAINER):
            self._way, self._waiting = TRAINER, reading.numbers
            return {}
        counts = self._counts(reading)
        return counts | reading.numbers if counts else {}

    def _counts(self, reading: Reading) -> dict[str, float]:
        """Return step, steps, and epoch; nothing for a line that is not about the present training."""
        epoch: dict[str, float] = {} if self._epoch is None else {"epoch": int(self._epoch)}
        if reading.at is None:
            return self._trainers_counts(epoch) if reading.is_trainers else self._count_epochs(epoch)
        if not self._is_own(reading) or (step := self._step(reading, reading.at)) is None:
            return {}
        steps = self._steps(reading)
        return {"step": step, **({"steps": steps} if steps else {}), **epoch}

    def _trainers_counts(self, epoch: dict[str, float]) -> dict[str, float]:
        """Count the steps of Hugging Face's Trainer without a bar, if it has logged their total."""
        steps, epochs = self._trainers_steps, self._trainers_epochs
        if not (steps and epochs and self._epoch is not None and self._epoch <= epochs):
            return epoch
        self._way = TRAINER
        return {"step": round(self._epoch / epochs * steps), "steps": steps, **epoch}

    def _count_epochs(self, epoch: dict[str, float]) -> dict[str, float]:
        """Count by epochs, unless the program counts steps."""
        if self.counts_steps or not epoch:
            return epoch
        self._way = "epoch"
        return {"step": epoch["epoch"], **({"steps": self._epochs} if self._epochs else {}), **epoch}

    def _is_own(self, reading: Reading) -> bool:
        """Return True for a line that counts in the program's way."""
        if reading.way == self._way:
            self._strangers = 0
            return reading.way != "bar" or not self._evaluates(reading)
        if self.counts_steps:
            self._strangers += 1
            if self._strangers < STRANGERS:
                return False
            self._passed, self._restarts = self._passed + self._at, True
        self._way, self._strangers, self._at, self._of = reading.way, 0, 0, None
        return True

    def _evaluates(self, reading: Reading) -> bool:
        """Return True for Keras' bar of an evaluation, which looks like a training's bar without a headline."""
        begins_again = self._of is not None and (
            reading.of not in (self._of, None) or (reading.at or 0) < self._at
        )
        if begins_again and self._epoch is not None and self._epoch == self._at_epoch:
            self._is_evaluated = True
        return self._is_evaluated or (self._epoch is None and self._of is not None and reading.of != self._of)

    def _step(self, reading: Reading, at: int) -> int | None:
        """Return the step over all epochs; None for a line that is older than the newest one."""
        fell = at < self._at and (reading.in_epoch or self._epoch != self._at_epoch)
        if reading.in_epoch and reading.of and self._epoch is not None:
            self._passed = max(0, int(self._epoch) - self._first_epoch) * reading.of
            self._restarts = True
        elif fell and self._epoch == self._at_epoch and at > self._at / 2:
            return None
        elif fell:
            self._passed, self._restarts = self._passed + (self._of or self._at), True
        self._at, self._of, self._at_epoch = at, reading.of or self._of, self._epoch
        return self._passed + at

    def _steps(self, reading: Reading) -> int | None:
        """Return the total of steps, if the program prints it. The end of a bar is the end of an epoch."""
        if not reading.of:
            return None
        if self._restarts or (reading.in_epoch and reading.way != "of"):
            return reading.of * self._epochs if self._epochs else None
        return reading.of
