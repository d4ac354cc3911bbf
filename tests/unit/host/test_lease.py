from datetime import UTC, datetime, timedelta

from training.host import lease

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_the_tag_rules_until_an_order_comes() -> None:
    until = lease.at_launch("2026-11-20T13:00:00.000Z")
    assert not until.is_over(NOW)
    assert until.left(NOW) == timedelta(hours=1)
    assert until.is_over(NOW + timedelta(hours=1))


def test_while_training_the_runs_deadline_rules() -> None:
    assert lease.while_training(NOW).until == NOW + lease.MARGIN


def test_a_waiting_host_waits_no_longer_than_the_run_may_wait() -> None:
    waiting = lease.while_waiting(NOW, wait_minutes=60, deadline=NOW + timedelta(hours=5))
    assert waiting.until == NOW + timedelta(minutes=60) + lease.MARGIN


def test_a_waiting_host_never_outlives_the_runs_deadline() -> None:
    waiting = lease.while_waiting(NOW, wait_minutes=60, deadline=NOW + timedelta(minutes=5))
    assert waiting.until == NOW + timedelta(minutes=5) + lease.MARGIN


def test_a_host_that_is_done_does_not_stay_for_ever() -> None:
    assert lease.when_done(NOW).until == NOW + timedelta(hours=1)
