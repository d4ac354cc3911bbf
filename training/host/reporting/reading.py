"""Read the progress of the training from one printed line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from training.host.program.tracebacks import AGENTS_OWN
from training.host.reporting import tables
from training.host.reporting.positions import (
    EPOCH,
    NAME,
    NOT_STEPS,
    OPENING,
    OTHER,
    PACE,
    POSITIONS,
    RATIO,
    SECONDS,
    TRAINERS,
    VALUE,
    WORDS,
    Position,
)
from training.host.reporting.words import (
    ASIDE,
    COUNTS,
    DISCRIMINATOR,
    EVALUATED,
    GENERATOR,
    OWN,
    PLAIN,
    TRAINING,
)

LONGEST = 2000
"""Most characters of a line that are read."""
KEYWORDS = ("loss", "acc", "cost", "epoch", "%|", "% ━", "test", "val", "optimization steps")
"""A line without any of these has no progress, and is not matched with patterns."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The progress in one line. `way` names the form of its position: `epoch` if it has only an epoch."""

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
        """The line's measurements, by their names in the progress."""
        numbers = {"loss": self.loss, "accuracy": self.accuracy, "steps_per_second": self.pace}
        return {name: value for name, value in numbers.items() if value is not None}


def may_have_number(line: str) -> bool:
    """Return True for a line that is worth reading. This check takes 1 us, and reading takes 100 us."""
    lowered = line[:LONGEST].lower()
    is_worth = any(word in lowered for word in KEYWORDS) or tables.is_row(lowered)
    return is_worth and not line.startswith(AGENTS_OWN)


def read(line: str) -> Reading | None:
    """Return the training's progress in a line; None for a line without numbers of the training."""
    values = dict(reversed([*values_in(line)]))
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
        at=count_of(found.get("at")),
        of=count_of(found.get("of")),
        in_epoch=way.in_epoch if way else False,
        epoch=float(number) if number else None,
        epochs=count_of(found.get("epochs")) or (count_of(epoch["epochs"]) if epoch else None),
        from_zero=way.from_zero if way else False,
        is_trainers=way is None and bool(epoch) and ("." in epoch["epoch"] or bool(TRAINERS.search(line))),
    )


def values_in(line: str) -> Iterator[tuple[str, float]]:
    """Yield each number of the training with its name. A word like `Validation:` applies until a word like `train`."""
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


def others_in(line: str) -> Iterator[tuple[str, float]]:
    """Yield each other number that has a name, such as `val_loss: 0.31` and `lr=1e-3`, and counts nothing."""
    yield from evaluated_in(line)
    for found in OTHER.finditer(line):
        before, behind = line[: found.start()][-1:], line[found.end() :][:2]
        words = {*re.split(r"[\W_]+", found["name"].lower())}
        is_part = before.isalnum() or before in ("_", ".", "/", "-", "@", "%")
        is_longer = (
            behind[:1].isalnum()
            or behind[:1] in ("_", "/", ":", "%")
            or (behind[:1] in ".," and behind[1:].isdigit())
        )
        if not (is_part or is_longer or words & COUNTS or words <= TRAINING | PLAIN | OWN):
            yield found["name"], float(found["number"] or found["metered"])


def evaluated_in(line: str) -> Iterator[tuple[str, float]]:
    """Yield the loss and the accuracy of an evaluation: `test_loss` for `Test set: Average loss: 0.0576`."""
    lowered = line.lower()
    if not any(word in lowered for word in EVALUATED):
        return
    for found in (*VALUE.finditer(line), *RATIO.finditer(line)):
        words = [each[0] for each in WORDS.finditer(lowered[: found.start()])]
        near = next((word for word in reversed(words) if word in ASIDE | TRAINING), "")
        if (begins := EVALUATED.get(near)) is None:
            continue
        named = found.groupdict()
        if right := named.get("right"):
            if int(named["all"]):
                yield f"{begins}_accuracy", int(right) / int(named["all"])
            continue
        what = {"acc": "accuracy"}.get(named["what"].lower(), named["what"].lower())
        behind = {*words[len(words) - words[::-1].index(near) :]}
        if behind <= PLAIN | OWN | {"set", "data"}:
            yield f"{begins}_{what}", float(named["number"].replace(",", "")) / (100 if named["unit"] else 1)


def _words(before: str, name: str) -> tuple[set[str], list[str]]:
    """Return the words of the number's name, and the words further left in their order. The name consists of the text
    attached to the number's word (`val_`), and of the words before it that only spaces separate."""
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


def epoch_in(line: str) -> int | None:
    """Return the whole epoch that a line names, or None."""
    found = None if line.startswith(AGENTS_OWN) else EPOCH.search(line)
    return count_of(found["epoch"]) if found else None


def step_in(line: str) -> int | None:
    """Return the step of the whole training that a line names, or None."""
    way, found = _position(line) or (None, {})
    return count_of(found.get("at")) if way and not way.in_epoch else None


def count_of(text: str | None) -> int | None:
    digits = (text or "").replace(",", "").replace("_", "")
    return int(digits) if digits.isdigit() else None


def _per_second(found: Any) -> float | None:
    if found["pace"]:
        return float(found["pace"])
    seconds = float(found["time"]) * SECONDS[found["unit"].lower()]
    return round(1 / seconds, 3) if seconds else None
