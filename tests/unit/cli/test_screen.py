"""Lines and panels of a followed run."""

import io
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from rich.console import Console
from rich.text import Text

from tests.unit.cli.screens import EXECUTION, STATUS, printed
from tests.unit.client.facts import HOST, NOON, row_of
from trainyard.cli.output import report, screen, terminal
from trainyard.cli.output.curve import draw_curve, overlaid, passed_once
from trainyard.cli.output.report import program_lines, spans
from trainyard.cli.output.screen import describe_changes
from trainyard.client import Event, LogLine, Progress, RunStatus, State
from trainyard.client.runs.metric_points import MetricPoints
from trainyard.client.runs.status import OF_NO_USER


def test_the_first_look_tells_everything_in_the_order_of_time() -> None:
    lines = describe_changes(None, STATUS)
    assert [line.split()[1] for line in lines] == ["state", "host", "host"]
    assert lines[0] == "12:00:00 state     Starting"
    assert "g6.xlarge in us-east-1a, spot, $0.360/h" in lines[1], "at its launch, not when it was seen"


def test_the_same_look_twice_tells_nothing() -> None:
    assert describe_changes(STATUS, STATUS) == []


def test_a_role_a_state_and_a_step_are_news() -> None:
    progress = Progress(step=5, steps=10, epoch=1, loss=0.5, accuracy=None, steps_per_second=2)
    later = replace(STATUS, hosts=(replace(HOST, role="chief 0", state="terminated"),), progress=progress)
    assert [line.partition(" ")[2] for line in describe_changes(STATUS, later)] == [
        "host      i-1  is chief 0",
        "host      i-1  terminated",
        "progress  step 5/10  loss 0.5000  2.0 steps/s  $0.0100 so far",
    ]


def test_a_program_that_tells_neither_how_many_steps_there_are_nor_its_pace_has_its_step_alone() -> None:
    progress = Progress(step=5, steps=0, epoch=0, loss=0.5, accuracy=None, steps_per_second=0)
    (line,) = describe_changes(STATUS, replace(STATUS, progress=progress))
    assert line.partition(" ")[2] == "progress  step 5  loss 0.5000  $0.0100 so far"


def test_a_number_that_a_program_does_not_report_is_not_shown() -> None:
    (line,) = describe_changes(STATUS, replace(STATUS, progress=Progress(step=5, steps=0)))
    assert line.partition(" ")[2] == "progress  step 5  $0.0100 so far"


def test_a_loss_that_became_nan_is_shown_as_nan_and_json_has_it_as_a_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(step=330, steps=400, loss=math.nan, nan_since=320)
    status = replace(STATUS, progress=progress, samples={"loss": MetricPoints([1, 320], [0.5, math.nan])})
    (line,) = describe_changes(STATUS, replace(status, samples={}))
    assert "step 330/400  loss NaN since step 320" in line
    terminal.answer(report.as_json(status))
    said = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (said["progress"]["loss"], said["losses"]) == ("NaN", [[1, 0.5], [320, "NaN"]])


def test_states_entered_twice_are_added_up() -> None:
    names = ((0, "Launch"), (3, "Wait for capacity"), (10, "Launch"))
    states = tuple(State(NOON + timedelta(seconds=at), name) for at, name in names)
    over = replace(EXECUTION, status="SUCCEEDED", stopped=NOON + timedelta(seconds=12))
    assert spans(replace(STATUS, execution=over, states=states)) == [("Waiting for capacity", 12.0)]


def test_the_curve_falls_from_left_to_right_and_fits_its_room() -> None:
    lines = draw_curve([(step, 100.0 - step) for step in range(1, 100)], room=80).splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "(loss)" in lines[0]
    assert "(step)" in lines[-2]
    dots = [line.partition("| ")[2] for line in lines[1:-2]]
    first = [len(line) - len(line.lstrip("\u2800 ")) for line in dots if line.strip("\u2800 ")]
    assert first == sorted(first)
    assert len(set(first)) > 4


def test_one_step_is_no_curve() -> None:
    assert draw_curve([], room=80) == ""
    falling = draw_curve([(1, -2.0), (2, -1.0)], room=80, metric="elbo")
    assert "elbo" in falling
    assert "-2" in falling
    assert draw_curve([(1, 2.0)], room=80) == ""
    assert draw_curve([(1, 2.0), (2, float("nan"))], room=80) == ""


def test_steps_done_again_replace_those_that_were_lost() -> None:
    samples = [(1, 3.0), (5, 2.0), (9, 1.5), (5, 2.1), (7, 1.8)]
    assert passed_once(samples) == [(1, 3.0), (5, 2.1), (7, 1.8)]


def test_the_program_speaks_without_stamps_and_without_tensorflow() -> None:
    stamp = "2026-11-21T12:00:00.000Z chief-0 i-1 | "
    log = [
        stamp + "Test-Accuracy: 0.97",
        stamp + "I0000 00:00:17 port.cc:153] oneDNN",
        stamp,
        stamp + "a | b",
    ]
    log.append(stamp + "[trainyard] the program ended with exit code 0")
    assert program_lines(log) == ["Test-Accuracy: 0.97", "a | b"]


# --- a run that is watched


AT_STEP_5 = Progress(step=5, steps=10, epoch=1, loss=0.5, accuracy=None, steps_per_second=2)


