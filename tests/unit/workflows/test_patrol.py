"""Passes of patrol against AWS's answers: actions, rows and notifications."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambdas import environment
from lambdas.aws.dynamodb.logbook import Logbook
from lambdas.core.images import snapshot
from lambdas.steps.patrol.observe import Observation, PatrolSettings
from lambdas.workflows import patrol
from tests.support.recorded import CONTEXT, Host, Recorded, answering
from tests.unit.workflows.conftest import Log
from trainyard.core.model import names
from trainyard.core.model.errors import AccessDenied
from trainyard.protocol.imaging import Imaging
from trainyard.protocol.plan import Market

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TRAIN, SNAPSHOT = (
    f"arn:aws:states:us-east-1:1:stateMachine:trainyard-{word}" for word in ("train", "snapshot")
)
YARD = {"trainyard:yard": "trainyard"}
KEPT = {**YARD, "trainyard:run": "kept-1", "trainyard:after": "stop", "trainyard:price": "2.000000"}
"""A host of an ended run that keeps its hosts."""
LOST = {**YARD, "trainyard:run": "lost-1", "trainyard:kind": "train", "trainyard:price": "0.500000"}
"""A host of an unknown run."""
SHELL, FORWARD = "SSM-SessionManagerRunShell", "AWS-StartPortForwardingSession"
LIVE = {**YARD, "trainyard:run": "live-1", "trainyard:kind": "train"}


def silent(_: datetime) -> None:
    return None


class Yard:
    """An account, and a clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.account = Recorded(hosts={}, running={TRAIN: ["live-1"]})
        self.now = NOON
        self.said: dict[str, Any] = {}
        monkeypatch.setattr(patrol, "clock", lambda: self.now)
        monkeypatch.setattr(environment, "read", lambda _: self.settings())
        self.policy: dict[str, Any] = {}
        self.monthly_dollars, self.region = 0.0, "us-east-1"

    def settings(self) -> PatrolSettings:
        return PatrolSettings(
            aws_region=self.region,
            yard="trainyard",
            table_name="ledger",
            bucket_name="bucket",
            topic_arn="arn:aws:sns:us-east-1:1:notices",
            snapshot_state_machine_arn=SNAPSHOT,
            state_machine_arns=(TRAIN, SNAPSHOT),
            policy=json.dumps(self.policy),
            monthly_dollars=self.monthly_dollars,
        )

    def add(self, name: str, *, tags: dict[str, str] = YARD, **more: Any) -> Host:
        self.account.hosts[f"i-{name}"] = Host(f"i-{name}", tags=dict(tags), **more)
        return self.account.hosts[f"i-{name}"]

    def looks(self, minutes: int = 1, *, every: int = 1) -> dict[str, Any]:
        """Run a pass each minute, or, to save time, every fifth minute."""
        for _ in range(minutes // every):
            self.now += timedelta(minutes=every)
            self.said = patrol.handler({}, CONTEXT)
        return self.said

    def states(self) -> dict[str, str]:
        return {name: host.state for name, host in self.account.hosts.items()}

    def verdicts(self) -> list[dict[str, Any]]:
        rows = [row for (pk, _), row in sorted(self.account.table.items()) if pk.startswith("patrol#")]
        return [verdict for row in rows for verdict in row["verdicts"]]

    def told(self) -> str:
        return "\n".join(f"{subject}\n{text}" for subject, text in self.account.notices)


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    made = Yard(monkeypatch)
    with answering(made.account):
        yield made


def test_a_yard_without_hosts_costs_a_few_calls(yard: Yard) -> None:
    yard.looks()
    yard.account.calls.clear()
    yard.looks()
    assert yard.account.calls == {
        "dynamodb:TransactWriteItems": 2,
        "dynamodb:BatchGetItem": 2,
        "dynamodb:Query": 2,
        "ec2:DescribeInstances": 1,
        "sfn:ListExecutions": 2,
    }


def test_an_idle_host_on_demand_is_stopped_with_a_reason_and_told_of_once(yard: Yard) -> None:
    host = yard.add("idle", tags=KEPT)
    yard.looks(5)
    assert host.state == "stopping"
    assert host.tags["trainyard:verdict"].startswith("stop-idle 2026-11-20T12:0")
    (written,) = [each for each in yard.verdicts() if each["outcome"]]
    assert written["outcome"] == "done"
    assert (
        "no GPU of it was above 0.0 % and its processors used at most 4 % of one processor"
        in written["reason"]
    )
    ((subject, text),) = yard.account.notices
    assert subject == "Trainyard trainyard: 1 host stopped, $2.00 an hour less"
    assert "stop i-idle (g5.xlarge, on_demand, $2.00 an hour) of kept-1: no GPU" in text
    assert text.endswith("To continue: aws ec2 start-instances --instance-ids i-idle\n")
    yard.looks(3)
    assert len(yard.account.notices) == 1


def test_a_busy_host_is_kept_and_looked_at_every_five_minutes(yard: Yard) -> None:
    host = yard.add("busy", tags=KEPT, share=lambda at: 90.0 if at.minute == 50 else 0.0)
    yard.looks(10)
    assert host.state == "running"
    assert host.tags["trainyard:verdict"].startswith("keep-busy ")
    assert yard.account.metrics_asked == 2
    assert [each["verdict"] for each in yard.verdicts()] == ["keep-busy"]


def test_a_host_without_work_for_its_gpu_is_kept_while_its_processors_have_some(yard: Yard) -> None:
    host = yard.add("pandas", tags=KEPT, processors=lambda at: 25.0 if at.minute == 50 else 1.0)
    yard.looks(10)
    assert host.state == "running"
    assert yard.account.metrics_asked == 4
    (written,) = yard.verdicts()
    assert written["verdict"] == "keep-busy"
    assert "its processors used 100 % of one processor" in written["reason"]
    yard.looks(20)
    assert host.state == "stopping"


def test_a_host_without_a_gpu_is_stopped_when_its_processors_rest(yard: Yard) -> None:
    used = yard.add("used", type="m7i.xlarge", tags=KEPT, processors=lambda _: 30.0)
    idle = yard.add("idle", type="m7i.xlarge", tags=KEPT)
    yard.looks(5)
    assert (used.state, idle.state) == ("running", "stopping")


@pytest.mark.parametrize(("told", "state"), [(16, "running"), (4, "stopping")])
def test_processors_count_by_whole_periods_that_ec2_has_told_of(yard: Yard, told: int, state: str) -> None:
    """EC2 may deliver the last period of five minutes late, but not the last two."""
    late = yard.add(
        "late", tags=KEPT, processors=lambda at: None if at > yard.now - timedelta(minutes=told) else 1.0
    )
    yard.looks(6)
    assert late.state == state


def test_an_orphan_ends_at_the_second_patrol_and_hosts_of_a_live_run_are_not_asked_about(yard: Yard) -> None:
    lost, live = yard.add("lost", tags=LOST, spot=True), yard.add("live", tags=LIVE)
    yard.looks()
    assert (lost.state, live.state) == ("running", "running")
    assert lost.tags["trainyard:verdict"].startswith("warn-orphan")
    yard.looks()
    assert (lost.state, live.state) == ("shutting-down", "running")
    assert yard.account.metrics_asked == 0
    assert "it was launched for lost-1, and no execution of that name is running" in yard.told()


def test_a_run_that_begins_between_the_two_looks_keeps_its_host(yard: Yard) -> None:
    lost = yard.add("lost", tags=LOST)
    yard.looks()
    yard.account.running[TRAIN].append("lost-1")
    yard.looks(3)
    assert lost.state == "running"
    assert lost.tags["trainyard:verdict"].startswith("keep ")


def test_a_second_patrol_within_seconds_does_nothing(yard: Yard) -> None:
    lost = yard.add("lost", tags=LOST)
    yard.looks()
    yard.now += timedelta(seconds=5)
    assert "another pass" in patrol.handler({}, CONTEXT)["patrol"]
    assert lost.state == "running"


def test_a_metrics_outage_over_all_hosts_stops_nothing_and_says_so_once_an_hour(yard: Yard) -> None:
    yard.policy = {"unknown_stop_minutes": 10}
    for n in range(20):
        yard.add(f"{n}", tags=KEPT, share=silent)
    yard.looks(45, every=5)
    assert set(yard.states().values()) == {"running"}
    assert yard.told().count("looks like an outage") == 1
    yard.looks(20, every=5)
    assert yard.told().count("looks like an outage") == 2


def test_a_metrics_outage_stops_nothing_either_where_each_pass_asks_for_one_host_alone(yard: Yard) -> None:
    yard.policy = {"unknown_stop_minutes": 10}
    for name in ("a", "b"):
        yard.add(name, tags=KEPT, share=silent)
    yard.looks(45)
    assert set(yard.states().values()) == {"running"}
    assert "looks like an outage" in yard.told()


def test_a_dead_agent_on_one_host_is_warned_about(yard: Yard) -> None:
    dead = yard.add("dead", tags=KEPT, share=silent)
    for n in range(5):
        yard.add(f"well{n}", tags=KEPT, share=lambda _: 80.0)
    yard.looks(40)
    assert dead.state == "running"
    assert dead.tags["trainyard:verdict"].startswith("warn-unknown")
    assert yard.told().count("check that its CloudWatch agent is running") == 1


def test_a_hundred_idle_hosts_are_stopped_a_fifth_first_then_the_rest(yard: Yard) -> None:
    yard.policy = {"window_minutes": 5}
    for n in range(100):
        yard.add(f"{n:03d}", tags=KEPT)
    yard.looks()
    assert sorted(yard.states().values()).count("stopping") == 20
    assert "100 of 100 hosts would be stopped, archived or terminated at once" in yard.told()
    yard.looks()
    assert set(yard.states().values()) == {"stopping"}


def test_one_host_that_ec2_refuses_keeps_no_other_running_and_is_tried_again(yard: Yard) -> None:
    yard.policy = {"window_minutes": 5}
    for n in range(3):
        yard.add(f"{n}", tags=KEPT)
    yard.account.refuses = {"i-1": "UnsupportedOperation"}
    yard.looks()
    assert yard.states() == {"i-0": "stopping", "i-1": "running", "i-2": "stopping"}
    assert "stop i-1" in yard.told()
    assert "REFUSED (UnsupportedOperation: no: i-1)" in yard.told()
    yard.looks(3)
    assert yard.told().count("REFUSED") == 1
    assert [each["outcome"] for each in yard.verdicts() if each["instance"] == "i-1"] == ["refused"] * 4
    yard.account.refuses = {}
    yard.looks()
    assert yard.states()["i-1"] == "stopping"


def test_a_stopped_host_is_archived_after_a_week(yard: Yard) -> None:
    yard.add("old", tags=KEPT, state="stopped", changed=NOON - timedelta(days=8))
    yard.add("new", tags=KEPT, state="stopped", changed=NOON - timedelta(days=2))
    yard.looks(3)
    ((name, asked),) = yard.account.started
    assert name == "archive-i-old-2026112012"
    assert asked == {"instance": "i-old", "quiesce": "stop", "then": "terminate"}
    assert "archive i-old" in yard.told()
    assert f'the dev-host workflow with {{"run": "{name}"}}' in yard.told()


def test_a_host_that_is_started_again_keeps_its_disk_when_it_shuts_itself_down(yard: Yard) -> None:
    host = yard.add("again", tags=KEPT, state="stopped", changed=NOON)
    yard.looks(2)
    assert host.shutdown == "terminate"
    host.state, host.launched = "running", yard.now
    yard.looks(3)
    assert host.shutdown == "stop"
    assert yard.account.calls["ec2:ModifyInstanceAttribute"] == 1


@pytest.mark.parametrize(
    ("spot", "state"), [(False, "stopped"), (True, "running")], ids=["stopped on demand", "idle spot"]
)
def test_the_snapshot_workflow_takes_what_patrol_asks_of_it(yard: Yard, spot: bool, state: str) -> None:
    yard.policy = {"window_minutes": 5, "idle_spot": "archive"}
    yard.add("0123456789abcdef0", tags=KEPT, state=state, spot=spot, changed=NOON - timedelta(days=8))
    yard.looks()
    ((name, asked),) = yard.account.started
    assert names.name_fault(name) is None
    read = snapshot.read_input(asked)
    assert isinstance(read, snapshot.SnapshotRequest)
    host = snapshot.SnapshotHost(
        instance="i-0123456789abcdef0",
        type="g5.xlarge",
        mine=True,
        state=state,
        market=Market.SPOT if spot else Market.ON_DEMAND,
        online=state == "running",
        image="ami-0123456789abcdef0",
        run="kept-1",
        kind="train",
        family="kept",
    )
    assert isinstance(snapshot.admit(read, host, baked=()), Imaging)


def test_a_session_keeps_an_idle_host_and_so_does_a_hold(yard: Yard) -> None:
    yard.policy = {"window_minutes": 5}
    yard.add("talked", tags=KEPT)
    held = yard.add("held", tags={**KEPT, "trainyard:hold": "2026-11-20T12:05Z"})
    yard.account.sessions = {"i-talked": SHELL}
    yard.looks(4)
    assert set(yard.states().values()) == {"running"}
    yard.looks(4)
    assert held.state == "stopping"
    assert yard.states()["i-talked"] == "running"


def test_who_sits_at_a_dev_host_is_asked_in_the_same_call_as_its_gpus(yard: Yard) -> None:
    """A forgotten port forward keeps no dev host; a shell keeps it, even without any other use."""
    yard.policy = {"window_minutes": 5}
    hosts = {
        name: yard.add(name, tags={**KEPT, "trainyard:dev": name}, use=lambda _, use=use: use)
        for name, use in (("left", 0.0), ("runs", 1.0), ("types", 2.0), ("silent", None), ("talked", 0.0))
    }
    yard.account.sessions = {"i-left": FORWARD, "i-talked": SHELL}
    yard.account.calls.clear()
    yard.looks(5)
    assert [name for name, host in hosts.items() if host.state != "running"] == ["left"]
    assert yard.account.calls["cloudwatch:GetMetricData"] == 5
    words = {each["instance"]: each["verdict"] for each in yard.verdicts()}
    assert words == {
        "i-left": "stop-idle",
        "i-runs": "keep-busy",
        "i-types": "keep-busy",
        "i-silent": "keep-unknown",
        "i-talked": "keep",
    }


def test_a_dev_host_is_told_by_what_it_is_judged_once(yard: Yard) -> None:
    yard.policy = {"window_minutes": 45}
    host = yard.add("mine", tags={**KEPT, "trainyard:dev": "mine", "trainyard:policy-idle_percent": "40"})
    other = yard.add("other", tags=KEPT)
    yard.looks()
    told = "window_minutes=45 grace_minutes=15 idle_percent=40 idle_cpu_percent=50"
    assert host.tags["trainyard:judged-by"] == told
    assert "trainyard:judged-by" not in other.tags
    yard.account.calls.clear()
    yard.looks()
    assert "ec2:CreateTags" not in yard.account.calls


def test_a_snapshot_that_somebody_asked_for_keeps_the_host_it_images(yard: Yard) -> None:
    yard.policy = {"window_minutes": 5}
    imaged = yard.add("imaged", tags=KEPT)
    yard.account.running[SNAPSHOT] = ["by-hand"]
    imaging = {"instance": "i-imaged", "type": "g5.xlarge", "family": "digits", "parent": "ami-1"}
    yard.account.table["run#by-hand", "run"] = run_row(pk="run#by-hand", kind="snapshot", imaging=imaging)
    yard.looks(3)
    assert imaged.state == "running"
    yard.account.running[SNAPSHOT] = []
    yard.looks(2)
    assert imaged.state == "stopping"


def test_a_policy_by_tag_counts_for_that_host_and_a_wrong_one_is_told(yard: Yard) -> None:
    own = yard.add("own", tags={**KEPT, "trainyard:policy-idle_percent": "40"}, share=lambda _: 30.0)
    wrong = yard.add("wrong", tags={**KEPT, "trainyard:policy-idle_percent": "lots"}, share=lambda _: 30.0)
    yard.looks(5)
    assert (own.state, wrong.state) == ("stopping", "running")
    assert yard.told().count("the tag trainyard:policy-idle_percent") == 1


def test_a_wrong_tag_on_a_thousand_hosts_is_one_line(yard: Yard) -> None:
    for n in range(1000):
        yard.add(f"{n:04d}", tags={**KEPT, "trainyard:policy-idle_percent": "lots"}, share=lambda _: 30.0)
    yard.looks()
    yard.account.calls.clear()
    yard.looks()
    assert "1,000 hosts (i-0000, i-0001, i-0002, ...): the tag trainyard:policy-idle_percent" in yard.told()
    assert yard.account.calls["dynamodb:PutItem"] + yard.account.calls["dynamodb:TransactWriteItems"] < 10


@pytest.mark.parametrize("price", ["\u00b2", "9" * 200, "-1", "nan", "dear"])
def test_a_price_that_is_none_is_the_price_lists(yard: Yard, price: str) -> None:
    yard.add("lost", tags={**LOST, "trainyard:price": price})
    assert yard.looks()["dollars_per_hour"] == 1.006


def test_a_verdict_of_tomorrow_that_somebody_wrote_keeps_no_orphan_alive(yard: Yard) -> None:
    lost = yard.add("lost", tags={**LOST, "trainyard:verdict": "warn-orphan 2099-01-01"})
    yard.looks(2)
    assert lost.state == "shutting-down"


@pytest.mark.parametrize(
    "operation",
    ["DescribeInstances", "ListExecutions", "GetMetricData", "DescribeSessions", "DescribeImages"],
)
def test_what_aws_does_not_answer_stops_nobody(
    yard: Yard, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    yard.policy = {"window_minutes": 5}
    yard.add("idle", tags=KEPT)
    yard.account.broken = {operation: "ThrottlingException"}
    with pytest.raises(Exception, match="ThrottlingException"):
        yard.looks()
    assert yard.states() == {"i-idle": "running"}
    yard.account.broken = {}
    yard.looks()
    assert yard.states() == {"i-idle": "stopping"}


@pytest.mark.parametrize("operation", ["GetMetricData", "DescribeSessions", "ListCommandInvocations"])
def test_an_orphan_ends_though_nobody_knows_how_hosts_are_used(
    yard: Yard, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    yard.policy = {"window_minutes": 5}
    yard.add("idle", tags=KEPT)
    yard.add("lost", tags={**LOST, "trainyard:verdict": "warn-orphan 2026-11-20T11:59:00.000Z"})
    yard.account.broken = {operation: "ThrottlingException"}
    with pytest.raises(Exception, match="ThrottlingException"):
        yard.looks()
    assert yard.states() == {"i-idle": "running", "i-lost": "shutting-down"}


@pytest.mark.parametrize(
    "operation", ["PutItem", "TransactWriteItems", "BatchGetItem", "CreateTags", "Publish"]
)
def test_what_it_cannot_write_keeps_no_orphan_alive_and_is_raised(
    yard: Yard, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    lost = yard.add("lost", tags={**LOST, "trainyard:verdict": "warn-orphan 2026-11-20T11:59:00.000Z"})
    yard.account.broken = {operation: "InternalServerError"}
    with pytest.raises(Exception, match="InternalServerError"):
        yard.looks()
    assert lost.state == "shutting-down"


def test_a_missing_permission_is_raised_when_the_rest_is_done(yard: Yard) -> None:
    yard.policy = {"window_minutes": 5}
    yard.add("idle", tags=KEPT)
    yard.add("lost", tags={**LOST, "trainyard:verdict": "warn-orphan 2026-11-20T11:59:00.000Z"})
    yard.account.broken = {"StopInstances": "UnauthorizedOperation"}
    with pytest.raises(AccessDenied, match="ec2:StopInstances"):
        yard.looks()
    assert yard.states() == {"i-idle": "running", "i-lost": "shutting-down"}


def test_an_act_that_fails_keeps_no_other_from_happening_and_is_written_down(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    yard.policy = {"window_minutes": 5}
    yard.add("old", tags=KEPT, state="stopped", changed=NOON - timedelta(days=8))
    yard.add("lost", tags={**LOST, "trainyard:verdict": "warn-orphan 2026-11-20T11:59:00.000Z"})
    yard.account.broken = {"StartExecution": "ExecutionLimitExceeded"}
    with pytest.raises(Exception, match="ExecutionLimitExceeded"):
        yard.looks()
    assert yard.states() == {"i-old": "stopped", "i-lost": "shutting-down"}
    outcomes = {each["instance"]: each["outcome"] for each in yard.verdicts()}
    assert outcomes == {"i-old": "refused", "i-lost": "done"}
    assert "REFUSED (An error occurred (ExecutionLimitExceeded)" in yard.told()
    yard.account.broken = {}
    yard.looks()
    assert len(yard.account.started) == 1


# ------------------------------------------------------------------------------------------------------ lost events


def run_row(**more: Any) -> dict[str, Any]:
    return {
        "pk": "run#live-1",
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 2,
        "created": "2026-11-20T10:00:00.000Z",
        "execution_arn": "arn",
        **more,
    }


def progress(at: str) -> dict[str, Any]:
    return {"step": 7, "attempt": 2, "at": at}


def test_a_host_that_vanished_from_a_live_run_is_told_to_signal_once_an_event_would_have_come(
    yard: Yard,
) -> None:
    yard.add("gone", tags=LIVE, state="terminated", changed=NOON)
    yard.looks(12)
    told = [event["detail"] for function, event in yard.account.invoked if function == "trainyard-signal"]
    assert told == [{"instance-id": "i-gone", "state": "terminated"}] * 10


def test_an_image_that_is_there_is_told_to_signal(yard: Yard) -> None:
    yard.account.running[SNAPSHOT] = ["by-hand"]
    yard.account.table["run#by-hand", "run"] = run_row(
        pk="run#by-hand", kind="snapshot", state="Capture", attempt=1
    )
    yard.account.table["run#by-hand", "wait#0001#capture"] = {
        "pk": "run#by-hand",
        "sk": "wait#0001#capture",
        "since": "2026-11-20T11:00:00.000Z",
        "image": "ami-1",
    }
    yard.account.images = {"ami-1": "pending"}
    yard.looks(1)
    assert yard.account.invoked == []
    yard.account.images = {"ami-1": "available"}
    yard.looks(1)
    ((_, event),) = yard.account.invoked
    assert event["detail-type"] == "EC2 AMI State Change"
    assert event["detail"] == {"ImageId": "ami-1", "State": "available", "ErrorMessage": ""}


def test_hosts_of_runs_that_are_over_are_nobodys_news(yard: Yard) -> None:
    yard.add("gone", tags=LOST, state="terminated", changed=NOON)
    yard.looks(3)
    assert yard.account.invoked == []


def test_a_finish_that_nobody_heard_is_told_from_the_bucket(yard: Yard) -> None:
    word = {
        "signal": "finished",
        "run": "live-1",
        "attempt": 2,
        "instance": "i-a",
        "at": "2026-11-20T12:00:30.000Z",
    }
    yard.account.objects["runs/live-1/attempts/2/signals/AROA:i-a.json"] = json.dumps(word).encode()
    yard.account.table["run#live-1", "run"] = run_row(progress=progress("2026-11-20T12:00:00.000Z"))
    yard.looks(1)
    assert yard.account.invoked == []
    yard.looks(1)
    ((function, event),) = yard.account.invoked
    assert (function, event["detail-type"], event["detail"]) == ("trainyard-signal", "finished", word)


@pytest.mark.parametrize("left", [b"", b"not JSON", b"[]", b"{}", b'{"signal": "finished", "at": "soon"}'])
def test_what_is_no_word_of_a_host_keeps_nothing_else_from_being_said(yard: Yard, left: bytes) -> None:
    yard.account.objects["runs/live-1/attempts/2/signals/AROA:i-a.json"] = left
    yard.account.table["run#live-1", "run"] = run_row(deadline="2026-11-20T11:00:00.000Z")
    yard.looks(1)
    assert [event["detail-type"] for _, event in yard.account.invoked] == ["cap"]


def test_a_run_that_reports_is_not_looked_into(yard: Yard) -> None:
    yard.account.table["run#live-1", "run"] = run_row(progress=progress("2026-11-20T12:00:00.000Z"))
    yard.looks(1)
    assert yard.account.calls["s3:ListObjectsV2"] == 0


def test_a_run_that_the_ledger_has_lost_is_told_to_signal_while_it_has_hosts(yard: Yard) -> None:
    yard.add("live", tags=LIVE)
    yard.looks(1)
    ((_, event),) = yard.account.invoked
    assert (event["source"], event["detail-type"], event["detail"]) == (
        "trainyard.patrol",
        "forgotten",
        {"run": "live-1", "attempt": 1},
    )
    yard.account.invoked.clear()
    yard.account.table["run#live-1", "run"] = run_row(progress=progress("2026-11-20T12:01:00.000Z"))
    yard.looks(1)
    assert yard.account.invoked == []


def test_a_run_at_its_cap_is_told_to_signal(yard: Yard) -> None:
    yard.account.table["run#live-1", "run"] = run_row(
        progress=progress("2026-11-20T12:02:00.000Z"), deadline="2026-11-20T12:02:00.000Z"
    )
    yard.looks(1)
    assert yard.account.invoked == []
    yard.looks(1)
    ((_, event),) = yard.account.invoked
    assert (event["source"], event["detail"]) == ("trainyard.patrol", {"run": "live-1", "attempt": 2})


def is_open(yard: Yard, run: str, kind: str = "train", *, over: datetime | None = None) -> None:
    """Add a run without a conclusion. Its execution ended at this time, or Step Functions lists it no longer."""
    arn = f"arn:aws:states:us-east-1:1:execution:trainyard-{kind}:{run}"
    yard.account.table["open", run] = {"pk": "open", "sk": run, "kind": kind, "execution_arn": arn}
    if over:
        yard.account.over[arn] = over


KINDS = [
    ("train", "train-conclude"),
    ("bake", "bake-conclude"),
    ("snapshot", "snapshot-conclude"),
    ("dev-host", "dev-host-conclude"),
]


@pytest.mark.parametrize(("kind", "concludes"), KINDS)
def test_a_run_whose_execution_was_aborted_unheard_is_concluded_though_it_has_no_host(
    yard: Yard, kind: str, concludes: str
) -> None:
    """The run was waiting for capacity, for example."""
    is_open(yard, "lost-1", kind, over=NOON)
    yard.looks(1)
    ((function, said),) = yard.account.invoked
    assert function == f"trainyard-{concludes}"
    assert (said["run"], said["cut_short"], said["outcome"]["error"]) == ("lost-1", True, "Aborted")
    assert said["execution"].endswith(f"trainyard-{kind}:lost-1")


def test_one_that_step_functions_has_forgotten_is_concluded_once_its_hosts_have_gone(yard: Yard) -> None:
    lost = yard.add("lost", tags=LOST)
    is_open(yard, "lost-1")
    yard.looks(1)
    assert (lost.state, yard.account.invoked) == ("running", [])
    yard.looks(1)
    assert (lost.state, len(yard.account.invoked)) == ("shutting-down", 1)


def test_a_run_that_cannot_be_concluded_yet_is_tried_every_five_minutes(yard: Yard) -> None:
    """A launch request of the run may still be under way."""
    is_open(yard, "lost-1", over=NOON)
    yard.looks(4)
    assert len(yard.account.invoked) == 1
    yard.looks(1)
    assert len(yard.account.invoked) == 2


def test_an_execution_that_has_just_ended_is_left_to_its_event(yard: Yard) -> None:
    is_open(yard, "lost-1", over=NOON + timedelta(seconds=30))
    yard.looks(1)
    assert yard.account.invoked == []


def test_a_run_that_goes_on_costs_no_call_of_its_own(yard: Yard) -> None:
    is_open(yard, "live-1")
    yard.looks(1)
    assert (yard.account.invoked, yard.account.calls["sfn:DescribeExecution"]) == ([], 0)


def test_a_run_whose_execution_is_named_late_goes_on(yard: Yard) -> None:
    is_open(yard, "live-1")
    yard.account.running = {"named late": ["live-1"]}
    yard.looks(1)
    assert (yard.account.invoked, yard.account.calls["sfn:DescribeExecution"]) == ([], 1)


# ------------------------------------------------------------------------------------------------------------ money


def test_the_months_money_is_counted_and_its_budget_warned_of_once_each(yard: Yard) -> None:
    yard.monthly_dollars = 1.0
    yard.add("live", tags={**LIVE, "trainyard:price": "30.000000"})
    yard.looks(1)
    assert yard.looks(1)["dollars_this_month"] == 0.5
    yard.looks(1)
    assert [subject for subject, _ in yard.account.notices] == [
        "Trainyard trainyard: 50 % of the monthly budget is spent",
        "Trainyard trainyard: 100 % of the monthly budget is spent",
    ]
    assert "new runs are refused" in yard.told()


def test_a_write_whose_answer_is_lost_skips_no_pass_and_loses_no_warning(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    yard.monthly_dollars = 1.0
    yard.add("live", tags={**LIVE, "trainyard:price": "30.000000"})
    yard.looks(1)
    yard.account.lost_answers = 2
    assert yard.looks(1)["dollars_this_month"] == 0.5
    assert [subject for subject, _ in yard.account.notices] == [
        "Trainyard trainyard: 50 % of the monthly budget is spent"
    ]


def test_a_day_is_summed_up_after_midnight(yard: Yard) -> None:
    yard.add("idle", tags=KEPT)
    yard.looks(5)
    yard.account.notices.clear()
    yard.now = NOON.replace(hour=23, minute=59)
    yard.looks(3)
    ((subject, text),) = yard.account.notices
    assert subject == "Trainyard trainyard: the day 2026-11-20"
    assert "2026-11-20: 1 host stopped." in text
    assert "$2.00 an hour" in text


# ------------------------------------------------------------------------------------------------- prices


def kept(yard: Yard) -> dict[str, Any]:
    return yard.account.table["patrol", "prices"]


def test_the_prices_of_its_region_are_read_once_a_day(yard: Yard) -> None:
    yard.region = "eu-central-1"
    yard.looks()
    asked = yard.account.calls["pricing:GetProducts"]
    assert float(kept(yard)["on_demand"]["g5.xlarge"]) == pytest.approx(1.19 * 1.006)
    assert kept(yard)["read"] == kept(yard)["requested"] == "2026-11-20T12:01:00.000Z"
    yard.looks(5)
    assert yard.account.calls["pricing:GetProducts"] == asked
    yard.now += timedelta(days=1)
    yard.looks(2)
    assert yard.account.calls["pricing:GetProducts"] == 2 * asked


def test_a_pass_that_ends_while_it_reads_them_keeps_nobody_from_reading_them_five_minutes_later(
    yard: Yard,
) -> None:
    yard.looks()
    del yard.account.table["patrol", "prices"]
    asked = yard.account.calls["pricing:GetProducts"]
    yard.looks(3)
    assert yard.account.calls["pricing:GetProducts"] == asked
    yard.looks(2)
    assert yard.account.calls["pricing:GetProducts"] == 2 * asked
    assert float(kept(yard)["on_demand"]["g5.xlarge"]) == 1.006


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "AccessDeniedException", "InvalidParameterException"]
)
def test_that_they_cannot_be_read_fails_no_pass_and_is_tried_again_in_an_hour(
    yard: Yard, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    yard.account.broken = {"GetProducts": code}
    yard.looks()
    asked = yard.account.calls["pricing:GetProducts"]
    assert code in kept(yard)["trouble"] or "pricing:GetProducts" in kept(yard)["trouble"]
    yard.looks(50, every=5)
    assert yard.account.calls["pricing:GetProducts"] == asked
    yard.account.broken = {}
    yard.looks(15, every=5)
    assert (kept(yard)["trouble"], float(kept(yard)["on_demand"]["g5.xlarge"])) == ("", 1.006)


def test_a_host_is_judged_and_billed_by_them(yard: Yard) -> None:
    """The host has no price from Launch."""
    yard.region, yard.monthly_dollars = "eu-central-1", 1000.0
    yard.looks()
    yard.add("unpriced", tags={**YARD, "trainyard:disk": "100"}, launched=yard.now)
    yard.looks(12)
    (reason,) = {each["reason"] for each in yard.verdicts() if each["verdict"] == "keep"}
    assert (
        "It costs $1.21 an hour. Stopped: $9.52 a month for its disk of 100 GiB. Archived: at most $5.95"
        in reason
    )
    assert "prices of" not in reason
    spent = float(yard.account.table["patrol", "money"]["dollars"])
    assert spent == pytest.approx(1.19 * 1.006 * 12 / 60, rel=0.1)


def test_a_verdict_by_another_regions_prices_says_so(yard: Yard) -> None:
    yard.region = "xx-nowhere-1"
    yard.looks()
    yard.add("unpriced", tags={**YARD, "trainyard:disk": "100"}, launched=yard.now)
    yard.looks()
    (reason,) = {each["reason"] for each in yard.verdicts()}
    assert "Stopped: $8.00 a month" in reason
    assert (
        "of us-east-1, 2026-07-20, for GiB of disk, GiB of snapshot: the price list of xx-nowhere-1 has none"
        in reason
    )


def test_the_line_for_the_dashboard(yard: Yard) -> None:
    yard.policy = {"window_minutes": 5}
    yard.add("idle", tags=KEPT)
    yard.add("busy", tags=KEPT, share=lambda _: 90.0)
    yard.add("live", tags=LIVE)
    yard.add("old", tags=KEPT, state="stopped", changed=NOON)
    said = yard.looks()
    assert (said["running"], said["stopped"], said["in_runs"], said["stops"]) == (3, 1, 1, 1)
    assert (said["dollars_per_hour_saved"], said["busy_percent"], said["looked_at"]) == (2.0, 45.0, 2)


def test_the_verdicts_of_before_are_gathered_once_for_all_that_changed() -> None:
    seen = Observation(hosts={}, ended=(), live=frozenset(), verdicts={})
    assert seen.earlier is seen.earlier


def test_each_pass_tells_what_hosts_have_cost_since_the_one_before(yard: Yard, log: Log) -> None:
    yard.looks()
    yard.add("new", tags={**YARD, "trainyard:price": "3.600000"}, launched=yard.now)
    yard.looks(2)
    first, *later = log.metrics()["Dollars"]
    assert first == 0.0, "the count begins, and patrol was there"
    assert later == pytest.approx([0.06, 0.06])


def test_what_another_pass_has_counted_is_not_told_twice(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setattr(Logbook, "count", lambda *_: False)
    yard.looks()
    assert log.metrics() == {}


def test_each_pass_names_the_runs_that_go_on_however_old_they_are(yard: Yard, log: Log) -> None:
    row = {
        "pk": "run#live-1",
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 3,
        "execution_arn": "arn",
    }
    yard.account.table["run#live-1", "run"] = row | {"created": "2026-11-18T12:01:00.000Z"}
    yard.looks()
    (line,) = (line for line in log.lines() if line.get("message") == "open run")
    told = {key: line[key] for key in ("run", "kind", "state", "attempt", "hours")}
    assert told == {"run": "live-1", "kind": "train", "state": "Train", "attempt": 3, "hours": 48.0}
    yard.account.running = {TRAIN: []}
    yard.looks()
    assert not [line for line in log.lines() if line.get("message") == "open run"]
