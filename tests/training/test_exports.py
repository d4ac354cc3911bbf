"""The files that an export adds to a SavedModel, for models of several kinds."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from training.host import account
from training.host.paths import Paths
from training.host.program import exports as program_exports
from trainyard.core.prediction import lite
from trainyard.protocol.export import (
    GOLDEN,
    LITE_MODEL,
    RECORD,
    SAVED_MODEL,
    Conversion,
    ExportRecord,
    Golden,
)
from trainyard.runtime import exports
from trainyard.runtime.export import classifier
from trainyard.runtime.exports import conversion
from trainyard.values import serialization

ROOT = Path(__file__).resolve().parents[2]


def save(folder: Path, function: Callable[..., Any], *specs: tf.TensorSpec) -> None:
    module = tf.Module()
    traced = tf.function(function).get_concrete_function(*specs)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": traced})


def of_several_signatures(folder: Path) -> None:
    module = tf.Module()
    module.weights = tf.Variable(tf.random.normal((784, 10), seed=1))
    image = tf.TensorSpec((None, 28, 28), tf.float32, "image")
    signatures = classifier(lambda x: tf.reshape(x, (-1, 784)) @ module.weights, image)
    traced = {name: each.traced() for name, each in signatures.items()}
    tf.saved_model.save(module, str(folder), signatures=traced)


def of_keras(folder: Path) -> None:
    """A text model, as Keras exports it."""
    layers = keras.layers
    embedding = [layers.Embedding(100, 8), layers.GlobalAveragePooling1D(), layers.Dense(2)]
    keras.Sequential([layers.Input((12,), dtype="int32"), *embedding]).export(folder, verbose=False)


def of_several_inputs(folder: Path) -> None:
    spec = [tf.TensorSpec((None, 4), tf.float32, "left"), tf.TensorSpec((None,), tf.int64, "right")]
    save(folder, lambda left, right: {"sum": left + tf.cast(right, tf.float32)[:, None]}, *spec)


def of_keras_variables(folder: Path) -> None:
    """A model of Keras in a module with a signature of its own, as our runtime exports it."""
    module = tf.Module()
    module.model = keras.Sequential([keras.layers.Input((4, 4, 1)), keras.layers.Conv2D(2, 3)])
    spec = tf.TensorSpec([None, 4, 4, 1], tf.float32, "image")
    function = tf.function(lambda image: {"y": module.model(image)}, input_signature=[spec])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": function, "again": function})


def of_free_length(folder: Path) -> None:
    save(folder, lambda x: {"mean": tf.reduce_mean(x, axis=1)}, tf.TensorSpec((None, None), tf.float32, "x"))


def of_one_request(folder: Path) -> None:
    save(folder, lambda x: {"y": x * 2}, tf.TensorSpec((), tf.float32, "x"))


def with_memory(folder: Path) -> None:
    keras.Sequential([keras.layers.Input((6, 3)), keras.layers.LSTM(4)]).export(folder, verbose=False)


def of_examples(folder: Path) -> None:
    feature = {"x": tf.io.FixedLenFeature([2], tf.float32, [0.0, 0.0])}

    def parse(given: Any) -> dict[str, Any]:
        return {"y": tf.io.parse_example(given, feature)["x"]}

    save(folder, parse, tf.TensorSpec((None,), tf.string, "examples"))


def of_pictures(folder: Path) -> None:
    """A model whose TensorFlow refuses each golden row, because a row must be a PNG."""
    save(folder, lambda x: {"y": tf.io.decode_png(x[0])}, tf.TensorSpec((None,), tf.string, "png"))


def without_a_finite_answer(folder: Path) -> None:
    save(folder, lambda x: {"y": x / 0.0}, tf.TensorSpec((None, 2), tf.float32, "x"))


CASES: Mapping[str, tuple[Callable[[Path], None], Conversion, str]] = {
    "three signatures": (of_several_signatures, Conversion.WHOLE, ""),
    "a Keras text model": (of_keras, Conversion.WHOLE, ""),
    "several inputs": (of_several_inputs, Conversion.WHOLE, ""),
    "a Keras model by tf.saved_model.save": (of_keras_variables, Conversion.WHOLE, ""),
    "a free length": (of_free_length, Conversion.WHOLE, ""),
    "no rows": (of_one_request, Conversion.WHOLE, ""),
    "an LSTM": (with_memory, Conversion.ROWS, "TensorListReserve"),
    "parse_example": (of_examples, Conversion.NONE, "ParseExampleV2"),
    "golden rows that TensorFlow refuses": (of_pictures, Conversion.NONE, "lacks the operation DecodePng"),
    "an answer of infinity": (without_a_finite_answer, Conversion.NONE, "no golden row"),
}


@pytest.mark.parametrize(("make", "how", "reason"), CASES.values(), ids=CASES)
def test_an_export_has_the_files_that_predictions_need(
    make: Callable[[Path], None], how: Conversion, reason: str, tmp_path: Path
) -> None:
    make(tmp_path)
    exports.complete(tmp_path, run="digits-1a2b3c4d", job="digits", step=20, image="image")
    record = serialization.read(ExportRecord, json.loads((tmp_path / RECORD).read_text()))
    golden = serialization.read(Golden, json.loads((tmp_path / GOLDEN).read_text()))
    assert (record.run, record.step) == ("digits-1a2b3c4d", 20)
    assert record.lite
    assert record.lite.how is how, record.lite.reason
    assert reason in (record.lite.reason or "")
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert record.digests.keys() == files - {RECORD}
    assert golden.signatures.keys() | golden.omitted.keys() == record.signatures.keys()
    assert (LITE_MODEL in files) == bool(record.lite.signatures)
    for name in record.lite.signatures:
        assert _answer_again(tmp_path, name, record, golden) == golden.signatures[name].lite


def _answer_again(folder: Path, name: str, record: ExportRecord, golden: Golden) -> dict[str, Any]:
    """Answer the golden rows from the files only."""
    assert record.lite
    types = record.signatures[name].inputs
    given = golden.signatures[name].inputs
    tensors = {each: np.array(given[each], types[each].dtype) for each in types}
    interpreter = conversion.interpreter_of((folder / LITE_MODEL).read_bytes())
    answers = lite.answer(interpreter, name, tensors, record.lite.how)
    return {each: lite.to_lists(value) for each, value in answers.items()}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """A host's disk whose Python has TensorFlow and this repository."""
    made = Paths(tmp_path / "disk")
    made.python.parent.mkdir(parents=True)
    made.home.mkdir(parents=True)
    made.python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    made.python.chmod(0o755)
    (made.python.parents[1] / "lib/python3.11/site-packages/tensorflow").mkdir(parents=True)
    return made


