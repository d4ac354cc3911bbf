"""Step, loss and accuracy in what ordinary programs print, if the program reports nothing and its job has no pattern.

A line counts only if it says where the training is, and has a loss or an accuracy of the training or a form that only
a training prints: a wrong number is worse than none. Patterns are RE2's, whose time grows only with the line's length.
POSITIONS are tried in their order.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import re2

from training.host.program.tracebacks import AGENTS_OWN
from training.host.reporting import tables
from training.host.reporting.progress import NUMBERS
from training.host.reporting.words import ASIDE, DISCRIMINATOR, GENERATOR, PLAIN, TRAINING

LONGEST = 2000
"""Characters of a line that are read."""
KEYWORDS = ("loss", "acc", "cost", "epoch", "%|", "% ━", "test", "val", "optimization steps")
"""A line without any of these has nothing to read, and costs no pattern."""

THOUSANDS = r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?"
NUMBER = rf"[-+]?(?:{THOUSANDS}|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|nan|inf(?:inity)?)"
WRAPPING = r"""(?:(?:\w+\.)?(?:tensor|array|float\d*)\(\s*)?['"]?"""
"""tensor(0.5, grad_fn=...), np.float32(0.5), Array(0.5, dtype=float32), '0.5'."""
COUNT = r"\d[\d,_]*"


def pattern(text: str) -> Any:
    """Compile for RE2, regardless of case."""
    return re2.compile(f"(?i){text}")


VALUE = pattern(
    r"(?P<what>loss|cost|accuracy|acc)(?:_(?P<of>g|gen|generator|d|disc|discriminator))?"
    r"(?:[_/](?:step|epoch|avg|mean|total|train))?"
    r"(?:\s*\((?:train|training|avg|total|for (?:one|1|the) batch|(?:epoch|step) \d+)\))?"
    r"(?: over epoch| (?:at|after|for|of|in) (?:step|epoch|iter|iteration|batch) \d+)?"
    rf"""['"]?\s*(?:[:=]|->|\bis\b)?\s*{WRAPPING}(?P<number>{NUMBER})(?P<unit>%?)(?:[^\w.%/:]|\.\D|\.?$)"""
)
WORDS = pattern(r"[a-z]+")
NAME = pattern(r"[\w./-]*$")
OPENING = "[({<'\""
"""What begins a part of a line."""
EPOCH = pattern(
    r"""(?:^|[^\w/])(?:train(?:ing)?[_ ])?ep(?:och)?(?:\(train\))?['"]?\s*[:=#|]?\s*[\[(]?\s*['"]?"""
    r"(?P<epoch>\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(?P<epochs>\d+))?"
)
HEADLINE = pattern(
    r"^\W*(?:start(?:ing)? (?:of )?|train(?:ing)?\s+)?epoch\s*[:#]?\s*"
    r"\[?(?P<epoch>\d+)\]?(?:\s*(?:/|of)\s*(?P<epochs>\d+))?\W*$"
)
"""A line that only says which epoch begins, as Keras and PyTorch's tutorials print it."""
ASIDE_HEADLINE = pattern(r"^\W*(?:test|validation|eval\w*)(?: [a-z]+){0,3}\s*:?\W*$")
"""A line behind which numbers of an evaluation follow, until a line says where the training is."""
EPOCH_OVER = pattern(
    r"^\W*(?:time (?:taken )?for |finished |completed |end of )?epoch\s*[:#]?\s*"
    r"\[?(?P<epoch>\d+)\]?(?:\s*(?:/|of)\s*(?P<epochs>\d+))?\]?[\s:,-]*(?:is|took|takes|done|finished|completed|in)\s"
    r"[^=]*?\d+(?:\.\d+)?\s*(?:s|secs?|seconds|m|min|minutes)\.?\W*$"
)
"""A line that only says how long an epoch took, as TensorFlow's tutorials of GANs print it."""
YOLO = pattern(
    rf"^\s*(?P<epoch>\d+)/\d+\s+[\d.]+[MG]B?\s[^|%]*?:\s*\d+%\|?[^|\d]*\|?\s*(?P<at>{COUNT})/(?P<of>{COUNT})\s"
)
"""A row of YOLO's table with its bar. Its losses are parts of one that is not printed."""
RICH = pattern(
    rf"^\s*epoch (?P<epoch>\d+)/(?P<last>\d+|-2)\s+[━╸╺\s]+(?P<at>{COUNT})/(?P<of>{COUNT})\s+\d+:\d\d:\d\d\s*•"
)
"""Lightning's bar of rich, which numbers epochs from 0 up to the last. It is as wide as a terminal, so its loss may
stand in a line of its own behind it."""
BEHIND_RICH = pattern(r"^ {16,}\S")
BARE_BAR = pattern(rf"^\s*\d+%\|[^|]*\|\s*(?P<at>{COUNT})/(?P<of>{COUNT})\s*\[")
"""tqdm's bar without a name or a loss, as Hugging Face's Trainer draws it beside the lines of its losses."""
TRAINERS = pattern(r"^\s*\{.*'grad_norm'")
"""A dictionary of Hugging Face's Trainer, whose epoch is a whole number now and then."""
TRAINERS_EPOCHS = pattern(rf"\bNum Epochs\s*=\s*(?P<number>{COUNT})\s*$")
TRAINERS_STEPS = pattern(rf"\bTotal optimization steps\s*=\s*(?P<number>{COUNT})\s*$")
"""What the Trainer logs before it begins, if its log level is info: by these a part of an epoch is a step."""
PACE = pattern(
    r"(?P<time>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s)/(?:step|it|iter)\b|(?P<pace>\d+(?:\.\d+)?)\s*it/s"
)
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
NOT_STEPS = frozenset(
    {"max", "total", "num", "warmup", "every", "per", "save", "log", "eval", "of", "logging"}
)
"""Words before `step` with which a number is a setting."""
AT_AND_OF = rf"(?P<at>{COUNT})\s*(?:/|of)\s*(?P<of>{COUNT}|unknown|\?)"


@dataclass(frozen=True, slots=True)
class Position:
    """One way in which programs say where they are. `at` counts within the epoch if `in_epoch`."""

    name: str
    pattern: Any
    in_epoch: bool
    from_zero: bool = False
    """True if these programs number their epochs from 0, which a program that resumes at epoch 5 does not show."""


POSITIONS = (
    Position("bar", pattern(rf"^\s*{AT_AND_OF}\s+(?:━|\[[=>.]|- \d|\d+(?:s|ms|us)\s)"), in_epoch=True),
    Position(
        "tqdm",
        pattern(rf"^epoch \d+:\s*\d+%\|[^|]*\|\s*{AT_AND_OF}\s*\[.*\bv_num="),
        in_epoch=True,
        from_zero=True,
    ),
    Position("tqdm", pattern(rf"\d+%\|[^|]*\|\s*{AT_AND_OF}\s*\["), in_epoch=True),
    Position("tqdm", pattern(rf"(?:^|[\s:])(?P<at>{COUNT})it \[\d"), in_epoch=True),
    Position(
        "epoch and step",
        pattern(rf"^\s*\[(?P<epoch>\d+)/(?P<epochs>\d+)\]\s*\[\s*{AT_AND_OF}\s*\]"),
        in_epoch=True,
    ),
    Position(
        "epoch and step",
        pattern(rf"^epoch: \[\d+\]\s*\[\s*{AT_AND_OF}\s*\]"),
        in_epoch=True,
        from_zero=True,
    ),
    Position(
        "epoch and step",
        pattern(
            r"epoch(?:\(train\))?\s*[:#=]?\s*[\[(]?\s*\d+(?:\s*/\s*\d+)?[\])\s:,|\[(-]+"
            rf"(?:(?:step|iter|iteration|batch)\s*[:#=]?)?\s*[\[(]?\s*{AT_AND_OF}"
        ),
        in_epoch=True,
    ),
    Position(
        "epoch and step",
        pattern(rf"^train:\s*(?P<epoch>\d+)\s*\[\s*{AT_AND_OF}"),
        in_epoch=True,
        from_zero=True,
    ),
    Position("epoch and step", pattern(rf"^\s*\[(?P<epoch>\d+),\s*(?P<at>{COUNT})\]\s"), in_epoch=True),
    Position(
        "step",
        pattern(
            r"(?:^|[^\w/])(?:(?P<before>[a-z]+)[_ ])?"
            r"(?:steps?|iters?|iteration|round|episode|num_updates|it)\b(?:\(train\))?"
            rf"""['"]?\s*[:=#\[(]*\s*['"]?(?P<at>{COUNT})(?:\s*(?:/|of)\s*(?P<of>{COUNT}))?(?:[^\w.%]|\.\D|\.?$)"""
        ),
        in_epoch=False,
    ),
    Position("round", pattern(rf"^\[(?P<at>{COUNT})\]\s"), in_epoch=False),
    Position("batch", pattern(rf"\bbatch(?:es)?\s*[:=#\[(]*\s*{AT_AND_OF}"), in_epoch=True),
    Position("of", pattern(rf"^\s*[\[(]\s*{AT_AND_OF}\s*[\])]"), in_epoch=True),
    Position("of", pattern(rf"[\[(]\s*{AT_AND_OF}\s*[\])]\s*$"), in_epoch=True),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line says. `way` is how it says where the program is; `epoch` alone if nothing else does."""

    loss: float | None = None
    accuracy: float | None = None
    pace: float | None = None
    way: str = "epoch"
    at: int | None = None
    of: int | None = None
    in_epoch: bool = False
    epoch: float | None = None
    epochs: int | None = None
    from_zero: bool = False
    is_trainers: bool = False
    """True for a dictionary of Hugging Face's Trainer, which names a part of an epoch and no step."""

    @property
    def numbers(self) -> dict[str, float]:
        """Return what the line measures, by the names of progress."""
        numbers = {"loss": self.loss, "accuracy": self.accuracy, "steps_per_second": self.pace}
        return {name: value for name, value in numbers.items() if value is not None}


def may_say(line: str) -> bool:
    """Return True for a line that is worth reading. It costs a microsecond, and reading costs a hundred."""
    lowered = line[:LONGEST].lower()
    is_worth = any(word in lowered for word in KEYWORDS) or tables.is_row(lowered)
    return is_worth and not line.startswith(AGENTS_OWN)


def read(line: str) -> Reading | None:
    """Return what a line says of the training; None for a line that has no number of it."""
    values = dict(reversed([*_values(line)]))
    generator, discriminator = values.pop("generator", None), values.pop("discriminator", None)
    if generator is not None and discriminator is not None:
        values.setdefault("loss", generator)
    has_one_network = (generator is None) != (discriminator is None)
    if not (values or has_one_network) or "train_runtime" in line:
        return None
    epoch, position, pace = EPOCH.search(line), _position(line), PACE.search(line)
    way, found = position or (None, {})
    if not (values or way):
        return None
    number = found.get("epoch") or (epoch["epoch"] if epoch else None)
    if "cost" in values and not way:
        return None
    return Reading(
        loss=values.get("loss", values.get("cost")),
        accuracy=values.get("accuracy"),
        pace=_per_second(pace) if pace else None,
        way=way.name if way else "epoch",
        at=_count(found.get("at")),
        of=_count(found.get("of")),
        in_epoch=way.in_epoch if way else False,
        epoch=float(number) if number else None,
        epochs=_count(found.get("epochs")) or (_count(epoch["epochs"]) if epoch else None),
        from_zero=way.from_zero if way else False,
        is_trainers=way is None and bool(epoch) and ("." in epoch["epoch"] or bool(TRAINERS.search(line))),
    )


def _values(line: str) -> Iterator[tuple[str, float]]:
    """Each number of the training, by its name. A word like `Validation:` holds until one like `train` comes."""
    end, aside = 0, False
    for found in VALUE.finditer(line):
        before = line[end : found.start()]
        end = found.end(VALUE.groupindex["number"])
        name = NAME.search(before)[0]
        near, far = _words(before, name)
        for word in far:
            aside = word not in TRAINING and (aside or word in ASIDE)
        if aside and not near & TRAINING:
            continue
        number, behind = found["number"], line[end : end + 2]
        if "." not in number and behind[:1] == "," and behind[1:].isdigit():
            continue  # a decimal comma, or one number of a list
        value = float(number.replace(",", ""))
        parts = near & (GENERATOR | DISCRIMINATOR) | {*filter(None, [(found["of"] or "").lower()])}
        if parts and found["what"].lower() == "loss" and near <= TRAINING | PLAIN | parts:
            yield "generator" if parts <= GENERATOR else "discriminator", value
        elif near <= TRAINING | PLAIN and not parts:
            what = {"acc": "accuracy"}.get(found["what"].lower(), found["what"].lower())
            yield what, value / (100 if found["unit"] else 1)


def _words(before: str, name: str) -> tuple[set[str], list[str]]:
    """Return the words that belong to the number's name, and those further left in their order. A name is what is
    attached to the number's word (`val_`), and the words in front of it with only spaces between."""
    text = before[: len(before) - len(name)].lower()
    near = [each[0] for each in WORDS.finditer(name.lower())]
    words = text.split(" ")
    while words and (not words[-1] or words[-1].lstrip(OPENING).isalpha()):
        word = words.pop()
        near += [word.lstrip(OPENING)] if word else []
        if word and word[0] in OPENING:
            break
    return set(near), [each[0] for each in WORDS.finditer(" ".join(words))]


def _position(line: str) -> tuple[Position, dict[str, str | None]] | None:
    for position in POSITIONS:
        for found in position.pattern.finditer(line):
            if (found.groupdict().get("before") or "").lower() not in NOT_STEPS:
                return position, found.groupdict()
    return None


def _count(text: str | None) -> int | None:
    digits = (text or "").replace(",", "").replace("_", "")
    return int(digits) if digits.isdigit() else None


def _per_second(found: Any) -> float | None:
    if found["pace"]:
        return float(found["pace"])
    seconds = float(found["time"]) * SECONDS[found["unit"].lower()]
    return round(1 / seconds, 3) if seconds else None


TRAINER = "trainer"
"""How Hugging Face's Trainer counts: by a bare bar, which is drawn again right behind each of its dictionaries."""
STRANGERS = 20
"""Lines of another way of counting after which a program counts in that way."""


@dataclass(slots=True)
class PrintedLines:
    """Reads line after line, and counts steps on from one epoch to the next.

    A program counts in one way: its first, unless it only counted epochs so far. Lines that count otherwise (a bar of
    an evaluation, the sum of an epoch) move no step.
    """

    _way: str = ""
    _table: tables.Table | None = None
    _strangers: int = 0
    _epoch: float | None = None
    _epochs: int | None = None
    _first_epoch: int = 1
    _bar_of: int | None = None
    """The end of the bare bar that was drawn last before the Trainer's first dictionary: the Trainer's own."""
    _waiting: dict[str, float] = field(default_factory=dict)
    """Numbers of the Trainer's dictionary, until the bar is drawn that shows their step."""
    _trainers_epochs: int | None = None
    _trainers_steps: int | None = None
    _is_behind_rich: bool = False
    """True right behind a drawing of rich's bar."""
    _passed: int = 0
    """Steps of the epochs that are over."""
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

    def facts(self, line: str) -> dict[str, Any]:
        """Return what this line adds to the program's progress; a line of the agent's own adds nothing."""
        line = line[:LONGEST].replace("\N{MINUS SIGN}", "-")
        if not may_say(line):
            return {}
        if headline := HEADLINE.search(line):
            self._begin_epoch(float(headline["epoch"]), _count(headline["epochs"]))
            self._is_evaluated = self._is_aside = False
            return {}
        if ASIDE_HEADLINE.search(line):
            self._is_aside = True
            return {}
        if found := TRAINERS_EPOCHS.search(line):
            self._trainers_epochs = _count(found["number"])
            return {}
        if found := TRAINERS_STEPS.search(line):
            self._trainers_steps = _count(found["number"])
            return {}
        behind_rich, self._is_behind_rich = self._is_behind_rich, bool(RICH.search(line))
        if behind_rich and BEHIND_RICH.search(line):
            self._is_behind_rich = True
            return {name: value for name, value in _values(line) if name in NUMBERS}
        self._table = tables.headed(line) or self._table
        reading = self._row(line) or read(line)
        if reading:
            return self._take(reading)
        if over := EPOCH_OVER.search(line):
            self._begin_epoch(float(over["epoch"]), _count(over["epochs"]))
            return self._count_epochs({"epoch": int(over["epoch"])})
        if bar := BARE_BAR.search(line):
            return self._draw_bar(_count(bar["at"]) or 0, _count(bar["of"]))
        return {}

    def _draw_bar(self, at: int, of: int | None) -> dict[str, Any]:
        """Count by the Trainer's bar. The bar of its evaluation has another end."""
        if self._way != TRAINER:
            self._bar_of = of
        if self._way != TRAINER or of != self._bar_of:
            return {}
        numbers, self._waiting = self._waiting, {}
        return {"step": at, "steps": of, "epoch": int(self._epoch or 0)} | numbers

    def _row(self, line: str) -> Reading | None:
        """Return what a row of a table or of rich's bar says."""
        if rich := RICH.search(line):
            last = _count(rich["last"])
            return replace(
                read(line) or Reading(),
                way="rich",
                at=_count(rich["at"]),
                of=_count(rich["of"]),
                in_epoch=True,
                epoch=float(rich["epoch"]),
                epochs=None if last is None else last + 1,
                from_zero=True,
            )
        if yolo := YOLO.search(line):
            at, of = _count(yolo["at"]), _count(yolo["of"])
            return Reading(way="yolo", at=at, of=of, in_epoch=True, epoch=float(yolo["epoch"]))
        row = self._table.row(line) if self._table else None
        return Reading(loss=row.loss, accuracy=row.accuracy, epoch=float(row.epoch)) if row else None

    def _begin_epoch(self, epoch: float, epochs: int | None) -> None:
        self._epoch, self._epochs = epoch, epochs or self._epochs
        if epoch == 0:
            self._first_epoch = 0

    def _take(self, reading: Reading) -> dict[str, Any]:
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

    def _counts(self, reading: Reading) -> dict[str, Any]:
        """Return step, steps and epoch; nothing for a line that is not about the training under way."""
        epoch = {} if self._epoch is None else {"epoch": int(self._epoch)}
        if reading.at is None:
            return self._trainers_counts(epoch) if reading.is_trainers else self._count_epochs(epoch)
        if not self._is_own(reading) or (step := self._step(reading, reading.at)) is None:
            return {}
        steps = self._steps(reading)
        return {"step": step, **({"steps": steps} if steps else {}), **epoch}

    def _trainers_counts(self, epoch: dict[str, Any]) -> dict[str, Any]:
        """Count the steps of Hugging Face's Trainer without a bar, if it has logged how many there will be."""
        steps, epochs = self._trainers_steps, self._trainers_epochs
        if not (steps and epochs and self._epoch is not None and self._epoch <= epochs):
            return epoch
        self._way = TRAINER
        return {"step": round(self._epoch / epochs * steps), "steps": steps, **epoch}

    def _count_epochs(self, epoch: dict[str, Any]) -> dict[str, Any]:
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
        """Return True for Keras' bar of an evaluation: it looks like the training's, without a headline before it."""
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
        """Return how many steps there will be, if the program says so. The end of a bar is that of an epoch."""
        if not reading.of:
            return None
        if self._restarts or (reading.in_epoch and reading.way != "of"):
            return reading.of * self._epochs if self._epochs else None
        return reading.of
