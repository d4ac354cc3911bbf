"""Hosts leave an attempt one by one: the heartbeat of Train, the orders to leave, and the end of the attempt."""

from collections.abc import Mapping
from typing import Any

import pytest

from lambdas.aws import states
from lambdas.core.run.recovery import trouble_of
from tests.support.records import AT
from tests.unit.workflows.conftest import Place
from tests.unit.workflows.leaving import Aws


@pytest.fixture
def aws(place: Place, monkeypatch: pytest.MonkeyPatch) -> Aws:
    return Aws(monkeypatch)


def test_when_the_chiefs_program_hangs_all_leave_and_the_program_is_the_reason(
    place: Place, aws: Aws
) -> None:
    aws.hears(place.chief, "stopped", why="hangs", step=7)
    assert (aws.asked, aws.failed) == ([place.worker], [])
    aws.hears(place.worker, "stopped", why="asked", at=95)
    assert aws.failed == ["ProgramHangs"]
    trouble = trouble_of(place.ledger.require("digits-1").attempts[1])
    assert trouble is not None
    assert trouble.all_well
    assert [entry.event for entry in place.ledger.timeline("digits-1")].count("hung") == 1


@pytest.mark.parametrize(("word", "more"), [("finished", {}), ("stopped", {"why": "asked"})])
def test_the_run_has_come_to_where_the_chief_says_at_its_end(
    place: Place, aws: Aws, word: str, more: Mapping[str, Any]
) -> None:
    """Progress is signalled every ten seconds, so that lists of runs are at most ten seconds old."""
    aws.hears(place.worker, "stopped", step=99, why="asked")
    aws.hears(place.chief, word, step=12, loss=0.25, **more)
    progress = place.ledger.require("digits-1").run.progress
    assert progress is not None
    assert (progress["step"], progress["loss"], progress["attempt"]) == (12, 0.25, 1)


def test_while_some_leave_those_who_have_left_keep_train_waiting(place: Place, aws: Aws) -> None:
    """A program has 90 s to leave, and the chief reports nothing in that time."""
    aws.hears(place.chief, "stopped", why="peer", step=7)
    assert aws.beats == 1
    for at in (1, 16, 26):
        aws.hears(place.chief, "ready", attempt=2, address="10.0.0.1", at=at)
    assert aws.beats == 4
    assert aws.asked == [place.worker]


