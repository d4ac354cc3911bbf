"""Event files from TensorBoard's own writer, with the content of TensorFlow 2."""

import math
import struct
from pathlib import Path
from typing import Any

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

from tests.support.event_files import SINCE, event, simple, tensor, write
from training.host.disk import readable_files
from training.host.reporting.events import EventFiles, meaning

OF_TWO = TensorShapeProto(dim=[TensorShapeProto.Dim(size=2)])


def looked(folder: Path) -> list[dict[str, Any]]:
    return EventFiles(lambda: readable_files(folder), folder, SINCE).look()


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ("loss", ("", "loss")),
        ("epoch_loss", ("epoch", "loss")),
        ("batch_accuracy", ("", "accuracy")),
        ("epoch_sparse_categorical_accuracy", ("epoch", "accuracy")),
        ("train/loss", ("", "loss")),
        ("loss_1", ("", "loss")),
        ("global_step/sec", ("", "steps_per_second")),
        ("epoch_steps_per_second", ("epoch", "steps_per_second")),
        ("Loss/train", ("", "loss")),
        ("train_loss", ("", "loss")),
        ("total_loss", ("", "loss")),
        ("loss/total", ("", "loss")),
        ("Train/Loss_epoch", ("last of an epoch", "loss")),
        ("train_loss_step", ("", "loss")),
        ("training/avg-loss", ("", "loss")),
        ("Accuracy/train", ("", "accuracy")),
        ("train_acc", ("", "accuracy")),
        ("losses/total", ("", "loss")),
        ("Loss/val", ("", "")),
        ("Loss/test", ("", "")),
        ("train/kl_loss", ("", "")),
        ("loss/discriminator", ("", "")),
        ("loss_scale", ("", "")),
        ("train/loss_weight", ("", "")),
        ("val_loss", ("", "")),
        ("validation/loss", ("", "")),
        ("eval/accuracy", ("", "")),
        ("evaluation_loss_vs_iterations", ("", "")),
        ("epoch_learning_rate", ("", "")),
        ("colour", ("", "")),
    ],
)
def test_what_a_tag_means(tag: str, found: tuple[str, str]) -> None:
    assert meaning(tag) == found


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("TensorFlow 1", simple("loss", 0.5)),
        ("TensorFlow 2", tensor("loss", 0.5)),
        ("a double", tensor("loss", 0.5, "<d", 2)),
        ("a half", tensor("loss", 0.5, "<e", 19)),
        ("not packed", Summary.Value(tag="loss", tensor=TensorProto(dtype=1, float_val=[0.5]))),
    ],
)
def test_a_scalar_is_read_however_it_is_written(tmp_path: Path, sentence: str, value: Summary.Value) -> None:
    write(tmp_path, event(7, value))
    assert looked(tmp_path) == [{"step": 7, "loss": 0.5}], sentence


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("a text", Summary.Value(tag="loss", tensor=TensorProto(dtype=7, string_val=[b"low"]))),
        ("a vector", Summary.Value(tag="loss", tensor=TensorProto(dtype=1, float_val=[1, 2], tensor_shape=OF_TWO))),
        ("bytes that are too few", Summary.Value(tag="loss", tensor=TensorProto(dtype=1, tensor_content=b"x"))),
        ("nothing", Summary.Value(tag="loss")),
    ],
)  # fmt: skip
def test_what_is_no_scalar_is_passed_over(tmp_path: Path, sentence: str, value: Summary.Value) -> None:
    write(tmp_path, event(7, value))
    assert looked(tmp_path) == [], sentence


def test_keras_writes_of_epochs_once_they_are_over(tmp_path: Path) -> None:
    epochs = [(0, 0.9, 0.5), (1, 0.4, 0.75)]
    write(
        tmp_path / "train",
        *(
            event(epoch, tensor(f"epoch_{name}", value))
            for epoch, loss, accuracy in epochs
            for name, value in (("loss", loss), ("accuracy", accuracy), ("learning_rate", 0.1))
        ),
    )
    write(tmp_path / "validation", event(0, tensor("epoch_loss", 5.0)), event(5, tensor("epoch_loss", 5.0)))
    found = looked(tmp_path)
    assert [(each["step"], each["epoch"], each["accuracy"]) for each in found] == [(1, 1, 0.5), (2, 2, 0.75)]
    assert [round(each["loss"], 3) for each in found] == [0.9, 0.4]


