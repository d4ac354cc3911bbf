"""Read the rows of a file: lines of JSON, records of tf.Example, or arrays of NumPy."""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from trainyard.core.model.batch import Format
from trainyard.core.prediction import body
from trainyard.core.prediction.lite import to_lists
from trainyard.core.prediction.tensors import FaultError, describe
from trainyard.protocol.export import SignatureTypes, TensorType
from trainyard.values.quantities import format_count
from trainyard.values.validation import any_of

MOST_CHARACTERS = 200
OTHERS = (b'"', b"t", b"f", b"n")
"""Marks of a line with more than numbers in lists: a text or a name, true, false, null."""


@dataclass(slots=True)
class Row:
    """A row of a file."""

    line: int | None
    """The number of its line, record or array row, from 1. None stands for the file."""
    instance: Any = None
    """The row as a request has it in `instances`."""
    fault: str = ""
    """Why the row cannot be read; empty for a row that can."""
    has_only_numbers: bool = False
    """True if the row is known to have nothing but numbers in lists."""


def read(path: Path, form: Format, types: SignatureTypes) -> Iterator[Row]:
    """Yield the rows of a file in their order. A row that cannot be read has its fault."""
    yield from READERS[form](path, types)


def _lines(path: Path, _types: SignatureTypes) -> Iterator[Row]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            only_numbers = not any(mark in line for mark in OTHERS)
            try:
                yield Row(number, body.parse_row(line.decode()), has_only_numbers=only_numbers)
            except UnicodeDecodeError as error:
                yield Row(number, fault=f"the line is not UTF-8: byte {error.start + 1}")
            except FaultError as fault:
                yield Row(number, fault=str(fault).replace("line 1, column", "column"))


def _records(path: Path, types: SignatureTypes) -> Iterator[Row]:
    records, number = iter(tf.data.TFRecordDataset(str(path))), 0
    while True:
        number += 1
        try:
            record = next(records).numpy()
        except StopIteration:
            return
        except tf.errors.OpError as error:
            yield Row(number, fault=f"the file cannot be read from this record on: {_first_line(error)}")
            return
        try:
            yield Row(number, _instance_of(record, types))
        except FaultError as fault:
            yield Row(number, fault=str(fault))


def _instance_of(record: bytes, types: SignatureTypes) -> Any:
    """Return the instance of a serialized tf.Example. A model that parses tf.Example itself gets the record."""
    try:
        features = tf.train.Example.FromString(record).features.feature
    except Exception as error:  # DecodeError of either implementation of protobuf
        raise FaultError("the record is not a tf.Example") from error
    only = next(iter(types.inputs)) if len(types.inputs) == 1 else None
    if only and only not in features and types.inputs[only] == TensorType(dtype="string", shape=(None,)):
        return to_lists(np.array(record, object))
    return {name: _value_of(name, each, features) for name, each in types.inputs.items()}


def _value_of(name: str, tensor: TensorType, features: Mapping[str, Any]) -> Any:
    if name not in features:
        raise FaultError(f"the record has no feature {name}; it has {any_of(sorted(features)) or 'none'}")
    feature = features[name]
    kind = feature.WhichOneof("kind")
    values = [*getattr(feature, kind).value] if kind else []
    return _nest(name, np.array(values, object), tensor)


def _arrays(path: Path, types: SignatureTypes) -> Iterator[Row]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        chosen = {name: _choose(name, each, arrays, types) for name, each in types.inputs.items()}
        counts = {len(each) for each in chosen.values()}
        if len(counts) > 1:
            raise FaultError(
                f"the arrays have different numbers of rows: {', '.join(map(str, sorted(counts)))}"
            )
    except FaultError as fault:
        yield Row(None, fault=str(fault))
        return
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        yield Row(None, fault=f"the file cannot be read as .npz: {_first_line(error)}")
        return
    for number in range(min(counts)):
        try:
            instance = {
                name: _nest(name, chosen[name][number].reshape(-1), each)
                for name, each in types.inputs.items()
            }
        except FaultError as fault:
            yield Row(number + 1, fault=str(fault))
            continue
        yield Row(number + 1, instance)


def _choose(name: str, tensor: TensorType, arrays: Mapping[str, Any], types: SignatureTypes) -> Any:
    """Return the array of an input: the array of its name, or the only one whose rows have as many values."""
    if name in arrays and arrays[name].ndim:
        return arrays[name]
    sizes = (tensor.shape or (None,))[1:]
    size = None if tensor.shape is None or None in sizes else prod(each for each in sizes if each is not None)
    fitting = [each for each in arrays.values() if each.ndim and prod(each.shape[1:]) == size]
    if len(types.inputs) == 1 and len(fitting) == 1:
        return fitting[0]
    shown = any_of([f"{each} {'x'.join(map(str, array.shape))}" for each, array in arrays.items()])
    raise FaultError(f"the file has no array {name} ({describe(tensor)}); it has {shown or 'none'}")


def _nest(name: str, values: Any, tensor: TensorType) -> Any:
    """Return flat values in the shape of a row. One free dimension gets the size that remains."""
    shape = [*(tensor.shape or (None,))[1:]] if tensor.has_batch or tensor.shape is None else [*tensor.shape]
    free = [number for number, size in enumerate(shape) if size is None]
    known = prod(size for size in shape if size is not None)
    if len(free) == 1 and known and len(values) % known == 0:
        shape[free[0]], known = len(values) // known, len(values)
    if len(free) > 1 or len(values) != known:
        found = format_count(len(values), "value")
        raise FaultError(f"{name}: found {found}; wanted {known} ({describe(tensor)})")
    return to_lists(values.reshape(shape))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:MOST_CHARACTERS]


READERS: Mapping[Format, Callable[[Path, SignatureTypes], Iterator[Row]]] = {
    Format.JSONL: _lines,
    Format.TFRECORD: _records,
    Format.NPZ: _arrays,
}
