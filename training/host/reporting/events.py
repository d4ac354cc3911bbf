"""What TensorBoard would draw of a program: the scalars in the event files that it writes, as facts of its progress.

TensorFlow is not needed for it: event files are TFRecords of a protocol buffer, which TensorBoard brings along.
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

import logging
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event

from training.host.disk import readable_files

AT_ONCE_BYTES = 4 * 1024 * 1024
"""Of one file, in one look."""
LONGEST_RECORD = 64 * 1024
"""Longer ones are pictures and graphs, and are passed over."""
HEAD, SUM_BYTES = struct.Struct("<QI"), 4
"""A record's length with its checksum; then come the record and its own."""
ASIDE = re.compile(r"(val|valid|validation|test|eval)([^a-z]|uation|$)", re.IGNORECASE)
"""Folders, and parts of a tag, whose scalars are not of the training itself."""
NAMES = {
    "loss": "loss",
    **{f"{kind}accuracy": "accuracy" for kind in ("", "binary_", "categorical_", "sparse_categorical_")},
    "acc": "accuracy",
    "steps_per_second": "steps_per_second",
    "global_step/sec": "steps_per_second",
}
TAG = re.compile(r"(?P<per>epoch_|batch_)?(?P<name>.+?)(_\d+)?")
FLOATS = {1: "<f", 2: "<d", 19: "<e"}
"""By TensorFlow's DataType: float, double, half."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class EventFiles:
    """All below `folder`, read on where the last look stopped; events from before `since` (epoch seconds) are of an
    earlier attempt."""

    folder: Path
    since: float
    _read: dict[Path, int] = field(default_factory=dict)
    _has_steps: bool = False

    @property
    def counts_steps(self) -> bool:
        """True once a scalar was read that counts more than epochs."""
        return self._has_steps

    def look(self) -> list[dict[str, Any]]:
        """New facts, those of a step together. A file that is no event file, or cannot be read, is the program's own
        affair."""
        return [facts for path in sorted(readable_files(self.folder)) for facts in self._look_at(path)]

    def _look_at(self, path: Path) -> list[dict[str, Any]]:
        parts = path.relative_to(self.folder).parts
        if "tfevents" not in path.name or any(map(ASIDE.match, parts[:-1])):
            return []
        try:
            return list(self._facts(path))
        except (OSError, DecodeError) as error:
            logger.info("%s is not read: %s", path, error)
            return []

    def _facts(self, path: Path) -> Iterator[dict[str, Any]]:
        together: dict[str, Any] = {}
        for event in self._events(path):
            facts = self._facts_of(event)
            step = facts.get("step")
            if step is not None and together.get("step", step) != step:
                yield together
                together = {}
            together |= facts
        if together:
            yield together

    def _facts_of(self, event: Event) -> dict[str, Any]:
        """Keras numbers epochs from 0, and writes of one when it is over. Where there are steps, they count."""
        facts: dict[str, Any] = {}
        for tag, value in scalars(event) if event.wall_time >= self.since else ():
            per, name = meaning(tag)
            if not name:
                continue
            self._has_steps = self._has_steps or per != "epoch_"
            if per == "epoch_":
                facts["epoch"] = event.step + 1
            if per == "epoch_" and self._has_steps:
                continue
            facts |= {name: value, "step": event.step + (per == "epoch_")}
        return facts

    def _events(self, path: Path) -> Iterator[Event]:
        """Those that are whole by now."""
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


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """Of TensorFlow 1 and 2."""
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
    """What the tag counts (`epoch_`, `batch_` or nothing), and which of our names it has; none: empty."""
    if tag in NAMES:
        return "", NAMES[tag]
    *folders, last = tag.split("/")
    found = TAG.fullmatch(last)
    if not found or any(map(ASIDE.match, (*folders, last))):
        return "", ""
    return found["per"] or "", NAMES.get(found["name"], "")
