"""Metrics under names of their own, and the objective: from reports, event files, patterns and printed lines."""

import json
import math
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.event_files import event, simple, tensor, write
from training.host.bucket import Bucket
from training.host.disk import readable_files
from training.host.reporting.events import EventFiles, Looks, Seen
from training.host.reporting.metric_points import PART_BYTES, MetricPoints
from training.host.reporting.metrics import Metrics
from training.host.reporting.observed import PrintedMetric, PrintedProgress
from training.host.reporting.printed import PrintedLines
from training.host.reporting.progress import Progress, Source
from training.host.reporting.scalars import FEWEST_SAMPLES, MOST_NAMES, MOST_SAMPLES, Scalar, Scalars
from trainyard.client.runs.metric_points import read, samples_in
from trainyard.protocol import signals
from trainyard.protocol.objective import MOST_POINTS, MOST_SCALARS


def reported(tmp_path: Path, *lines: dict[str, Any], objective: str | None = None) -> Progress:
    path = tmp_path / "progress.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = Progress(path, started=0, scalars=Scalars(objective))
    progress.update()
    return progress


def curves(scalars: Scalars) -> dict[str, list[tuple[int, float]]]:
    found = scalars.in_metrics.get("scalars", {})
    return {name: [(step, value) for step, value, *_ in samples] for name, samples in found.items()}


def points(scalars: Scalars) -> list[tuple[int, int | None, float]]:
    return [(each.step, each.epoch, each.value) for each in scalars.in_signal.get("objective", ())]


def test_a_report_may_have_any_number_and_the_objective_has_its_steps(tmp_path: Path) -> None:
    progress = reported(
        tmp_path,
        {"step": 5, "steps": 20, "epoch": 1, "loss": 2.0, "lr": 0.1, "phase": "warm", "flag": True, "l": [1]},
        {"step": 10, "epoch": 1, "val_f1": 0.5},
        {"step": 15, "steps": 20, "epoch": 2, "loss": 1.0, "lr": 0.2},
        {"val_f1": 0.75},
        objective="val_f1",
    )
    assert curves(progress.scalars) == {"lr": [(5, 0.1), (15, 0.2)], "val_f1": [(10, 0.5), (15, 0.75)]}
    assert points(progress.scalars) == [(10, 1, 0.5), (15, 2, 0.75)]
    sent = signals.Progress(**(progress.due(1) or {}))
    assert (sent.step, sent.steps, sent.loss, dict(sent.scalars)) == (
        15,
        20,
        1.0,
        {"lr": 0.2, "val_f1": 0.75},
    )
    read = signals.decode(
        "progress", signals.encode(signals.Sent(run="r", attempt=1, instance="i", signal=sent))
    )
    assert isinstance(read, signals.Sent)
    assert (read.signal, read.left_out) == (sent, ())


def test_a_late_evaluation_does_not_set_the_step_back(tmp_path: Path) -> None:
    lines = [{"step": 20, "steps": 40, "loss": 0.5}, {"step": 10, "val_f1": 0.75}]
    progress = reported(tmp_path, *lines, objective="val_f1")
    assert (progress.all["step"], progress.all["loss"]) == (20, 0.5)
    assert points(progress.scalars) == [(10, None, 0.75)]


@pytest.mark.parametrize("name", ["loss", "accuracy"])
def test_the_objective_may_be_a_metric_that_every_run_has(tmp_path: Path, name: str) -> None:
    progress = reported(tmp_path, {"step": 1, name: 0.5}, {"step": 2, name: math.nan}, objective=name)
    ((_, _, first), (step, _, value)) = points(progress.scalars)
    assert (first, step, math.isnan(value)) == (0.5, 2, True)
    assert curves(progress.scalars) == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        ("NaN", math.nan),
        ("-Infinity", -math.inf),
        (1e308, 1e308),
        (10**400, None),
        ("0.5", None),
        (None, None),
    ],
)
def test_a_value_is_a_number_or_not_finite(tmp_path: Path, value: object, expected: float | None) -> None:
    found = reported(tmp_path, {"step": 1, "f1": value}).scalars.latest.get("f1")
    assert str(found) == str(expected)