def test_what_the_program_prints_stands_between_what_happens_to_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    trains = replace(STATUS, states=(*STATUS.states, State(NOON + timedelta(seconds=50), "Train")))
    over = replace(
        trains,
        at=NOON + timedelta(seconds=110),
        execution=replace(EXECUTION, status="SUCCEEDED"),
        states=(*trains.states, State(NOON + timedelta(seconds=105), "Release")),
        progress=AT_STEP_5,
    )
    looks = [
        (STATUS, []),
        (trains, [printed(60, "step 1 \x1b[31mloss\x1b[0m 0.5")]),
        (over, [printed(104, "[bold]done[/bold] " + "x" * 300), printed(106, "bye")]),
    ]
    assert screen.watch(looks) == (over, True)
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "12:00:50 state     Training",
        "12:01:00 | step 1 loss 0.5",
        "12:01:44 | [bold]done[/bold] " + "x" * 300,
        "12:01:45 state     Saving",
        "12:01:46 | bye",
    ]


def test_lines_that_arrive_a_look_later_stand_in_the_order_of_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    began = Event(NOON + timedelta(seconds=97), "host", "started", "i-1", "")
    first = replace(STATUS, timeline=(*STATUS.timeline, began))
    role = replace(first, at=NOON + timedelta(seconds=102), hosts=(replace(HOST, role="chief 0"),))
    over = replace(
        role, at=NOON + timedelta(seconds=104), execution=replace(EXECUTION, status="SUCCEEDED", stopped=NOON)
    )
    screen.watch([(first, [printed(99, "second")]), (role, [printed(98, "first")]), (over, [])])
    assert [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()[-4:]] == [
        "host      started  i-1",
        "host      i-1  is chief 0",
        "| first",
        "| second",
    ]


def test_a_user_who_stops_looking_has_seen_all_that_had_arrived(capsys: pytest.CaptureFixture[str]) -> None:
    def looks() -> Iterator[tuple[RunStatus, list[LogLine]]]:
        yield STATUS, [printed(99, "just now")]
        assert "just now" not in capsys.readouterr().out
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        screen.watch(looks())
    assert "just now" in capsys.readouterr().out


def test_a_program_that_prints_nothing_shows_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    later = replace(STATUS, progress=AT_STEP_5)
    assert screen.watch([(STATUS, []), (later, [])]) == (later, False)
    assert "progress  step 5/10" in capsys.readouterr().out


def test_in_a_terminal_the_program_is_shown_too(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(screen, "console", Console(file=told, force_terminal=True, width=80))
    screen.watch([(STATUS, []), (replace(STATUS, progress=AT_STEP_5), [printed(60, "[bold]hello[/bold]")])])
    said = Text.from_ansi(told.getvalue()).plain
    assert "12:01:00 | [bold]hello[/bold]" in said
    assert "step 5/10" in said


# --- a run that is shown once
LONG = "w" * 300


@pytest.mark.parametrize("reason", [f"first {LONG} last", "/a/path" * 60])
def test_a_pipe_has_whole_lines_without_a_frame(capsys: pytest.CaptureFixture[str], reason: str) -> None:
    screen.show_once(replace(STATUS, timeline=(Event(NOON, "workflow", "failed", "i-1", reason),)))
    lines = capsys.readouterr().out.splitlines()
    assert f"12:00:00 workflow  failed  i-1  {reason}" in lines
    assert not any(mark in line for line in lines for mark in "│╭╰…")


def test_a_terminal_wraps_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    for module in (screen, terminal):
        monkeypatch.setattr(module, "console", Console(file=told, force_terminal=True, width=60))
    reason = " ".join(f"word{number}" for number in range(60))
    screen.show_once(replace(STATUS, timeline=(Event(NOON, "workflow", "failed", "i-1", reason),)))
    said = Text.from_ansi(told.getvalue()).plain
    assert [word for word in reason.split() if word not in said] == []
    assert max(map(len, said.splitlines())) <= 60


def test_a_run_that_has_ended_shows_the_amount_of_its_bill_and_no_other() -> None:
    ended = replace(STATUS.execution, status="SUCCEEDED", stopped=STATUS.at)
    status = replace(
        STATUS, execution=ended, row=row_of(dollars=Decimal("0.00351"), saved_dollars=Decimal("0.002"))
    )
    assert status.cost == "$0.0035 in all"
    assert (status.dollars, status.saved_dollars) == (0.00351, 0.002)
    assert "so far" not in str(report.as_json(status))
    assert report.as_json(status)["dollars"] == 0.00351
    assert replace(STATUS, row=None).cost.endswith(" so far")


def test_no_curve_hides_another() -> None:
    """Both runs have the same losses."""
    losses = [(step, 10.0 - step) for step in range(1, 9)]
    drawing = overlaid({"one": losses, "two": losses}, room=80).rpartition("\n")[0]
    assert drawing.count("a") > 10
    assert drawing.count("b") > 10


def test_a_run_shows_who_asked_for_it_and_says_so_if_it_belongs_to_no_user() -> None:
    by_ada, by_hand = (replace(STATUS, row=row_of(submitter=who)) for who in ("ada", "unknown"))
    assert "by        ada" in screen.plain(by_ada)
    assert f"by        {OF_NO_USER}" in screen.plain(by_hand)
    assert (report.as_json(by_hand)["submitter"], screen.plain(STATUS)[1][:5]) == ("unknown", "state")


def test_a_run_shows_the_commit_that_its_program_is_from(capsys: pytest.CaptureFixture[str]) -> None:
    origin = {"commit": "8f440597b618e250c8b541c19720ab34ab72b5bb", "repository": None, "ref": "main"}
    dirty = {"dirty": True, "diff": "programs/diffs/8f-1.diff"}
    status = replace(STATUS, row=row_of(job={"origin": {**origin, **dirty}}))
    screen.show_once(status)
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("source"))
    assert line == ("source    8f440597b618 (main), with uncommitted changes (programs/diffs/8f-1.diff)")
    assert report.as_json(status)["origin"]["commit"] == origin["commit"]
    assert replace(STATUS, row=row_of(job={"origin": {"commit": None}})).origin == ""