def prepare(paths: Paths, models: list[Path], *, ends: bool = False) -> str | None:
    return program_exports.prepare(models, account.own(), paths, most_tasks=4096, has_to_end=lambda: ends)


def test_the_model_of_a_plain_script_is_prepared_after_its_end(paths: Paths) -> None:
    for name in ("export/1", "export/2"):
        of_several_inputs(paths.program / name)
    models = program_exports.find_unprepared((paths.model, paths.program))
    assert {path.name for path in models} == {"1", "2"}
    assert prepare(paths, models) is None
    assert {path.parent.name for path in paths.program.rglob(LITE_MODEL)} == {"1", "2"}
    assert program_exports.find_unprepared((paths.model, paths.program)) == []


def test_a_model_that_cannot_be_prepared_stays_with_a_sentence(paths: Paths) -> None:
    broken = paths.program / "export"
    broken.mkdir(parents=True)
    (broken / SAVED_MODEL).write_bytes(b"broken")
    said = prepare(paths, [broken])
    assert said is not None
    assert said.startswith("its model (export) could not be prepared for predictions (exit code 1): ")
    assert {path.name for path in broken.iterdir()} == {SAVED_MODEL}


def test_an_order_to_leave_ends_the_preparation(paths: Paths) -> None:
    of_several_inputs(paths.program / "export")
    assert "was not prepared" in (prepare(paths, [paths.program / "export"], ends=True) or "")


def test_equal_models_have_equal_golden_rows(tmp_path: Path) -> None:
    for name in ("one", "other"):
        of_several_inputs(tmp_path / name)
        exports.complete(tmp_path / name)
    one, other = ((tmp_path / name / GOLDEN).read_text() for name in ("one", "other"))
    assert one == other
