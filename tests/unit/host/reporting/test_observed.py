"""The progress of a program without reports."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from training.host.errors import ProgramFault
from training.host.reporting.logs import StampedLog
from training.host.reporting.metrics import Curve
from training.host.reporting.observed import PrintedProgress
from training.host.reporting.progress import Progress, Source

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
STEPS = r"step (?P<step>\d+)(/(?P<steps>\d+))?.*loss (?P<loss>\S+)"
KERAS = r"Epoch (?P<epoch>\d+)|loss: (?P<loss>[\d.]+)"


@pytest.mark.parametrize(
    ("sentence", "pattern", "line", "facts"),
    [
        ("what the groups find", STEPS, "at step 12/100, loss 0.5", {"step": 12, "steps": 100, "loss": 0.5}),
        ("a group without a text is nothing", STEPS, "step 12 loss 1e-3", {"step": 12, "loss": 0.001}),
        ("a text that is not a number is skipped", STEPS, "step 12 loss low", {"step": 12}),
        ("thousands may have commas", r"(?P<step>[\d,]+) steps", "1,200 steps", {"step": 1200}),
        ("an epoch is a step where the pattern has none", KERAS, "Epoch 3/5", {"epoch": 3, "step": 3}),
        ("other lines", STEPS, "saving", {}),
        ("lines of the agent's own", STEPS, "[trainyard] step 12 loss 1", {}),
        ("the beginning of a very long line counts", STEPS, "step 12 " + "x" * 5000 + " loss 1", {}),
    ],
)
def test_what_a_line_says(sentence: str, pattern: str, line: str, facts: dict[str, Any]) -> None:
    assert PrintedProgress(pattern).metrics(line) == facts, sentence


def test_a_pattern_that_re2_does_not_take_is_the_programs_fault() -> None:
    with pytest.raises(ProgramFault, match="which hosts use: invalid repetition size"):
        PrintedProgress(r"(?P<step>(x{1000}){1000})")


def test_a_pattern_that_would_stop_others_for_ever_is_over_at_once() -> None:
    assert PrintedProgress(r"(?P<step>(a+)+)b").metrics("a" * 5000) == {}


def test_every_line_is_heard_once_and_whole_and_the_one_under_way_as_it_changes(tmp_path: Path) -> None:
    heard: list[str] = []
    under_way: list[str] = []
    log = StampedLog(
        tmp_path / "raw",
        tmp_path / "stamped",
        "chief-0 i-1",
        on_line=heard.append,
        on_open_line=under_way.append,
    )
    for text in ("one\n1/9", "\r2/9", "", "\r9/9\ntwo\n"):
        with (tmp_path / "raw").open("a") as raw:
            raw.write(text)
        log.stamp(NOON)
    assert heard == ["one", "1/9", "9/9", "two"]
    assert under_way == ["1/9", "2/9"]


def test_the_last_drawing_of_a_nested_bar_is_heard_though_it_was_wiped(tmp_path: Path) -> None:
    heard: list[str] = []
    log = StampedLog(tmp_path / "raw", tmp_path / "stamped", "chief-0 i-1", on_line=heard.append)
    for text in (
        "\router 0/2\n\r8/9\x1b[A",
        "\n\r9/9\x1b[A\n\r   \r\x1b[A\router 1/2",
        "\router 2/2\n\nend\n",
    ):
        with (tmp_path / "raw").open("a") as raw:
            raw.write(text)
        log.stamp(NOON)
    assert heard == ["outer 0/2", "9/9", "outer 2/2", "9/9", "end"]


def seen(*reports: dict[str, Any]) -> tuple[Progress, Curve]:
    progress, curve = Progress(Path("/nowhere"), started=0), Curve()
    for report in reports:
        curve.add(progress.see(report), NOON)
    return progress, curve


def test_a_number_goes_with_the_step_that_was_seen_before_it() -> None:
    progress, curve = seen({"step": 1}, {"loss": 0.5}, {"step": 2}, {"loss": 0.25}, {"accuracy": 0.5})
    assert [(each["step"], each["loss"]) for each in curve.to_json()] == [(1, 0.5), (2, 0.25)]
    assert progress.due(1) == {"step": 2, "loss": 0.25, "accuracy": 0.5}
    assert progress.step == 2


def test_a_loss_that_is_seen_to_become_nan_stays_no_number() -> None:
    progress, curve = seen({"step": 1, "loss": 0.5}, {"step": 2, "loss": float("nan")}, {"step": 3})
    facts = progress.due(1) or {}
    assert (facts["step"], math.isnan(facts["loss"]), facts["nan_since"]) == (3, True, 2)
    assert [math.isnan(each["loss"]) for each in curve.to_json()] == [False, True]


def test_what_is_seen_is_a_sign_of_life_and_the_processor_counts_still() -> None:
    progress, _ = seen({"step": 1})
    before = progress.length
    progress.see({"step": 1})
    assert progress.length > before
    assert not progress.reports


def test_what_the_program_reports_itself_wins(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    progress = Progress(path, started=0)
    progress.see({"step": 900, "loss": 9})
    path.write_text('{"step": 1, "loss": 0.5}\n')
    progress.update()
    assert progress.see({"step": 901}) == {}
    assert progress.due(1) == {"step": 1, "loss": 0.5}


HIGH, LOW = {"step": 30, "loss": 0.5}, {"step": 3, "loss": 0.25}
PACE = {"step": 9, "steps_per_second": 2}


@pytest.mark.parametrize(
    ("sentence", "sights", "step"),
    [
        ("epochs that are printed", [(Source.PRINTED_EPOCHS, LOW)], 3),
        ("epochs of TensorBoard, not printed ones", [(Source.PRINTED_EPOCHS, HIGH), (Source.EVENT_EPOCHS, LOW)], 3),
        ("steps that are printed, not epochs", [(Source.EVENT_EPOCHS, LOW), (Source.PRINTED_STEPS, HIGH)], 30),
        ("also when the epochs come later", [(Source.PRINTED_STEPS, HIGH), (Source.EVENT_EPOCHS, LOW)], 30),
        ("steps of TensorBoard, not printed ones", [(Source.PRINTED_STEPS, LOW), (Source.EVENT_STEPS, HIGH)], 30),
        ("unless they have no loss", [(Source.PRINTED_STEPS, HIGH), (Source.EVENT_STEPS, PACE)], 30),
        ("the job's pattern before all", [(Source.PATTERN, HIGH), (Source.EVENT_STEPS, LOW)], 30),
    ],
)  # fmt: skip
def test_a_run_has_one_source_between_which_its_step_does_not_jump(
    sentence: str, sights: list[tuple[Source, dict[str, Any]]], step: int
) -> None:
    progress = Progress(Path("/nowhere"), started=0)
    for source, facts in sights:
        progress.see(facts, source)
    assert progress.step == step, sentence
