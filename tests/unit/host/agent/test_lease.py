from datetime import UTC, datetime, timedelta
from pathlib import Path

from training.host.agent.deadlines import lease
from training.host.agent.tags import renew_lease
from training.host.metadata import Identity
from training.host.paths import Paths
from trainyard.protocol.times import LEASE_MARGIN, RESTARTED_LEASE

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_the_tag_rules_until_an_order_comes() -> None:
    until = lease.lease_at_launch("2026-11-20T13:00:00.000Z")
    assert not until.is_over(NOW)
    assert until.until - NOW == timedelta(hours=1)
    assert until.is_over(NOW + timedelta(hours=1))


def test_a_host_started_after_its_lease_had_ended_gets_another_once_a_boot(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    host = Identity("i-1", "us-east-1", "10.0.1.5", "ami-1", {"trainyard:lease": "2026-11-20T11:00:00.000Z"})
    found = renew_lease(paths, host, now=NOW)
    again = renew_lease(paths, host, now=NOW + timedelta(minutes=50))
    assert found.tags == again.tags
    assert lease.lease_at_launch(found.tags["trainyard:lease"]).until == NOW + RESTARTED_LEASE


def test_a_lease_that_goes_on_is_left_as_it_is(tmp_path: Path) -> None:
    host = Identity("i-1", "us-east-1", "10.0.1.5", "ami-1", {"trainyard:lease": "2026-11-20T13:00:00.000Z"})
    assert renew_lease(Paths(tmp_path), host, now=NOW) == host


def test_while_training_the_runs_deadline_rules() -> None:
    assert lease.while_training(NOW).until == NOW + LEASE_MARGIN


def test_a_waiting_host_waits_no_longer_than_the_run_may_wait() -> None:
    waiting = lease.while_waiting(NOW, wait_minutes=60, deadline=NOW + timedelta(hours=5))
    assert waiting.until == NOW + timedelta(minutes=60) + LEASE_MARGIN


def test_a_waiting_host_never_outlives_the_runs_deadline() -> None:
    waiting = lease.while_waiting(NOW, wait_minutes=60, deadline=NOW + timedelta(minutes=5))
    assert waiting.until == NOW + timedelta(minutes=5) + LEASE_MARGIN


def test_a_host_that_is_done_does_not_stay_for_ever() -> None:
    assert lease.lease_when_done(NOW).until == NOW + timedelta(hours=1)
