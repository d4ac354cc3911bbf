"""Tables of runs and hosts, and costs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import typer

from tests.unit.client.facts import NOON
from trainyard.cli.commands.cost import check_parts, format_month, format_remaining, month_of
from trainyard.cli.commands.hold import period
from trainyard.cli.commands.ls import State, check_known, columns, is_selected, moment, row
from trainyard.cli.output import terminal
from trainyard.cli.output.screen import bar
from trainyard.cli.output.terminal import Column, fit_columns
from trainyard.cli.runs import choose_run
from trainyard.client import ListedRun, Progress, Waiting
from trainyard.client.errors import NothingFound, RunAmbiguous, RunNotFound
from trainyard.client.inventory.overview import Budget
from trainyard.client.runs.listing import BegunRun
from trainyard.client.runs.spending import Spent, list_billed, sum_by
from trainyard.protocol.ledger.run import WaitsFor
from trainyard.values.quantities import format_bytes, span


def waits_for(what: WaitsFor) -> Waiting:
    return Waiting(
        what=what, since=NOON, next_request=NOON, seconds=30, until=NOON + timedelta(hours=1), reason="full"
    )


RUN = ListedRun(
    id="digits-1a2b3c4d", arn="arn:x:digits-1a2b3c4d", kind="train", created=NOON, state="Train", attempt=1,
    name="digits", submitter="ada", labels={"team": "vision"}, outcome=None, error=None, reason=None, ended=None,
    progress=Progress(5, 10, 1, 0.5, None, 2), waiting=None, pool="g6.xlarge/us-east-1a/spot", market="spot", gang=2,
    price=0.72, dollars=None, saved_dollars=None, image=None,
)  # fmt: skip
OTHER = replace(
    RUN, id="digits-1a9f0000", arn="arn:y", outcome="failed", dollars=1.5, created=NOON - timedelta(days=1)
)
WIDE = replace(RUN, id="wide-00000000", name="wide", outcome="succeeded", dollars=2.0, saved_dollars=0.5)


@pytest.mark.parametrize(
    ("word", "id"),
    [("digits", RUN.id), ("@last", RUN.id), ("digits-1a9", OTHER.id), ("w", WIDE.id)],
)
def test_a_run_is_named_by_what_is_enough(word: str, id: str) -> None:  # noqa: A002
    assert choose_run(word, [RUN, OTHER, WIDE]).id == id


BEGUN = BegunRun("digits-99999999", "arn:z", "digits")


@pytest.mark.parametrize("word", ["digits", "@last", "digits-9", "digits-99999999"])
def test_the_newest_run_of_a_name_may_not_be_admitted_yet(word: str) -> None:
    assert choose_run(word, [BEGUN, RUN, OTHER, WIDE]).id == BEGUN.id


def test_a_name_means_a_bake_only_if_no_job_has_it() -> None:
    old, new = (replace(RUN, id=f"gpu-{each * 8}", name="gpu", kind="bake") for each in "ab")
    job = replace(RUN, id="gpu-cccccccc", name="gpu")
    assert choose_run("gpu", [new, old]).id == new.id
    assert choose_run("gpu", [new, old, job]).id == job.id


def test_a_word_that_may_mean_several_lists_them() -> None:
    with pytest.raises(RunAmbiguous) as several:
        choose_run("digits-1a", [RUN, OTHER, WIDE])
    assert several.value.candidates == ("digits-1a2b3c4d", "digits-1a9f0000")


@pytest.mark.parametrize(("word", "runs"), [("nobody", [RUN]), ("@last", [])])
def test_a_word_that_means_none_says_which_there_are(word: str, runs: list[ListedRun]) -> None:
    with pytest.raises(RunNotFound) as none:
        choose_run(word, runs)
    assert "digits-1a2b3c4d" in none.value.means or not runs


def test_a_row_says_step_loss_and_price() -> None:
    assert row(RUN, NOON + timedelta(minutes=5)) == (
        "digits-1a2b3c4d", "Training", "5/10", "0.5", "g6.xlarge/us-east-1a/spot", "5m", "$0.7200/h", "ada",
    )  # fmt: skip


def test_a_run_without_hosts_says_what_it_waits_for() -> None:
    waiting = waits_for(WaitsFor.CAPACITY)
    assert replace(RUN, waiting=waiting).word == "Waiting for capacity"
    assert replace(RUN, waiting=waiting, outcome="failed").word == "Failed"
    slot = replace(waits_for(WaitsFor.SLOT), position=3, queued=5)
    assert replace(RUN, waiting=slot).word == "Waiting for a slot (3 of 5)"


def test_failed_runs_are_those_that_ended_badly() -> None:
    assert [run.id for run in (RUN, OTHER, WIDE) if is_selected(run, None, [], failed=True)] == [OTHER.id]


@pytest.mark.parametrize(
    ("user", "labels", "is_wanted"),
    [("ada", [], True), ("bob", [], False), (None, ["team=vision", "team"], True), (None, ["team=x"], False)],
)
def test_runs_are_found_by_who_asked_and_by_label(
    user: str | None, labels: list[str], is_wanted: bool
) -> None:
    assert is_selected(RUN, user, labels, failed=False) is is_wanted


@pytest.mark.parametrize(
    ("run", "word"),
    [
        (RUN, "running"),
        (OTHER, "failed"),
        (WIDE, "finished"),
        (replace(RUN, waiting=waits_for(WaitsFor.SLOT)), "waiting"),
    ],
)
def test_runs_are_found_by_how_they_stand(run: ListedRun, word: str) -> None:
    assert [each for each in State if is_selected(run, None, [], failed=False, state=each)] == [word]


@pytest.mark.parametrize(
    ("user", "labels", "means"),
    [
        ("bob", [], "users with runs are ada"),
        (None, ["tema=vision"], "team=vision"),
        (None, ["team=x"], "team=vision"),
    ],
)
def test_a_user_or_label_that_no_run_has_is_an_error_that_lists_those_there_are(
    user: str | None, labels: list[str], means: str
) -> None:
    with pytest.raises(NothingFound) as none:
        check_known([RUN, OTHER], user, labels)
    assert means in none.value.means
    check_known([RUN, OTHER], "ada", ["team", "team=vision"])


def test_costs_by_a_label_that_no_run_has_are_an_error() -> None:
    with pytest.raises(NothingFound) as none:
        check_parts([RUN], "jobs")
    assert none.value.means == "--by takes job, user, day, or a label: team"
    for by in ("job", "user", "day", "team"):
        check_parts([RUN], by)
    check_parts([], "team")


def test_money_is_added_up_the_dearest_first_and_days_in_order() -> None:
    wide, digits = Spent("wide", 1, 2.0, 0.5), Spent("digits", 2, 1.5)
    assert sum_by([RUN, OTHER, WIDE], "job") == [wide, digits]
    assert [each.of for each in sum_by([RUN, OTHER, WIDE], "day")] == ["2026-11-20", "2026-11-21"]
    by_team = sum_by([RUN, OTHER, replace(WIDE, labels={})], "team")
    assert by_team == [replace(wide, of="none"), replace(digits, of="vision")]
    assert sum_by([WIDE], "user") == [replace(wide, of="ada")]


def test_the_cost_of_a_study_is_counted_once_with_its_trials() -> None:
    study, trial = replace(RUN, kind="study", dollars=7.0), replace(RUN, id="digits-1a2b3c4d-0001-trial")
    assert list_billed([study, trial, WIDE]) == [trial, WIDE]


@pytest.mark.parametrize(
    ("counted", "monthly", "left", "said"),
    [
        (123.4, 1000.0, 876.6, "of $1,000.00; $876.60 left before new runs are refused"),
        (1200.0, 1000.0, 0.0, "$0.00 left"),
        (5.0, None, None, "no monthly budget"),
    ],
)
def test_what_is_left_of_a_budget_is_said(
    counted: float, monthly: float | None, left: float | None, said: str
) -> None:
    budget = Budget(counted, monthly)
    assert budget.remaining == (None if left is None else pytest.approx(left))
    assert said in format_remaining(budget)


def test_the_months_amount_has_the_time_at_which_it_was_counted() -> None:
    """Patrol counts once a minute, so its count lags behind the bill of a short run."""
    assert format_month(Budget(2.0, None, counted_at=NOON)).endswith("(counted at 12:00:00 UTC)")
    assert "counted at" not in format_month(Budget(0.0, None))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("12h", NOON - timedelta(hours=12)),
        ("7d", NOON - timedelta(days=7)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
    ],
)
def test_since_is_a_span_or_a_day(text: str, at: datetime) -> None:
    assert moment(text, NOON) == at


@pytest.mark.parametrize("text", ["yesterday", "7", "2026-13-01"])
def test_another_since_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        moment(text, NOON)


def test_a_month_begins_with_its_first_day() -> None:
    assert month_of("2026-02", NOON) == datetime(2026, 2, 1, tzinfo=UTC)
    assert month_of(None, NOON) == datetime(2026, 11, 1, tzinfo=UTC)
    with pytest.raises(typer.BadParameter):
        month_of("February", NOON)


@pytest.mark.parametrize(("text", "minutes"), [("2h", 120), ("90m", 90), ("1h30m", 90)])
def test_a_hold_lasts_as_long_as_is_said(text: str, minutes: int) -> None:
    assert period(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "2", "2d", "h"])
def test_another_time_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        period(text)


# --- room
ROWS = [row(RUN, NOON), row(OTHER, NOON), row(WIDE, NOON)]


@pytest.mark.parametrize("room", [40, 60, 80, 120, 160])
def test_a_list_of_runs_fits_its_terminal(room: int) -> None:
    kept = fit_columns(columns(), ROWS, room)
    assert kept[:2] == [0, 1]
    assert terminal.widest(columns(), ROWS, kept) <= room


def test_a_pipe_has_every_column() -> None:
    assert fit_columns(columns(), ROWS, None) == [*range(len(columns()))]


def test_columns_of_one_rank_go_together() -> None:
    shown = [Column("a"), Column("b", 2), Column("c", 1), Column("d", 2)]
    assert fit_columns(shown, [("x" * 10,) * 4], 25) == [0, 2]


def test_the_line_of_states_is_no_longer_than_its_room() -> None:
    lines = bar([("Admit", 1), ("Launch", 30), ("Train", 300)], 36).plain.splitlines()
    assert len(lines[0]) <= 36
    assert "Train 5m" in lines[1]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h"), (90061, "1d1h")]
)
def test_spans_have_two_units_at_most(seconds: int, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(("count", "said"), [(5, "5 B"), (2048, "2.0 KiB"), (5 * 2**30, "5.0 GiB")])
def test_sizes_are_said_as_people_do(count: int, said: str) -> None:
    assert format_bytes(count) == said


def test_a_bake_is_the_yards_and_no_second_user() -> None:
    bake = replace(WIDE, kind="bake", submitter=None, dollars=1.0)
    by_hand = replace(WIDE, submitter=None, dollars=0.5)
    assert [spent.of for spent in sum_by([WIDE, bake, by_hand], "user")] == ["ada", "the yard", "unknown"]