def test_any_name_counts_and_a_signal_has_those_that_fit_into_the_ledger(tmp_path: Path) -> None:
    many = {f"m{n}": float(n) for n in range(40)}
    odd = {
        "val f1": 0.5,
        "\u7cbe\u5ea6": 0.25,
        "x" * 500: 1.0,
        "large": 1e308,
        "y" * 501: 1.0,
        "": 2.0,
        "a\nb": 3.0,
    }
    scalars = reported(tmp_path, {"step": 1, **odd, **many, "f1": 0.7}, objective="f1").scalars
    assert scalars.latest.keys() == {"val f1", "\u7cbe\u5ea6", "x" * 500, "large", "f1", *many}
    sent = signals.Progress(step=1, **scalars.in_signal)
    assert (len(sent.scalars), sent.scalars["f1"], "large" in sent.scalars) == (MOST_SCALARS, 0.7, False)
    notes = scalars.take_notes()
    assert len(notes) == 3
    assert "'yyyy" in notes[0]
    assert "a name has 1 to 500 characters" in notes[0]
    assert scalars.take_notes() == []


def test_the_first_1000_metrics_count_and_the_log_names_a_few_others(tmp_path: Path) -> None:
    lines = [{"step": step, **{f"m{n}": float(n) for n in range(100_000)}, "f1": 0.5} for step in (1, 2)]
    scalars = reported(tmp_path, *lines, objective="f1").scalars
    assert len(scalars.latest) == MOST_NAMES
    assert scalars.latest["f1"] == 0.5
    notes = scalars.take_notes()
    assert (len(notes), "'m999' is left out: a run has at most 1,000 metrics" in notes[0]) == (8, True)


