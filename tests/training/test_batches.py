"""Rows of files of each format, and their answers: the rows that do not fit get a reason, and all others an answer."""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from training.programs import convert, predict_batch
from training.programs.batches import rows
from training.programs.batches.answering import Answering
from training.programs.batches.results import name_of
from training.programs.batches.rows import Row
from trainyard.core.model.batch import Format
from trainyard.protocol.export import (
    GOLDEN,
    LITE_MODEL,
    RECORD,
    WARMUP,
    Conversion,
    SignatureTypes,
    TensorType,
)
from trainyard.runtime import exports


def add(x: Any, y: Any) -> dict[str, Any]:
    tf.debugging.assert_less(y, tf.constant(100, tf.int64), message="y is too large")
    return {"sum": tf.reduce_sum(x, 1) + tf.cast(y, tf.float32)}


SPECS = [tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([None], tf.int64, "y")]


def tensor(dtype: str, *shape: int | None) -> TensorType:
    return TensorType(dtype=dtype, shape=shape)


SUM = SignatureTypes(
    inputs={"x": tensor("float32", None, 2), "y": tensor("int64", None)},
    outputs={"sum": tensor("float32", None)},
)


def answers(path: Path, form: Format, most_rows: int = 4) -> list[tuple[int | None, Any]]:
    """Return the line with the prediction or the reason of each row."""
    answering = Answering(tf.function(add, input_signature=SPECS), SUM, most_rows)
    return [
        (each.line, each.reason or each.prediction) for each in answering.answer(rows.read(path, form, SUM))
    ]


@pytest.mark.parametrize("most_rows", [1, 3, 64])
def test_each_line_has_an_answer_or_a_reason(tmp_path: Path, most_rows: int) -> None:
    file = tmp_path / "rows"
    file.write_bytes(
        b'{"x": [1, 2], "y": 3}\n\nnot json\n{"x": [1, 2]}\n{"x": [1, NaN], "y": 3}\n{"x": [1], "y": 3}\n\xff\n'
        b'{"x": [0, 0], "y": 100}\n{"x": [0.5, 0.5], "y": 99}'
    )
    found = [
        (line, str(each).partition(" [Condition")[0]) for line, each in answers(file, Format.JSONL, most_rows)
    ]
    assert found == [
        (1, "6.0"),
        (3, "the line is not JSON: column 1: Expecting value"),
        (4, "the row: missing y; wanted x, y"),
        (5, "the line has NaN; wanted finite numbers"),
        (6, "the row.x: found a list of 1 number; wanted 2 (float32, shape (any, 2))"),
        (7, "the line is not UTF-8: byte 1"),
        (8, "the model failed: assertion failed: [y is too large]"),
        (9, "100.0"),
    ]  # fmt: skip


def test_records_of_examples_are_rows(tmp_path: Path) -> None:
    def example(x: list[float], y: list[int]) -> bytes:
        features = {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
            "y": tf.train.Feature(int64_list=tf.train.Int64List(value=y)),
        }
        return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

    file = tmp_path / "rows"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for record in (example([1, 2], [3]), example([1], [3]), b"\xff\xff", example([0.5, 0], [1])):
            writer.write(record)
    assert answers(file, Format.TFRECORD) == [
        (1, 6.0),
        (2, "x: found 1 value; wanted 2 (float32, shape (any, 2))"),
        (3, "the record is not a tf.Example"),
        (4, 1.5),
    ]
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert "cannot be read from this record on" in answers(file, Format.TFRECORD)[3][1]


def test_arrays_of_numpy_are_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.npz"
    np.savez(file, x=np.ones((3, 2), np.float64), y=np.arange(3, dtype=np.uint8))
    assert answers(file, Format.NPZ) == [(1, 2.0), (2, 3.0), (3, 4.0)]
    np.savez(file, x=np.ones((3, 2)), y=np.arange(4))
    assert answers(file, Format.NPZ) == [(None, "the arrays have different numbers of rows: 3, 4")]
    np.savez(file, x=np.ones((3, 2)))
    assert "has no array y (int64, shape (any,)); it has x 3x2" in answers(file, Format.NPZ)[0][1]
    file.write_bytes(b"rubbish")
    assert "the file cannot be read as .npz" in answers(file, Format.NPZ)[0][1]


def test_rows_of_different_lengths_are_answered_apart(tmp_path: Path) -> None:
    types = SignatureTypes(
        inputs={"t": tensor("string", None, None)}, outputs={"count": tensor("int32", None)}
    )
    spec = tf.TensorSpec([None, None], tf.string, "t")
    count = tf.function(
        lambda t: {"count": tf.fill([tf.shape(t)[0]], tf.shape(t)[1])}, input_signature=[spec]
    )
    file = tmp_path / "rows"
    file.write_text('["a", "b"]\n["c"]\n["d"]\n')
    found = Answering(count, types, 64).answer(rows.read(file, Format.JSONL, types))
    assert [each.prediction for each in found] == [2, 1, 1]