def test_where_there_are_steps_they_count_and_epochs_are_told_beside_them(tmp_path: Path) -> None:
    write(
        tmp_path,
        event(10, tensor("batch_loss", 0.5)),
        event(0, tensor("epoch_loss", 0.5)),
        event(20, tensor("batch_loss", 0.25)),
    )
    assert looked(tmp_path) == [{"step": 10, "loss": 0.5, "epoch": 1}, {"step": 20, "loss": 0.25}]


@pytest.mark.parametrize(
    ("sentence", "folders", "losses"),
    [
        ("a run is called as its user likes", {"test1_lr0.1": 1.0, "valerie": 2.0}, [1.0, 2.0]),
        ("validation beside the training", {"run/train": 1.0, "run/validation": 9.0}, [1.0]),
        ("folders of several scalars", {"Loss_train": 1.0, "Loss_val": 9.0}, [1.0]),
        ("an estimator evaluates below its folder", {"": 1.0, "eval": 9.0, "eval_test": 9.0}, [1.0]),
        ("a test beside the training", {"train": 1.0, "test": 9.0}, [1.0]),
        ("a run that is called test", {"test": 1.0}, [1.0]),
        ("a run with only an evaluation", {"validation": 9.0}, []),
    ],
)
def test_folders_of_an_evaluation_are_left_out(
    tmp_path: Path, sentence: str, folders: dict[str, float], losses: list[float]
) -> None:
    for name, loss in folders.items():
        write(tmp_path / name, event(1, simple("Loss", loss)))
    assert [facts["loss"] for facts in looked(tmp_path)] == losses, sentence


def test_a_loss_that_became_nan_is_read(tmp_path: Path) -> None:
    write(tmp_path, event(7, tensor("Loss/train", float("nan"))))
    (facts,) = looked(tmp_path)
    assert math.isnan(facts["loss"])


def test_losses_of_an_epoch_count_unless_there_are_those_of_steps(tmp_path: Path) -> None:
    write(tmp_path / "a", event(3, simple("Train/Loss_epoch", 0.5)))
    assert looked(tmp_path) == [{"step": 3, "loss": 0.5}]
    write(
        tmp_path / "a", event(300, simple("Train/Loss_iter", 0.25)), event(4, simple("Train/Loss_epoch", 0.5))
    )
    assert looked(tmp_path)[-1] == {"step": 300, "loss": 0.25}


def test_a_file_that_grows_is_read_on_and_half_a_record_is_waited_for(tmp_path: Path) -> None:
    whole = write(tmp_path / "aside", event(1, simple("loss", 4)), event(2, simple("loss", 2))).read_bytes()
    growing = tmp_path / "logs" / "events.out.tfevents.1.host"
    growing.parent.mkdir()
    files, found = EventFiles(lambda: [growing], growing.parent, SINCE), []
    for end in range(0, len(whole) + 1, 7):
        growing.write_bytes(whole[:end])
        found += files.look()
    growing.write_bytes(whole)
    found += files.look()
    assert found == [{"step": 1, "loss": 4.0}, {"step": 2, "loss": 2.0}]
    assert files.look() == []


def test_long_records_are_passed_over(tmp_path: Path) -> None:
    picture = Event(wall_time=SINCE, graph_def=b"x" * 1_000_000)
    write(tmp_path, event(1, simple("loss", 4)), picture, event(2, simple("loss", 2)))
    assert [each["step"] for each in looked(tmp_path)] == [1, 2]


def test_events_of_an_earlier_attempt_are_none(tmp_path: Path) -> None:
    write(tmp_path, event(90, simple("loss", 4), at=SINCE - 1), event(50, simple("loss", 2)))
    assert looked(tmp_path) == [{"step": 50, "loss": 2.0}]


@pytest.mark.parametrize(
    ("sentence", "content"),
    [
        ("no records", b"not an event file at all, whatever it is called"),
        ("a record that is not an event", struct.pack("<QI", 4, 0) + b"\xff\xff\xff\xff" + bytes(4)),
        ("a length beyond everything", struct.pack("<QI", 2**63, 0) + b"x" * 100),
        ("nothing", b""),
    ],
)
def test_what_is_no_event_file_keeps_no_other_from_being_read(
    tmp_path: Path, sentence: str, content: bytes
) -> None:
    (tmp_path / "a.tfevents.1").write_bytes(content)
    (tmp_path / "notes.txt").write_text("mine")
    write(tmp_path / "b", event(1, simple("loss", 4)))
    assert looked(tmp_path) == [{"step": 1, "loss": 4.0}], sentence