def test_many_curves_share_the_samples() -> None:
    scalars = Scalars()
    for step in range(1, 101):
        for name in range(MOST_NAMES):
            scalars.add(Scalar(f"m{name}", float(step), step))
    assert {len(curve) for curve in curves(scalars).values()} <= set(
        range(FEWEST_SAMPLES // 2, FEWEST_SAMPLES + 1)
    )
    assert {curve[-1] for curve in curves(scalars).values()} == {(100, 100.0)}


def test_curves_are_bounded_even_and_keep_both_ends() -> None:
    scalars = Scalars("f1")
    for step in range(1, 20_001):
        scalars.add(Scalar("f1", 1 / step, step))
    steps = [step for step, _ in curves(scalars)["f1"]]
    assert MOST_SAMPLES // 3 < len(steps) <= MOST_SAMPLES
    assert (steps[0], steps[-1]) == (1, 20_000)
    gaps = [after - before for before, after in pairwise(steps[:-1])]
    assert max(gaps) <= 2 * min(gaps)
    assert [step for step, _, _ in points(scalars)] == list(range(20_001 - MOST_POINTS, 20_001))


def test_a_program_that_counts_nothing_has_a_curve() -> None:
    scalars = Scalars()
    for value in (3.0, 2.0, 1.0):
        scalars.take({"f1": value}, {})
    assert curves(scalars) == {"f1": [(0, 3.0), (1, 2.0), (2, 1.0)]}


class Memory:
    """The objects that a host has written."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.write, self.read, self.read_if_there = (
            self.objects.__setitem__,
            self.objects.get,
            self.objects.get,
        )

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self.objects if key.startswith(prefix)]

    def metrics(self, attempt: int = 1) -> Metrics:
        return Metrics(cast(Bucket, self), "r", Scalars(points=MetricPoints(attempt)))

    def points(self, *names: str) -> dict[str, list[tuple[int, float]]]:
        return {name: [*points.curve] for name, points in read(cast(Any, self), "r", names).items()}


def test_an_attempt_that_resumes_continues_the_curves_from_its_checkpoint() -> None:
    bucket = Memory()
    first = bucket.metrics()
    for step in (10, 20, 30):
        first.scalars.add(Scalar("f1", step / 100, step))
    first.send(last=True)
    assert json.loads(bucket.objects["runs/r/metrics.json"])["f1"] == 0.3
    second = bucket.metrics(2)
    second.begin(up_to=20)
    second.scalars.add(Scalar("f1", 0.25, 25))
    second.send(last=True)
    found = samples_in(json.loads(bucket.objects["runs/r/metrics.json"]))
    assert found["f1"].curve == ((10, 0.1), (20, 0.2), (25, 0.25))
    assert bucket.points() == {"f1": [(10, 0.1), (20, 0.2), (25, 0.25)]}


def test_all_points_are_kept_with_their_times_and_epochs_in_a_few_bytes_each() -> None:
    bucket, random = Memory(), Random(1)
    metrics = bucket.metrics()
    at, expected = 1_700_000_000.0, list[tuple[int, float]]()
    for step in range(1, 30_001):
        value = random.random() if step % 1000 else math.inf
        metrics.scalars.add(Scalar("f1", value, step, step // 100, at + step / 4))
        expected.append((step, value))
        if step % 5000 == 0:
            metrics.send(last=True)
    stored = read(cast(Any, bucket), "r")["f1"]
    assert [*stored.curve] == expected
    assert (stored.times[9], stored.epochs[9], stored.epochs[-1]) == (at + 2.5, 0, 300)
    sizes = [len(bucket.objects[key]) for key in bucket.keys("runs/r/metrics/")]
    assert sum(sizes) / len(expected) < 12


def test_a_full_part_is_followed_by_another_one_and_a_failed_write_is_repeated() -> None:
    bucket, random = Memory(), Random(1)
    points = MetricPoints()
    for turn in range(4):
        for step in range(40_000):
            points.add("f1", turn * 40_000 + step, random.random(), 0.0)
        if turn == 1:
            with pytest.raises(OSError, match="away"):
                points.send(cast(Bucket, SimpleNamespace(write=away)), "runs/r/metrics/", last=True)
        points.send(cast(Bucket, bucket), "runs/r/metrics/", last=True)
    assert len(bucket.points("f1")["f1"]) == 160_000
    sizes = [len(bucket.objects[key]) for key in sorted(bucket.keys("runs/r/metrics/"))]
    assert [size >= PART_BYTES for size in sizes] == [True, False]
    assert bucket.points("lr") == {}


def away(key: str, body: bytes) -> None:
    raise OSError(f"away: {key}, {len(body)}")


@pytest.mark.parametrize(
    "curves",
    [None, 5, {"a b": []}, {"f1": 3}, {"f1": [[1], ["x", 1, 1, 1], [1, "y", 1, 1], [2, True, 1, 1]]}],
)
def test_a_broken_metrics_file_is_no_reason_to_fail(curves: object) -> None:
    scalars = Scalars()
    scalars.begin(curves, up_to=math.inf)
    assert scalars.in_metrics == {}


def test_the_programs_own_metrics_have_the_last_word(tmp_path: Path) -> None:
    scalars = reported(tmp_path, {"step": 40, "epoch": 4, "val_f1": 0.5}, objective="val_f1").scalars
    scalars.conclude({"val_f1": 0.55, "test_f1": 0.5, "epochs": 4, "history": [1], "note": "x"}, 40)
    assert points(scalars) == [(40, 4, 0.55)]
    assert dict(scalars.latest) == {"val_f1": 0.55, "test_f1": 0.5, "epochs": 4}
    assert curves(scalars) == {"val_f1": [(40, 0.55)], "test_f1": [(40, 0.5)]}


def test_scalars_of_tensorboard_and_of_its_validation_folder(tmp_path: Path) -> None:
    write(tmp_path / "train", event(0, tensor("epoch_loss", 2.0), tensor("epoch_learning rate", 0.5)))
    write(
        tmp_path / "validation",
        event(0, tensor("epoch_loss", 3.0), tensor("epoch_accuracy", 0.25)),
        event(1, tensor("epoch_accuracy", 0.5)),
    )
    write(tmp_path / "lightning", event(7, simple("val/f1", 0.75)), event(7, simple("hp_metric", math.nan)))
    events = EventFiles(lambda: readable_files(tmp_path), tmp_path, 0)
    assert [facts.get("loss") for facts in events.look()] == [2.0]
    scalars = Scalars("val_accuracy")
    for each in events.take_further():
        scalars.add(each)
    assert events.take_further() == []
    assert curves(scalars).keys() == {"learning_rate", "val_loss", "val_accuracy", "val/f1", "hp_metric"}
    assert curves(scalars)["val/f1"] == [(7, 0.75)]
    assert points(scalars) == [(1, 1, 0.25), (2, 2, 0.5)]


def fit(progress: Progress, events: Looks, folder: EventFiles, epochs: range) -> None:
    """Follow Keras' fit with 16 steps an epoch: it writes the events of an epoch before the line with its steps."""
    for epoch in epochs:
        write(
            folder.folder / f"train/{epoch}",
            event(epoch - 1, tensor("epoch_loss", 1 / epoch), tensor("epoch_learning_rate", 0.5)),
        )
        write(folder.folder / f"validation/{epoch}", event(epoch - 1, tensor("epoch_loss", 2 / epoch)))
        seen = events.take([folder], at_once=progress.counts_steps)
        for counts_steps, values in seen.values:
            progress.see(values, Source.EVENT_STEPS if counts_steps else Source.EVENT_EPOCHS)
        printed = {"step": 16 * epoch, "epoch": epoch, "loss": 1 / epoch, "val_loss": 2 / epoch}
        progress.see(printed, Source.PRINTED_STEPS)
        for scalar in seen.scalars:
            progress.add_further(scalar, is_printed=False)


def test_a_fit_that_prints_its_steps_and_writes_its_epochs_has_one_way_of_counting(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "none", started=0)
    files = EventFiles(lambda: readable_files(tmp_path), tmp_path, 0)
    fit(progress, Looks(), files, range(1, 5))
    expected = [16, 32, 48, 64]
    assert [step for step, _ in curves(progress.scalars)["val_loss"]] == expected
    assert [step for step, _ in curves(progress.scalars)["learning_rate"]] == expected


def test_a_second_attempt_of_such_a_fit_keeps_the_points_of_the_first(tmp_path: Path) -> None:
    bucket = Memory()
    samples = [{"step": 16 * epoch, "epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3, 4)]
    bucket.objects["runs/r/metrics.json"] = json.dumps({"samples": samples}).encode()
    progress = Progress(tmp_path / "none", started=0)
    metrics = Metrics(cast(Bucket, bucket), "r", progress.scalars)
    metrics.begin(begins=True)
    assert progress.scalars.steps_per_epoch == 16
    progress.expect_steps()
    event_of_epoch_5 = {"step": 5, "epoch": 5, "loss": 0.2}
    assert progress.see(event_of_epoch_5, Source.EVENT_EPOCHS) == {}
    progress.add_further(Scalar("learning_rate", 0.5, None, 5), is_printed=False)
    assert [step for step, _ in curves(progress.scalars)["learning_rate"]] == [80]


def test_a_count_that_a_program_writes_for_tensorboard_is_no_metric(tmp_path: Path) -> None:
    progress = Progress(tmp_path / "none", started=0)
    for name in ("epoch", "lr"):
        progress.add_further(Scalar(name, 3.0, 30), is_printed=False)
    assert curves(progress.scalars) == {"lr": [(30, 3.0)]}


def test_a_fit_that_prints_nothing_is_counted_by_epochs_one_look_later(tmp_path: Path) -> None:
    files = EventFiles(lambda: readable_files(tmp_path), tmp_path, 0)
    looks = Looks()
    write(tmp_path / "train", event(0, tensor("epoch_loss", 2.0), tensor("epoch_learning_rate", 0.5)))
    assert looks.take([files], at_once=False) == Seen()
    seen = looks.take([files], at_once=False)
    assert [values["step"] for _, values in seen.values] == [1]
    assert [(each.name, each.step, each.epoch) for each in seen.scalars] == [("learning_rate", None, 1)]
    assert looks.take([files], at_once=True) == Seen()


def test_groups_of_the_jobs_pattern_are_metrics(tmp_path: Path) -> None:
    pattern = PrintedProgress(r"step (?P<step>\d+) loss (?P<loss>[\d.]+)|F1 (?P<f1>[\d.]+)")
    progress = Progress(tmp_path / "none", started=0, scalars=Scalars("f1"))
    for line in ("step 4 loss 0.5", "F1 0.25", "step 8 loss 0.25", "F1 0.75"):
        progress.see(pattern.metrics(line), Source.PATTERN)
    assert points(progress.scalars) == [(4, None, 0.25), (8, None, 0.75)]
    assert progress.all["loss"] == 0.25


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("epoch 3 val_acc: 0.93", 0.93),
        ("{'loss': 0.1, 'val_acc': 0.93, 'epoch': 1}", 0.93),
        ("val_acc=9.3e-1, val_acc_top5=0.99", 0.93),
        ("40/40 - loss: 0.1 - val_acc: 0.9 - val_acc: 0.93", 0.93),
        ("val_acc 0.93.", 0.93),
        ("val_acc: nan", math.nan),
        ("val_acc = -inf", -math.inf),
        ("best val_acc: 0.99", None),
        ("my_val_acc: 0.9", None),
        ("val_acc improved from 0.91 to 0.93", None),
        ("val_acc: high", None),
        ("val_acc: 93%", None),
        ("[trainyard] val_acc: 0.9", None),
    ],
)
def test_the_objective_is_read_from_a_printed_line(line: str, value: float | None) -> None:
    assert str(PrintedMetric("val_acc").value(line)) == str(value)


def test_a_printed_value_counts_until_a_better_source_reports_the_objective() -> None:
    scalars = Scalars("f1")
    scalars.take({}, {"step": 3, "epoch": 1})
    scalars.add(Scalar("f1", 0.5), is_printed=True)
    scalars.add(Scalar("f1", 0.625, 4))
    scalars.add(Scalar("f1", 0.9), is_printed=True)
    assert points(scalars) == [(3, 1, 0.5), (4, None, 0.625)]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["epoch 3/14 f1: 0.5", "epoch 4/14 f1: 0.6"], [(3, 3, 0.5), (4, 4, 0.6)]),
        (["Epoch 1", "f1 = 0.5", "Epoch 2", "f1 = 0.6"], [(1, 1, 0.5), (2, 2, 0.6)]),
        (["[Epoch 0] f1=0.5", "[Epoch 1] f1=0.6"], [(1, 1, 0.5), (2, 2, 0.6)]),
        (["step 100: f1 0.5", "step 200: f1 0.6"], [(100, None, 0.5), (200, None, 0.6)]),
        (["f1: 0.5", "f1: 0.6"], [(0, None, 0.5), (1, None, 0.6)]),
        (["[trainyard] epoch 7", "f1: 0.5"], [(0, None, 0.5)]),
    ],
)
def test_a_printed_value_belongs_to_the_epoch_or_the_step_that_the_program_prints(
    lines: list[str], expected: list[tuple[int, int | None, float]]
) -> None:
    """Without a loss in its output, the program has no other position."""
    metric, scalars = PrintedMetric("f1"), Scalars("f1")
    for line in lines:
        if scalar := metric.read(line):
            scalars.add(scalar, is_printed=True)
    assert points(scalars) == expected


