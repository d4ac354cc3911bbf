"""Golden rows: requests that are made from a signature, with TensorFlow's answers."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainyard.core.prediction.lite import to_lists
from trainyard.protocol.export import MOST_GOLDEN_ROWS, SignatureTypes, TensorType

SIZES = (16, 64, 256)
"""Sizes of free dimensions other than the rows, in the order of the attempts."""
MOST_VALUES = 200_000
"""The most numbers of one golden request, which is stored as JSON."""

Tensors = Mapping[str, Any]


class NoRowsError(Exception):
    """No golden rows can be made for a signature. The message is the reason."""


def make(types: SignatureTypes, function: Any) -> tuple[Tensors, Tensors]:
    """Return inputs for a signature, and TensorFlow's answers. Equal signatures always get equal inputs.

    Raises NoRowsError."""
    trouble = "it has no inputs"
    for size in SIZES:
        inputs = {name: _tensor(name, each, _shape(each, types, size)) for name, each in types.inputs.items()}
        try:
            answers = {name: each.numpy() for name, each in function(**_constants(inputs)).items()}
        except tf.errors.OpError as error:
            trouble = f"TensorFlow's own answer was an error: {error.message.splitlines()[0]}"
            continue
        if all(np.isfinite(each).all() for each in answers.values() if each.dtype.kind == "f"):
            return inputs, answers
        trouble = "TensorFlow's own answer has NaN or infinity"
    raise NoRowsError(trouble)


def as_json(tensors: Tensors) -> dict[str, Any]:
    return {name: to_lists(each) for name, each in tensors.items()}


def _constants(inputs: Tensors) -> dict[str, Any]:
    return {name: tf.constant(each) for name, each in inputs.items()}


def _shape(tensor: TensorType, types: SignatureTypes, size: int) -> list[int]:
    if tensor.shape is None:
        raise NoRowsError("an input has any number of dimensions")
    free = [
        size if each is None else each for each in (tensor.shape[1:] if tensor.has_batch else tensor.shape)
    ]
    return [_rows(types, size), *free] if tensor.has_batch else free


def _rows(types: SignatureTypes, size: int) -> int:
    """Return the number of rows, equal for all inputs."""
    largest = max(
        int(np.prod([size if each is None else each for each in (tensor.shape or ())[1:]]))
        for tensor in types.inputs.values()
    )
    return max(1, min(MOST_GOLDEN_ROWS, MOST_VALUES // max(1, largest)))


def _tensor(name: str, tensor: TensorType, shape: list[int]) -> Any:
    """Return numbers that JSON holds exactly: eighths from 0 to 7/8, or integers 0 and 1, which most vocabularies
    have. Texts are empty, which is a valid tf.Example, too."""
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    dtype = tf.as_dtype(tensor.dtype)
    if dtype == tf.string:
        return np.full(shape, b"", object)
    if dtype.is_floating:
        return (generator.integers(0, 8, shape) / 8).astype(dtype.as_numpy_dtype)
    if dtype.is_integer or dtype.is_bool:
        return generator.integers(0, 2, shape).astype(dtype.as_numpy_dtype)
    raise NoRowsError(f"the input {name} has the type {tensor.dtype}")
