"""Event files as TensorBoard's own writer makes them, with the content of TensorFlow 1 or 2."""

import struct
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

SINCE = 1000.0


def simple(tag: str, value: float) -> Summary.Value:
    """Return a value in the form of tf.compat.v1.summary.scalar."""
    return Summary.Value(tag=tag, simple_value=value)


def tensor(tag: str, value: float, layout: str = "<f", dtype: int = 1) -> Summary.Value:
    """Return a value in the form of tf.summary.scalar."""
    content = struct.pack(layout, value)
    return Summary.Value(tag=tag, tensor=TensorProto(dtype=dtype, tensor_content=content))


def event(step: int, *values: Summary.Value, at: float = SINCE) -> Event:
    return Event(wall_time=at, step=step, summary=Summary(value=values))


def write(folder: Path, *events: Event) -> Path:
    """Write a file of these events after the event with the version, and return its path."""
    writer = EventFileWriter(str(folder))
    for each in events:
        writer.add_event(each)
    writer.close()
    return max(folder.glob("*tfevents*"))
