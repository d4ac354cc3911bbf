"""The answer to each time of a schedule: delivered twice, late, in another order, or while the last run runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lambdas.core import schedules
from lambdas.core.schedules import Ignore, Skip, Start
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.ledger.schedules import MOST_RECENT, Answer, ScheduleRow
from trainyard.protocol.requests import ScheduleAct

NOW = datetime(2026, 12, 1, 2, 0, 5, tzinfo=UTC)
AT = datetime(2026, 12, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
NIGHTLY = ScheduleRow(
    name="nightly",
    cron="0 3 * * *",
    zone="Europe/Berlin",
    overlap="skip",
    by="ada",
    key="jobs/by/ada/nightly.yaml",
    since=AT - 30 * DAY,
)


def of_run(run: str = "nightly-20261201-0200", **values: Any) -> RunRow:
    return RunRow(run=run, kind="train", state="Train", attempt=1, created=AT, execution_arn="arn", **values)


def started(row: ScheduleRow, at: datetime, now: datetime) -> ScheduleRow:
    decided = schedules.decide(row, at, None, now)
    assert isinstance(decided, Start)
    assert decided.row
    return decided.row


def test_a_time_starts_a_run_whose_name_is_made_of_it() -> None:
    decided = schedules.decide(NIGHTLY, AT, None, NOW)
    assert isinstance(decided, Start)
    assert decided.run == "nightly-20261201-0200"
    assert decided.row
    assert decided.row.version == 2


def test_a_repeated_time_gets_the_same_run_and_writes_nothing() -> None:
    row = started(NIGHTLY, AT, NOW)
    assert schedules.decide(row, AT, None, NOW + DAY) == Start("nightly-20261201-0200", None)


def test_a_run_that_has_not_ended_skips_the_next_time_and_a_repetition_stays_skipped() -> None:
    row = started(NIGHTLY, AT, NOW)
    last = of_run()
    skipped = schedules.decide(row, AT + DAY, last, NOW + DAY)
    assert isinstance(skipped, Skip)
    assert skipped.row.recent[0].answer is Answer.SKIPPED
    ended = replace(last, ended=NOW + DAY, outcome=Outcome.SUCCEEDED)
    assert isinstance(schedules.decide(skipped.row, AT + DAY, ended, NOW + DAY), Ignore)
    assert isinstance(schedules.decide(skipped.row, AT + 2 * DAY, ended, NOW + 2 * DAY), Start)


def test_overlap_allow_starts_a_second_run() -> None:
    row = started(replace(NIGHTLY, overlap="allow"), AT, NOW)
    last = of_run()
    assert isinstance(schedules.decide(row, AT + DAY, last, NOW + DAY), Start)


def test_a_run_without_a_row_counts_as_running_only_for_minutes() -> None:
    row = started(NIGHTLY, AT, NOW)
    minute = timedelta(minutes=1)
    assert isinstance(schedules.decide(row, AT + minute, None, NOW + minute), Skip)
    assert isinstance(schedules.decide(row, AT + 15 * minute, None, NOW + 15 * minute), Start)


def test_nothing_starts_for_a_removed_or_paused_schedule_or_before_it_was_made() -> None:
    paused = schedules.change(NIGHTLY, ScheduleAct.PAUSE, NOW)
    resumed = schedules.change(paused, ScheduleAct.RESUME, NOW + DAY)
    assert isinstance(schedules.decide(None, AT, None, NOW), Ignore)
    assert isinstance(schedules.decide(paused, AT, None, NOW), Ignore)
    assert isinstance(schedules.decide(resumed, AT, None, NOW + DAY), Ignore)
    assert isinstance(schedules.decide(resumed, AT + 2 * DAY, None, NOW + 2 * DAY), Start)
    assert schedules.change(paused, ScheduleAct.PAUSE, NOW + DAY) is paused


def test_a_row_keeps_its_newest_times_and_ignores_older_ones() -> None:
    row = NIGHTLY
    for number in range(MOST_RECENT + 5):
        at = AT + number * DAY
        decided = schedules.decide(row, at, of_run(ended=at), at)
        assert isinstance(decided, Start)
        assert decided.row
        row = decided.row
    assert len(row.recent) == MOST_RECENT
    assert isinstance(schedules.decide(row, AT, None, NOW + 40 * DAY), Ignore)


def test_only_the_owner_and_operators_change_a_schedule() -> None:
    assert schedules.may_change("ada", "ada")
    assert schedules.may_change("unknown", "bob")
    assert not schedules.may_change("ada", "bob")
    assert schedules.may_change("ada", "bob", operator=True)
