"""Times of cron expressions, also when the clock changes, and their form for EventBridge Scheduler."""

from datetime import UTC, datetime

import pytest

from trainyard.core.model import cron


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 3 * * 1-5", "cron(0 3 ? * 2-6 *)"),
        ("*/15 * * * *", "cron(0,15,30,45 * * * ? *)"),
        ("5 4 * * sun", "cron(5 4 ? * 1 *)"),
        ("0 22 * * 5-7", "cron(0 22 ? * 1,6-7 *)"),
        ("0 0 1 */3 *", "cron(0 0 1 1,4,7,10 ? *)"),
        ("0 9-17/4 1,15 JAN-MAR *", "cron(0 9,13,17 1,15 1-3 ? *)"),
    ],
)
def test_five_fields_become_the_six_of_scheduler(text: str, expected: str) -> None:
    assert cron.parse(text).as_scheduler() == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 3 * *", "4 fields"),
        ("0 24 * * *", '"24" is not a value of its hour'),
        ("0 3 1 * 1", "make two"),
        ("0 0 30 2 *", "no day of any year"),
        ("x * * * *", '"x"'),
        ("5-1 * * * *", '"5-1"'),
        ("*/0 * * * *", '"*/0"'),
        ("@daily", "it has 1 field;"),
        ("0 3 * * mon-", '"mon-"'),
        ("\u0663 3 * * *", "is not a value of its minute"),
    ],
)
def test_an_expression_without_a_meaning_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(cron.CronError, match=reason.replace("*", r"\*")):
        cron.parse(text)


def test_a_skipped_time_has_no_run_and_a_repeated_time_has_one() -> None:
    spring = cron.next_times("30 2 * * *", "Europe/Berlin", datetime(2027, 3, 26, 12, tzinfo=UTC), 3)
    assert [f"{at:%d %H:%M}" for at in spring] == ["27 01:30", "29 00:30", "30 00:30"]
    autumn = cron.next_times("30 2 * * *", "Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC), 2)
    assert [f"{at:%d %H:%M}" for at in autumn] == ["25 00:30", "26 01:30"]
    hourly = cron.next_times("0 * * * *", "Europe/Berlin", datetime(2026, 10, 24, 23, 30, tzinfo=UTC), 3)
    assert [f"{at:%H:%M}" for at in hourly] == ["00:00", "02:00", "03:00"]


def test_times_follow_the_zone_and_not_utc() -> None:
    winter = cron.next_times("0 3 * * 1-5", "Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC), 1)
    assert winter == [datetime(2026, 10, 26, 2, tzinfo=UTC)]
    leap = cron.next_times("0 0 29 2 *", "UTC", datetime(2097, 1, 1, tzinfo=UTC), 1)
    assert leap == [datetime(2104, 2, 29, tzinfo=UTC)]


def test_an_unknown_zone_names_a_close_one() -> None:
    assert cron.zone_fault("Europe/Berlin") is None
    assert 'did you mean "Europe/Berlin"' in (cron.zone_fault("Berlin") or "")
    assert 'did you mean "Europe/Berlin"' in (cron.zone_fault("Europe/Berln") or "")