def test_the_names_of_answers_are_their_files() -> None:
    assert [*map(name_of, ("a/b.jsonl", "c.npz", "errors.jsonl"))] == [
        "a/b.jsonl", "c.npz.jsonl", "errors.jsonl.jsonl",
    ]  # fmt: skip


def test_a_foreign_saved_model_is_prepared_in_a_copy(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    model = tf.Module()
    double = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    tf.saved_model.save(model, str(source), signatures={"serving_default": double})
    before = sorted(source.rglob("*"))
    record = exports.complete(convert.prepare(source, target))
    assert record.lite
    assert record.lite.how is Conversion.WHOLE
    assert {RECORD, GOLDEN, LITE_MODEL} <= {str(path.relative_to(target)) for path in target.rglob("*")}
    assert sorted(source.rglob("*")) == before
    golden = json.loads((target / GOLDEN).read_text())["signatures"]["serving_default"]
    assert golden["tensorflow"]["y"] == [2 * each for each in golden["inputs"]["x"]]
    (warmup,) = tf.data.TFRecordDataset(str(target / WARMUP))
    request = prediction_log_pb2.PredictionLog.FromString(warmup.numpy()).predict_log.request
    assert request.model_spec.signature_name == "serving_default"
    assert [*tf.make_ndarray(request.inputs["x"])] == golden["inputs"]["x"]
    tf.saved_model.save(model, str(source))
    with pytest.raises(SystemExit, match="the SavedModel has no signatures"):
        convert.prepare(source, target)
    (source / "saved_model.pb").write_bytes(b"rubbish")
    with pytest.raises(SystemExit, match="cannot load the SavedModel"):
        convert.prepare(source, target)


@pytest.mark.parametrize("planted", [0.0, 1.0])
def test_a_batch_begins_with_the_golden_rows_of_its_version(
    tmp_path: Path, planted: float, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    double = tf.function(lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    tf.saved_model.save(tf.Module(), str(source), signatures={"serving_default": double})
    exports.complete(convert.prepare(source, target))
    golden, record = (json.loads((target / each).read_text()) for each in (GOLDEN, RECORD))
    golden["signatures"]["serving_default"]["tensorflow"]["y"][0] += planted
    (target / GOLDEN).write_text(json.dumps(golden))
    record["digests"][GOLDEN] = hashlib.sha256((target / GOLDEN).read_bytes()).hexdigest()
    (target / RECORD).write_text(json.dumps(record))

    arguments = argparse.Namespace(model="twice", version=2, record=None, signature=None, batch_size=4)
    if planted:
        with pytest.raises(SystemExit, match="version 2 of twice differs from TensorFlow's answers"):
            predict_batch.load(target, arguments)
        return
    (answer,) = predict_batch.load(target, arguments).answer([Row(1, instance=3.0)])
    assert answer.prediction == 6.0
    assert "version 2 of twice answers the golden rows of 1 signature" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("[1, 2.5]", 3.5),
        ("[1e38, 1]", pytest.approx(1e38)),
        (
            "[1e39, 1]",
            "the row[0]: found 1e+39; wanted a finite number of this type (float32, shape (any, 2))",
        ),
        (
            "[1e400, 1]",
            "the row[0]: found inf; wanted a finite number of this type (float32, shape (any, 2))",
        ),
        ("[1, 2, 3]", "the row: found a list of 3 numbers; wanted 2 (float32, shape (any, 2))"),
        ("[[1, 2]]", "the row: found a list of 1 list; wanted 2 (float32, shape (any, 2))"),
        ("[true, 1]", "the row[0]: found true; wanted a number (float32, shape (any, 2))"),
        ('["1", 1]', 'the row[0]: found the text "1"; wanted a number (float32, shape (any, 2))'),
        ("[null, 1]", "the row[0]: found null; wanted a number (float32, shape (any, 2))"),
        ("7", "the row: found 7; wanted a list of 2 (float32, shape (any, 2))"),
    ],
)
def test_rows_of_numbers_are_checked_like_all_others(tmp_path: Path, line: str, found: Any) -> None:
    types = SignatureTypes(inputs={"x": tensor("float32", None, 2)}, outputs={"sum": tensor("float32", None)})
    function = tf.function(
        lambda x: {"sum": tf.reduce_sum(x, 1)}, input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")]
    )
    (tmp_path / "rows").write_text(f"[1, 1]\n{line}\n[2, 2]\n")
    answers = Answering(function, types, 64).answer(rows.read(tmp_path / "rows", Format.JSONL, types))
    assert [each.reason or each.prediction for each in answers] == [2.0, found, 4.0]
