"""Metrics under names of their own, and the objective: from reports, event files, patterns and printed lines."""

import json
import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.event_files import event, simple, tensor, write
from training.host.bucket import Bucket
from training.host.disk import readable_files
from training.host.reporting.events import EventFiles
from training.host.reporting.metrics import Metrics
from training.host.reporting.observed import PrintedMetric, PrintedProgress
from training.host.reporting.progress import Progress, Source
from training.host.reporting.scalars import MOST_SAMPLES, Scalar, Scalars
from trainyard.client.runs.progress import measures_in
from trainyard.protocol import signals
from trainyard.protocol.objective import MOST_POINTS, MOST_SCALARS


def reported(tmp_path: Path, *lines: dict[str, Any], objective: str | None = None) -> Progress:
    path = tmp_path / "progress.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    progress = Progress(path, started=0, scalars=Scalars(objective))
    progress.update()
    return progress


def curves(scalars: Scalars) -> dict[str, list[tuple[int, float]]]:
    return cast(dict[str, list[tuple[int, float]]], scalars.in_metrics.get("scalars", {}))


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
        (1e15, None),
        (10**400, None),
        ("0.5", None),
        (None, None),
    ],
)
def test_a_value_is_a_number_or_not_finite(tmp_path: Path, value: object, expected: float | None) -> None:
    found = reported(tmp_path, {"step": 1, "f1": value}).scalars.latest.get("f1")
    assert str(found) == str(expected)


def test_odd_names_and_too_many_are_reported_once_and_the_objective_always_counts(tmp_path: Path) -> None:
    many = {f"m{n}": float(n) for n in range(40)}
    lines = [{"step": 1, "val f1": 0.5, **many}, {"step": 2, "val f1": 0.6, **many, "f1": 0.7}]
    scalars = reported(tmp_path, *lines, objective="f1").scalars
    assert len(scalars.latest) == MOST_SCALARS
    assert scalars.latest["f1"] == 0.7
    notes = scalars.take_notes()
    assert "'val f1' is left out: the name of a metric" in notes[0]
    assert "m31 is left out: a run has at most 32" in notes[1]
    assert scalars.take_notes() == []


def test_many_odd_names_leave_the_good_ones_alone(tmp_path: Path) -> None:
    odd = {f"a metric {n}": 1.0 for n in range(20)}
    scalars = reported(tmp_path, {"step": 1, **odd}, {"step": 2, "f1": 0.5}).scalars
    assert dict(scalars.latest) == {"f1": 0.5}
    assert len(scalars.take_notes()) == 8


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


def test_an_attempt_that_resumes_continues_the_curves_from_its_checkpoint() -> None:
    written: dict[str, bytes] = {}
    bucket = cast(Bucket, SimpleNamespace(write=written.__setitem__, read_if_there=written.get))
    first = Metrics(bucket, "metrics.json")
    for step in (10, 20, 30):
        first.scalars.add(Scalar("f1", step / 100, step))
    first.send()
    assert json.loads(written["metrics.json"])["f1"] == 0.3
    second = Metrics(bucket, "metrics.json", Scalars("f1"))
    second.begin(up_to=20)
    second.scalars.add(Scalar("f1", 0.25, 25))
    second.send()
    found = json.loads(written["metrics.json"])
    assert measures_in(found) == {"f1": ((10, 0.1), (20, 0.2), (25, 0.25))}


@pytest.mark.parametrize(
    "curves", [None, 5, {"a b": []}, {"f1": 3}, {"f1": [[1], ["x", 1], [1, "y"], [2, True]]}]
)
def test_a_broken_metrics_file_is_no_reason_to_fail(curves: object) -> None:
    scalars = Scalars()
    scalars.begin(curves, up_to=math.inf)
    assert scalars.in_metrics == {}


def test_the_programs_own_metrics_have_the_last_word(tmp_path: Path) -> None:
    scalars = reported(tmp_path, {"step": 40, "epoch": 4, "val_f1": 0.5}, objective="val_f1").scalars
    scalars.conclude({"val_f1": 0.55, "test_f1": 0.5, "history": [1], "note": "x"}, 40)
    assert points(scalars) == [(40, 4, 0.55)]
    assert dict(scalars.latest) == {"val_f1": 0.55, "test_f1": 0.5}


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