def test_a_position_that_the_program_reports_counts_more_than_a_printed_one() -> None:
    metric, scalars = PrintedMetric("f1"), Scalars("f1")
    scalars.take({}, {"step": 300, "epoch": 3})
    scalar = metric.read("epoch 2 f1: 0.5")
    assert scalar
    scalars.add(scalar, is_printed=True)
    assert points(scalars) == [(300, 3, 0.5)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Epoch 2/5 938/938 ━━━━ 3s 2ms/step - accuracy: 0.91 - loss: 0.29 - val_accuracy: 0.95 - val_loss: 0.17",
            {"val_accuracy": 0.95, "val_loss": 0.17},
        ),
        (
            "epoch 3 | train_loss=0.5 | val_loss=0.6 | val_f1: .91 | lr 1e-3",
            {"val_loss": 0.6, "val_f1": 0.91},
        ),
        ("epoch: 3, step: 40, loss: 0.5, lr: 1e-04, grad_norm: nan", {"lr": 1e-4, "grad_norm": math.nan}),
        ("epoch 3 loss=0.5 eta: 0:01:22 time: 3.5 batch: 5 acc5: 91% at: 3/4 v=1.2.3", {}),
        ("epoch 3 loss=0.5 dice/liver=0.75, mIoU: 0.5.", {"dice/liver": 0.75, "mIoU": 0.5}),
        ("val_loss: 0.3", {}),
        (
            "Epoch: [0][ 1/10]\tTime  0.3 ( 0.3)\tLoss 7.4e-01 (7.4e-01)\tAcc@1  40.62 ( 41.67)",
            {"Acc@1": 40.62},
        ),
        ("Epoch 3: train loss 0.5, val loss 0.6, val acc 91.5%", {"val_loss": 0.6, "val_accuracy": 0.915}),
    ],
)
def test_other_numbers_of_a_printed_line_with_progress_are_metrics(
    line: str, expected: dict[str, float]
) -> None:
    lines = PrintedLines()
    lines.metrics(line)
    assert str(lines.others) == str(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Test set: Average loss: 0.0576, Accuracy: 9816/10000 (98%)",
            {"test_loss": 0.0576, "test_accuracy": 0.9816},
        ),
        ("Validation - Loss: 0.3, Acc: 91.2% best acc 95%", {"val_loss": 0.3, "val_accuracy": 0.912}),
        ("Test Accuracy: 0.91 Test Loss: 0.2", {"test_accuracy": 0.91, "test_loss": 0.2}),
        ("Test: best acc 0.99", {}),
        ("val loss improved from 0.5 to 0.4", {}),
        ("Test: [ 0/10]\tTime 0.3 ( 0.3)\tLoss 0.5 (0.5)", {}),
        ("Test set: Accuracy: 0/0 (0%)", {}),
    ],
)
def test_a_line_of_an_evaluation_has_metrics_of_their_own(line: str, expected: dict[str, float]) -> None:
    lines = PrintedLines()
    assert lines.metrics("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3")["loss"] == 2.3
    assert lines.metrics(line) == {}
    assert dict(lines.others) == pytest.approx(expected)


def test_the_other_columns_of_a_table_are_metrics() -> None:
    lines = PrintedLines()
    lines.metrics("epoch     train_loss  valid_loss  accuracy  time")
    assert lines.metrics("0         0.523       0.412       0.81      00:12")["loss"] == 0.523
    assert lines.others == {"valid_loss": 0.412, "val_accuracy": 0.81}
