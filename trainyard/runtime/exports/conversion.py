"""Convert a SavedModel for LiteRT, and prove the result with golden rows."""

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

from trainyard.core.prediction import agreement, lite
from trainyard.protocol.export import DEFAULT_SIGNATURE, Conversion, Lite
from trainyard.runtime.exports import golden
from trainyard.runtime.exports.freezing import freeze
from trainyard.runtime.exports.golden import Tensors

MOST_BYTES = 600 << 20
"""The most bytes of a model that the function for predictions keeps in memory."""
OPERATION = re.compile(
    r"'tf\.(\w+)' op|(?:Select TF|TF Select|Custom) ops: (\w+)|Encountered unresolved custom op: (\w+)"
)
MOST_CHARACTERS = 300


@dataclass(frozen=True)
class Converted:
    lite: Lite
    content: bytes = b""
    """model.tflite; empty if the model does not convert."""
    answers: Mapping[str, Tensors] = field(default_factory=dict)
    """LiteRT's answers to the golden rows, by signature."""


def convert(folder: Path, loaded: Any, proofs: Mapping[str, tuple[Tensors, Tensors]]) -> Converted:
    """Return the first conversion that answers the golden rows like TensorFlow. `proofs` has inputs and answers by
    signature: for each converter, first all signatures, then only the default one."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        return _refused(f"the model has {size >> 20} MiB, more than {MOST_BYTES >> 20}")
    if not proofs:
        return _refused(_explain_unproved(folder, loaded))
    reasons: list[str] = []
    for how, converter in CONVERTERS:
        for names in _choices(proofs):
            try:
                content = converter(folder, loaded, names)
                answers = _prove(content, names, proofs, how)
            except Exception as error:  # noqa: BLE001  each op fails with another class, and the reason is recorded
                reasons.append(reason_of(error))
                continue
            reason = reasons[0] if reasons else None
            return Converted(Lite(how=how, reason=reason, signatures=names), content, answers)
    return _refused(reasons[0])


class DifferenceError(Exception):
    """LiteRT's answer differs from TensorFlow's."""


def reason_of(error: Exception) -> str:
    """Return a sentence with the name of the operation that does not convert, if the error names one."""
    text = str(error)
    if isinstance(error, DifferenceError):
        return text
    if found := OPERATION.search(text):
        return f"LiteRT lacks the operation {next(filter(None, found.groups()))}"
    line = next(iter(text.strip().splitlines()), type(error).__name__)
    return f"{type(error).__name__}: {line[:MOST_CHARACTERS]}"


def _refused(reason: str) -> Converted:
    return Converted(Lite(how=Conversion.NONE, reason=reason))


def _explain_unproved(folder: Path, loaded: Any) -> str:
    """Return why a model without golden rows has no conversion: the operation that does not convert, or the rows."""
    try:
        _whole(folder, loaded, [*loaded.signatures])
    except Exception as error:  # noqa: BLE001  each op fails with another class, and the reason is recorded
        return reason_of(error)
    return "no golden row could be made, so no conversion can be proved"


def _choices(names: Mapping[str, object]) -> list[tuple[str, ...]]:
    everything = tuple(sorted(names))
    default = DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in names else everything[0]
    return [everything] if len(everything) == 1 else [everything, (default,)]


def _whole(folder: Path, _loaded: Any, names: Sequence[str]) -> bytes:
    return bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=[*names]).convert())


def _frozen(_folder: Path, loaded: Any, names: Sequence[str]) -> bytes:
    """Convert the model with its variables as constants. LiteRT leaves the variables of a Keras model that
    `tf.saved_model.save` wrote without values (TensorFlow 2.21)."""
    return _resaved({name: freeze(loaded.signatures[name]) for name in names})


def _by_rows(_folder: Path, loaded: Any, names: Sequence[str]) -> bytes:
    """Convert the model with its variables as constants and a batch of 1."""
    return _resaved({name: freeze(loaded.signatures[name], one_row=True) for name in names})


def _resaved(signatures: Mapping[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="trainyard-") as scratch:
        tf.saved_model.save(tf.Module(), scratch, signatures=signatures)
        return _whole(Path(scratch), None, [*signatures])


Converter = Callable[[Path, Any, Sequence[str]], bytes]
CONVERTERS: Sequence[tuple[Conversion, Converter]] = (
    (Conversion.WHOLE, _frozen),
    (Conversion.WHOLE, _whole),
    (Conversion.ROWS, _by_rows),
)


def _prove(
    content: bytes, names: Sequence[str], proofs: Mapping[str, tuple[Tensors, Tensors]], how: Conversion
) -> Mapping[str, Tensors]:
    """Return LiteRT's answers to the golden rows. Raises DifferenceError if they differ from TensorFlow's."""
    interpreter = interpreter_of(content)
    answers: dict[str, Tensors] = {}
    for name in names:
        inputs, expected = proofs[name]
        answers[name] = lite.answer(interpreter, name, inputs, how)
        if difference := agreement.find_difference(golden.as_json(expected), golden.as_json(answers[name])):
            raise DifferenceError(f"LiteRT's answer of {name} differs from TensorFlow's: {difference}")
    return answers


def interpreter_of(content: bytes) -> Any:
    """Return TensorFlow's interpreter for a model.tflite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it names its successor in another package
        return tf.lite.Interpreter(model_content=content)


@contextmanager
def quiet() -> Iterator[None]:
    """Discard the standard error of this process: TensorFlow writes refused rows and failed conversions there."""
    sys.stderr.flush()
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