def test_a_gang_is_complete_whether_or_not_systems_manager_knows_it(
    place: Place, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete: list[str] = []

    def succeed(token: str, _answer: Any) -> bool:
        complete.append(token)
        return True

    monkeypatch.setattr(states, "succeed", succeed)
    place.row("token#0002#await_hosts", {"token": "t", "stored": AT})
    place.row("attempt#0002", {"candidate": {"pool": "p"}, "hosts": place.hosts, "launched": AT})
    place.row("run", {"attempt": 2, "state": "AwaitHosts"})
    denied = "ssm:UpdateInstanceInformation"
    aws.hears(place.chief, "ready", attempt=2)
    aws.hears(place.worker, "ready", attempt=2, at=1, ssm_denied=denied)
    assert len(complete) == 1
    (noted,) = [
        e for e in place.ledger.timeline("digits-1") if e.instance == place.worker and e.event == "ready"
    ]
    assert denied in str(noted.reason)
    assert "It trains" in str(noted.reason)


def test_the_timeline_shows_how_much_of_its_image_a_host_has_pulled(place: Place, aws: Aws) -> None:
    place.row("run", {"attempt": 2, "state": "AwaitHosts"})
    aws.hears(place.worker, "pulling", attempt=2, reason="the image: 1.5 GB of 3.4 GB have arrived")
    aws.hears("i-stranger", "pulling", attempt=2, at=1, reason="the image: 1 GB of 2 GB have arrived")
    aws.hears(place.worker, "ready", attempt=2, at=2, pulled="pulled team/train: 3.4 GB")
    noted = {e.event: e.reason for e in place.ledger.timeline("digits-1") if e.event in ("pulling", "ready")}
    assert noted == {
        "pulling": "the image: 1.5 GB of 3.4 GB have arrived",
        "ready": "pulled team/train: 3.4 GB",
    }


def test_who_has_the_order_to_leave_is_not_lost_though_systems_manager_does_not_know_it(
    place: Place, aws: Aws
) -> None:
    """One host confirms the order in the bucket; another one does not, and is lost."""
    aws.hears(place.chief, "stopped", why="peer", step=7)
    for at in (1, 16):
        aws.hears(place.chief, "ready", attempt=2, at=at)
    order = place.object("runs/digits-1/order.json")
    assert order == {"run": "digits-1", "attempt": 1, "kind": "stop", "hosts": [place.worker]}
    place.put(f"runs/digits-1/attempts/1/drain-confirmations/AROA:{place.worker}.json", {})
    for at in (31, 46):
        aws.hears(place.chief, "ready", attempt=2, at=at)
    assert aws.failed == []
    place.remove(f"runs/digits-1/attempts/1/drain-confirmations/AROA:{place.worker}.json")
    aws.hears(place.chief, "ready", attempt=2, at=61)
    assert aws.failed == ["HostLost"]


@pytest.mark.parametrize(("first", "last"), [(9, None), (9, 3), (None, 9)])
def test_an_attempt_keeps_how_far_it_came_whoever_leaves_last(
    place: Place, aws: Aws, first: int | None, last: int | None
) -> None:
    """In most programs only the chief reports steps."""
    aws.hears(place.chief, "stopped", why="peer", step=first)
    aws.hears(place.worker, "stopped", why="interrupted", step=last, at=5)
    row = place.ledger.require("digits-1").attempts[1]
    trouble = trouble_of(row)
    assert trouble is not None
    assert (row.to_step, trouble.step) == (9, 9)


def test_a_worker_that_fails_without_a_step_does_not_hide_how_far_the_gang_came(
    place: Place, aws: Aws
) -> None:
    place.row("attempt#0001", {"reported": 9})
    aws.hears(place.worker, "failed", kind="program", reason="it failed", exit_code=1)
    row = place.ledger.require("digits-1").attempts[1]
    trouble = trouble_of(row)
    assert trouble is not None
    assert (row.to_step, trouble.step) == (9, 9)


def test_what_patrol_repeats_keeps_nobody_waiting(place: Place, aws: Aws) -> None:
    for at in (0, 60, 120):
        aws.hears(place.chief, "stopped", why="peer", step=7, at=at)
    assert aws.beats == 1


def test_a_worker_that_has_finished_does_not_hide_that_the_chief_hangs(place: Place, aws: Aws) -> None:
    for at in (0, 20, 40):
        aws.hears(place.worker, "ready", attempt=2, address="10.0.0.2", at=at)
    assert (aws.beats, aws.asked) == (0, [])


def test_a_restart_that_is_slow_to_report_still_says_where_it_went_on(place: Place, aws: Aws) -> None:
    place.row("attempt#0002", {"candidate": {"pool": "p"}, "hosts": place.hosts, "launched": AT})
    place.row("token#0002#train", {"token": "t", "stored": AT})
    resumed = {"step": 5, "verified": True}
    aws.hears(place.chief, "progress", attempt=2)
    aws.hears(place.chief, "progress", attempt=2, step=6, resumed=resumed, at=60)
    row = place.ledger.require("digits-1").attempts[2]
    assert (row.resumed, row.reported) == (resumed, 6)


@pytest.mark.parametrize(
    ("word", "facts"), [("stopped", {"why": "interrupted"}), ("failed", {"reason": "gone"})]
)
def test_news_of_a_host_that_has_no_part_in_an_attempt_ends_nothing_in_it(
    place: Place, aws: Aws, word: str, facts: dict[str, Any]
) -> None:
    """Patrol repeats a signal from the bucket. The host left it there when EC2 reclaimed the host."""
    place.row("attempt#0002", {"candidate": {"pool": "p"}, "hosts": [place.chief], "launched": AT})
    place.row("token#0002#train", {"token": "t", "stored": AT})
    place.row("run", {"attempt": 2, "state": "Train"})
    aws.hears(place.worker, word, attempt=2, **facts)
    assert (aws.asked, aws.failed) == ([], [])
    assert place.ledger.require("digits-1").attempts[2].ending is None


def test_a_mount_that_ends_on_any_host_is_named_and_the_hosts_stay(place: Place, aws: Aws) -> None:
    lost = "the mount of data.train (s3://corpus/) has ended on this host"
    aws.hears(place.worker, "stopped", why="hangs", reason=lost)
    assert (aws.asked, aws.failed) == ([place.chief], [])
    aws.hears(place.chief, "stopped", why="asked", at=5, step=7)
    assert aws.failed == ["ProgramHangs"]
    trouble = trouble_of(place.ledger.require("digits-1").attempts[1])
    assert trouble is not None
    assert trouble.reason == f"{lost} ({place.worker}), so the program was ended; all hosts are running"
    assert trouble.all_well


def test_the_requests_of_streams_reach_the_bill_and_never_fall(place: Place, aws: Aws) -> None:
    aws.hears(place.worker, "streamed", gets=1_500_000)
    aws.hears(place.worker, "streamed", gets=1_000, at=1)
    aws.hears("i-stranger", "streamed", gets=5, at=2)
    aws.hears(place.chief, "streamed", gets=-5, at=3)
    hosts = place.ledger.require("digits-1").hosts
    assert hosts[place.worker].gets == 1_500_000
    assert hosts[place.worker].charges == pytest.approx(0.6)
    assert hosts[place.chief].gets == 0
    assert "i-stranger" not in hosts
