"""Read a program's progress from the scalars in the event files that it writes for TensorBoard.

This needs no TensorFlow: event files are TFRecords of a protocol buffer, which the package tensorboard contains.
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

import logging
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event

from training.host.reporting.scalars import Scalar
from training.host.reporting.words import PLAIN, TRAINING

AT_ONCE_BYTES = 4 * 1024 * 1024
"""Most bytes that are read from one file in one look."""
LONGEST_RECORD = 64 * 1024
"""Longer records are pictures and graphs, and are skipped."""
HEAD, SUM_BYTES = struct.Struct("<QI"), 4
"""A record's length with its checksum. The record and its own checksum follow."""
EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation"})
"""Words in the name of a folder with scalars of an evaluation."""
PERHAPS_EVALUATION = frozenset({"test", "dev"})
"""Words that are also names of runs: they mean an evaluation only if there are scalars beside them."""
NAMES = {
    "loss": "loss",
    "losses": "loss",
    "accuracy": "accuracy",
    "acc": "accuracy",
}
PACES = {
    "steps_per_second": "",
    "train/steps_per_second": "",
    "epoch_steps_per_second": "epoch",
    "batch_steps_per_second": "",
    "global_step/sec": "",
}
"""Tags that count the steps of a second, with what the event's own number counts."""
WORDS = re.compile(r"[^a-z0-9]+")
OF_EPOCH = "epoch_"
"""The beginning of Keras' tags that count epochs from 0."""
FLOATS = {1: "<f", 2: "<d", 19: "<e"}
"""Formats by TensorFlow's DataType: float, double, half."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class EventFiles:
    """The event files below a folder. Each look continues where the last one stopped."""

    list_files: Callable[[], Iterable[Path]]
    """Returns the files to look at, and others."""
    folder: Path
    since: float
    """Events from before this time (in seconds since 1970) are of an earlier attempt."""
    further: list[Scalar] = field(default_factory=list)
    """Values of other metrics, until `take_further` returns them."""
    _read: dict[Path, int] = field(default_factory=dict)
    _has_steps: bool = False

    @property
    def counts_steps(self) -> bool:
        """True once a scalar was read that counts more than epochs."""
        return self._has_steps

    def look(self) -> list[dict[str, float]]:
        """Return new values, merged by step. Skip files that are not event files or cannot be read."""
        files = [path for path in sorted(self.list_files()) if "tfevents" in path.name]
        of_training = self._leave_out_evaluation(files)
        return [values for path in files for values in self._look_at(path, trains=path in of_training)]

    def take_further(self) -> list[Scalar]:
        """Return the new values of other metrics, each once."""
        taken, self.further = self.further, []
        return taken

    def _leave_out_evaluation(self, files: list[Path]) -> list[Path]:
        """Leave out the folders of an evaluation."""
        folders = {path: path.relative_to(self.folder).parts[:-1] for path in files}
        may_train = [
            path for path, parts in folders.items() if not any(_has(part, EVALUATION) for part in parts)
        ]
        trains = [
            path for path in may_train if not any(_has(part, PERHAPS_EVALUATION) for part in folders[path])
        ]
        return trains or may_train

    def _look_at(self, path: Path, *, trains: bool) -> list[dict[str, float]]:
        try:
            return list(self._read_metrics(path, trains))
        except (OSError, DecodeError) as error:
            logger.info("%s is not read: %s", path, error)
            return []

    def _read_metrics(self, path: Path, trains: bool) -> Iterator[dict[str, float]]:
        together: dict[str, float] = {}
        for event in self._events(path):
            values = self._metrics_of(event, trains)
            step = values.get("step")
            if step is not None and together.get("step", step) != step:
                yield together
                together = {}
            together |= values
        if together:
            yield together

    def _metrics_of(self, event: Event, trains: bool) -> dict[str, float]:
        """Return the values of one event. Keras numbers epochs from 0, and writes an epoch's event at its end. If there
        are steps, only steps count."""
        values: dict[str, float] = {}
        for tag, value in scalars(event) if event.wall_time >= self.since else ():
            per, name = meaning(tag) if trains else ("", "")
            if not name:
                self.further.append(further_of(tag, value, event, trains))
                continue
            self._has_steps = self._has_steps or not per
            if per == "epoch":
                values["epoch"] = event.step + 1
            if per and self._has_steps:
                continue
            values |= {name: value, "step": event.step + (per == "epoch")}
        return values

    def _events(self, path: Path) -> Iterator[Event]:
        """Yield the events that are whole by now."""
        begins = self._read.get(path, 0)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(begins)
            block = file.read(AT_ONCE_BYTES)
        at = 0
        while at + HEAD.size <= len(block):
            length, _ = HEAD.unpack_from(block, at)
            record, end = at + HEAD.size, at + HEAD.size + length + SUM_BYTES
            is_long = length > LONGEST_RECORD
            if begins + end > size or (end > len(block) and not is_long):
                return
            self._read[path] = begins + end
            if not is_long:
                yield Event.FromString(block[record : record + length])
            at = end


@dataclass(slots=True)
class Seen:
    """The results of looks: values of the progress, each with True if its file counts more than epochs, and scalars."""

    values: list[tuple[bool, dict[str, float]]] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)


@dataclass(slots=True)
class Looks:
    """Looks at event files. The first scalars wait for one more look, because Keras writes an epoch's scalars before
    the line with its steps: a program must not count epochs first and then steps."""

    _waiting: Seen | None = None
    _has_found: bool = False

    def take(self, events: Sequence[EventFiles], *, at_once: bool) -> Seen:
        """Look, and return what this look and the waiting one found. `at_once`: nothing waits."""
        values = [(each.counts_steps, found) for each in events for found in each.look()]
        seen = Seen(values, [scalar for each in events for scalar in each.take_further()])
        if not (at_once or self._has_found):
            self._has_found = bool(seen.values or seen.scalars)
            self._waiting = seen
            return Seen()
        first, self._waiting, self._has_found = self._waiting or Seen(), None, True
        return Seen(first.values + seen.values, first.scalars + seen.scalars)


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """Yield the scalars of an event of TensorFlow 1 or 2."""
    for value in event.summary.value:
        if value.HasField("simple_value"):
            yield value.tag, value.simple_value
        elif value.HasField("tensor") and not value.tensor.tensor_shape.dim:
            yield from ((value.tag, number) for number in _numbers(value.tensor))


def _numbers(tensor: Any) -> Iterator[float]:
    layout = FLOATS.get(tensor.dtype)
    if layout and len(tensor.tensor_content) == struct.calcsize(layout):
        yield struct.unpack(layout, tensor.tensor_content)[0]
    elif layout:
        yield from [*tensor.float_val, *tensor.double_val][:1]


def meaning(tag: str) -> tuple[str, str]:
    """Return what the tag's number counts, and our name for its value; both empty for an unknown tag.

    `epoch` means Keras' epochs from 0. A tag that ends in `epoch` counts in the way of its writer: Lightning counts
    steps."""
    tag = tag.lower()
    if tag in PACES:
        return PACES[tag], "steps_per_second"
    words = [word for word in WORDS.split(tag) if word and not word.isdigit()]
    names = {NAMES[word] for word in words if word in NAMES}
    if len(names) != 1 or not set(words) - set(NAMES) <= TRAINING | PLAIN:
        return "", ""
    per = "epoch" if words[0] == "epoch" else "last of an epoch" if words[-1] == "epoch" else ""
    return per, names.pop()


def further_of(tag: str, value: float, event: Event, trains: bool) -> Scalar:
    """Return the value of another metric. In the folder of an evaluation, its name begins with `val_`, as in Keras."""
    name = tag.removeprefix(OF_EPOCH).strip().replace(" ", "_")
    epoch = event.step + 1 if tag.startswith(OF_EPOCH) else None
    step = event.step if epoch is None else None
    return Scalar(name if trains else f"val_{name}", value, step, epoch, event.wall_time)


def _has(folder: str, meant: frozenset[str]) -> bool:
    """Return True if a folder's name has one of these words.

    A word of EVALUATION counts at either end of the name, as in PyTorch's `Loss_val` and an estimator's `eval_test`.
    """
    words = [word for word in WORDS.split(folder.lower()) if word]
    ends = words[-1:] if len(words) == 1 or meant is EVALUATION else []
    return bool(meant & {*ends, *(words[:1] if meant is EVALUATION else [])})
