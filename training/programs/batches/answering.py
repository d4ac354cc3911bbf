"""Answer rows with a signature of a SavedModel. Rows that do not fit it have a reason instead of an answer."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import tensorflow as tf

from training.programs.batches.rows import Row
from trainyard.core.prediction import body
from trainyard.core.prediction.lite import to_lists
from trainyard.core.prediction.tensors import FLOATS, FaultError
from trainyard.protocol.export import SignatureTypes

MOST_CHARACTERS = 300
PLACES = ("[[", "Graph execution error", "Detected at node", "node ", "<stack traces")
"""Beginnings of the lines of an error that name places in the graph."""


@dataclass(slots=True)
class Answer:
    """The answer to a row, or the reason why it has none."""

    line: int | None
    prediction: Any = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answering:
    """A signature that answers rows."""

    function: Any
    """The signature of the loaded SavedModel."""
    types: SignatureTypes
    most_rows: int
    """The most rows of one call."""

    def answer(self, rows: Iterable[Row]) -> Iterator[Answer]:
        """Yield an answer for each row, in the order of the rows."""
        source = iter(rows)
        size = self.most_rows if self._has_rows else 1
        while batch := [*islice(source, size)]:
            yield from self._answer_batch(batch)
            batch.clear()  # the next rows take the same memory

    @property
    def _has_rows(self) -> bool:
        return all(each.has_batch for each in self.types.inputs.values())

    def _answer_batch(self, rows: Sequence[Row]) -> list[Answer]:
        """Answer rows at once. If one does not fit, check each row, and answer equal shapes together."""
        if not any(row.fault for row in rows):
            with suppress(FaultError):  # each row is checked alone below
                return self._run(rows, self._read_numbers(rows) or self._read([row.instance for row in rows]))
        checked = [(row, *self._check(row)) for row in rows]
        answers: list[Answer] = []
        for _, group in groupby(checked, key=lambda each: _shapes(each[1])):
            found = [*group]
            tensors = [each for _, each, _ in found if each is not None]
            if tensors:
                answers += self._run_or_split([row for row, *_ in found], tensors)
            else:
                answers += [Answer(row.line, reason=reason) for row, _, reason in found]
        return answers

    def _check(self, row: Row) -> tuple[dict[str, Any] | None, str]:
        """Return the tensors of a row, or the reason why it has none."""
        if row.fault:
            return None, row.fault
        try:
            return self._read([row.instance]), ""
        except FaultError as fault:
            return None, str(fault).replace("instances[0]", "the row").replace("inputs", "the row", 1)

    def _run_or_split(self, rows: Sequence[Row], tensors: Sequence[dict[str, Any]]) -> list[Answer]:
        """Answer rows of equal shapes. If the model fails, answer row by row."""
        try:
            joined = {name: tf.concat([each[name] for each in tensors], 0) for name in tensors[0]}
            return self._run(rows, joined if self._has_rows else tensors[0])
        except FaultError as fault:
            if len(rows) == 1:
                return [Answer(rows[0].line, reason=str(fault))]
        pairs = zip(rows, tensors, strict=True)
        return [answer for row, each in pairs for answer in self._run_or_split([row], [each])]

    def _read_numbers(self, rows: Sequence[Row]) -> dict[str, Any] | None:
        """Return the input tensor of rows with nothing but numbers, as TensorFlow reads and checks them, which takes a
        tenth of a check in Python. Return None if `_read` must check each value."""
        (name, only), *others = self.types.inputs.items()
        if others or only.dtype not in FLOATS or not only.has_batch:
            return None
        if not all(row.has_only_numbers for row in rows):
            return None
        try:
            tensor = tf.constant([row.instance for row in rows], only.dtype)
        except (TypeError, ValueError, OverflowError):
            return None
        fits = tensor.shape.is_compatible_with(only.shape) and tf.reduce_all(tf.math.is_finite(tensor))
        return {name: tensor} if fits else None

    def _read(self, instances: list[Any]) -> dict[str, Any]:
        """Return the checked input tensors. Raises FaultError."""
        document = {"instances": instances} if self._has_rows else {"inputs": instances[0]}
        given = body.read(document, self.types).tensors
        return {name: tf.constant(value, self.types.inputs[name].dtype) for name, value in given.items()}

    def _run(self, rows: Sequence[Row], tensors: dict[str, Any]) -> list[Answer]:
        """Return the answers of the model. Raises FaultError if it fails."""
        try:
            outputs = {name: each.numpy() for name, each in self.function(**tensors).items()}
        except tf.errors.OpError as error:
            raise FaultError(f"the model failed: {explain(error)[:MOST_CHARACTERS]}") from error
        values = {name: to_lists(each) for name, each in outputs.items()}
        if not self._has_rows:
            return [Answer(rows[0].line, _only(values))]
        if without := next((name for name, each in outputs.items() if each.shape[:1] != (len(rows),)), None):
            raise FaultError(f"the output {without} has no rows")
        columns = [dict(zip(values, each, strict=True)) for each in zip(*values.values(), strict=True)]
        return [Answer(row.line, _only(each)) for row, each in zip(rows, columns, strict=True)]


def explain(error: tf.errors.OpError) -> str:
    """Return the line of an error of TensorFlow that says what is wrong, without the places in the graph."""
    lines = [line.strip() for line in str(error.message).splitlines()]
    told = [line for line in lines if line and not line.startswith(PLACES)]
    return told[-1] if told else type(error).__name__


def _only(values: dict[str, Any]) -> Any:
    """Return the only output, or all outputs by name."""
    return next(iter(values.values())) if len(values) == 1 else values


def _shapes(tensors: dict[str, Any] | None) -> tuple[tuple[int, ...], ...] | None:
    return None if tensors is None else tuple(tuple(each.shape) for each in tensors.values())
