"""Signals of hosts: their rows in the ledger, and the tasks that they answer."""

import copy
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lambdas.aws import s3
from lambdas.aws.ec2 import instances
from lambdas.aws.ec2.instances import Instance
from lambdas.steps import orders
from lambdas.steps.signals import from_hosts
from lambdas.steps.signals.context import SignalContext
from lambdas.workflows import signal
from lambdas.workflows.train import await_hosts
from tests.support.recorded import CONTEXT, Host
from tests.unit.workflows.conftest import Log
from tests.unit.workflows.signalled_run import AT, DEV_ROLE, JOB, NOON, RUN_ROLE, Run, exact, run
from trainyard.core.model.errors import AccessDenied
from trainyard.protocol.orders import Order, OrderKind
from trainyard.protocol.plan import Market

__all__ = ["run"]

GIVEN = "credentials/AROAHOST:i-a.json"


def test_a_host_that_asks_has_credentials_of_its_run_for_an_hour(run: Run) -> None:
    assert run.says("i-a", "credentials") == "i-a has credentials until 2026-11-20T13:00:00+00:00"
    (asked,) = run.account.assumed
    assert (asked["RoleArn"], asked["RoleSessionName"], asked["DurationSeconds"]) == (RUN_ROLE, "i-a", "3600")
    assert "runs/r/*" in asked["Policy"]
    assert json.loads(run.account.objects[GIVEN]) == {
        "Version": 1,
        "AccessKeyId": "ASIA1",
        "SecretAccessKey": "s",
        "SessionToken": "t",
        "Expiration": "2026-11-20T13:00:00+00:00",
        "Run": "r",
    }


DENIALS = [
    # name, age of the event in seconds, whether the run ends
    ("the permission vanished a moment ago: Lambda tries again in a minute", 1, False),
    ("it is still missing at that try", 61, True),
]


@pytest.mark.parametrize(("age", "ends"), [row[1:] for row in DENIALS], ids=[str(row[0]) for row in DENIALS])
def test_a_permission_that_vanishes_for_seconds_ends_no_live_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, age: int, ends: bool
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise AccessDenied("The role may not dynamodb:UpdateItem")

    monkeypatch.setattr(from_hosts, "handle", denied)
    detail = {"run": "r", "attempt": 2, "instance": "i-a", "at": AT, "signal": "progress"}
    event = {"source": "trainyard.host/AROA:i-a", "detail-type": "progress", "detail": detail}
    with pytest.raises(AccessDenied):
        signal.handler({**event, "time": (NOON - timedelta(seconds=age)).isoformat()}, CONTEXT)
    assert bool(run.account.answered) is ends


def test_a_host_that_cannot_reach_a_service_is_well_and_the_service_is_named(run: Run) -> None:
    said = "s3:GetObject on s3://b/k failed: SlowDown"
    run.says("i-a", "failed", kind="service", reason=said, tail="", exit_code=None, final=False)
    (answer,) = (each[2] for each in run.account.answered)
    assert answer["error"] == "ServiceUnavailable"
    assert json.loads(answer["cause"])["all_well"] is True


def test_a_policy_that_finds_no_room_in_the_token_is_made_shorter(run: Run) -> None:
    data = {f"d{number}": {"source": f"s3://bucket/data/{'folder' * 9}/{number}/"} for number in range(8)}
    run.put("run", job=exact(JOB | {"data": data}))
    run.account.policy_room = 600
    run.says("i-a", "credentials")
    lengths = [len(asked["Policy"]) for asked in run.account.assumed]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] <= 600
    assert GIVEN in run.account.objects


def test_where_sts_takes_no_policy_at_all_the_run_ends_with_that(run: Run) -> None:
    run.account.policy_room = 10
    assert "STS accepts not even the shortest policy for r" in run.says("i-a", "credentials")
    ((_, _, said),) = run.account.answered
    assert "STS accepts not even the shortest policy for r" in said["cause"]


@pytest.mark.parametrize("changes", [{"ended": AT}, {"job": None}])
def test_nobody_has_credentials_of_a_run_that_is_over_or_trains_nothing(
    run: Run, changes: dict[str, Any]
) -> None:
    run.put("run", **changes)
    assert run.says("i-a", "credentials") == "not a host of a live run"
    assert run.account.assumed == []


def test_a_stranger_has_no_credentials(run: Run) -> None:
    run.account.table["instance#i-other", "run"] = {"run": "other", "attempt": 1}
    for host in ("i-stranger", "i-other"):
        run.says(host, "credentials")
    assert run.account.assumed == []


OF_ALICE = {"trainyard:yard": "trainyard", "trainyard:dev": "mine", "trainyard:submitter": "alice"}


def test_a_dev_host_has_credentials_in_its_owners_name(run: Run) -> None:
    """A dev host may request credentials long after its launch."""
    run.account.hosts["i-dev"] = Host("i-dev", tags=OF_ALICE)
    assert run.says("i-dev", "dev-credentials") == "i-dev has credentials until 2026-11-20T13:00:00+00:00"
    (asked,) = run.account.assumed
    assert (asked["RoleArn"], asked["RoleSessionName"]) == (DEV_ROLE, "i-dev")
    put, events = json.loads(asked["Policy"])["Statement"][1:]
    assert set(put["Action"]) == {"s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}
    assert put["Resource"] == [
        f"arn:aws:s3:::bucket/{each}/by/alice/*" for each in ("jobs", "programs", "data")
    ]
    assert {*put["Action"]} < {*json.loads(asked["Policy"])["Statement"][0]["NotAction"]}
    alice = {"events:source": ["trainyard.people/alice"]}
    assert events["Condition"] == {"StringEquals": alice, "ForAllValues:StringEquals": alice}
    assert "credentials/AROAHOST:i-dev.json" in run.account.objects


@pytest.mark.parametrize(
    "tags",
    [
        {},
        OF_ALICE | {"trainyard:yard": "another"},
        OF_ALICE | {"trainyard:submitter": "unknown"},
        OF_ALICE | {"trainyard:submitter": "*"},
        {"trainyard:yard": "trainyard", "trainyard:submitter": "alice"},
    ],
    ids=["nobody's", "of another yard", "of no user", "of a pattern", "a host of alice's run"],
)
def test_no_other_host_has_anybodys_credentials(run: Run, tags: dict[str, str]) -> None:
    run.account.hosts["i-dev"] = Host("i-dev", tags=tags)
    assert run.says("i-dev", "dev-credentials") == "i-dev is not a dev host of this yard"
    assert run.says("i-gone", "dev-credentials") == "i-gone is not a dev host of this yard"
    assert run.account.assumed == []


def test_a_host_asks_for_no_credentials_of_another_dev_host(run: Run) -> None:
    run.account.hosts["i-dev"] = Host("i-dev", tags=OF_ALICE)
    run.says("i-a", "dev-credentials", instance="i-dev")
    assert run.account.assumed == []


def test_hosts_that_give_a_damaged_checkpoint_up_stay_for_the_next_attempt(run: Run) -> None:
    for host in ("i-a", "i-b"):
        run.says(host, "failed", kind="checkpoint", reason="the checkpoint is damaged", final=False)
    assert [run.row(f"host#{host}").get("lost") for host in ("i-a", "i-b")] == [None, None]
    ((token, word, said),) = run.account.answered
    assert (token, word, said["error"]) == ("waits", "Failure", "StartFailed")
    cause = json.loads(said["cause"])
    assert (cause["lost"], cause["all_well"], cause["final"]) == ([], True, False)


def test_a_host_that_cannot_upload_what_a_program_has_left_has_started_it(run: Run) -> None:
    said = "the program finished, but its model could not be uploaded: SlowDown"
    run.says("i-a", "failed", kind="host", reason=said, exit_code=0, final=True)
    ((_, _, answer),) = run.account.answered
    cause = json.loads(answer["cause"])
    assert (answer["error"], cause["reason"], cause["final"]) == ("UploadFailed", said, True)


def test_an_upload_that_a_permission_keeps_from_succeeding_is_denied(run: Run) -> None:
    said = "the program finished, but its model could not be uploaded: access denied: the role lacks s3:PutObject"
    run.says("i-a", "failed", kind="host", reason=said, exit_code=0, final=True)
    assert run.account.answered[0][2]["error"] == "AccessDenied"


def test_what_speaks_against_a_finish_is_kept(run: Run) -> None:
    doubts = ["its last lines are an uncaught exception\x1b", "x" * 600]
    run.says("i-a", "finished", step=40, but=doubts)
    kept = run.row("attempt#0002")["but"]
    assert kept[0].startswith("its last lines are an uncaught exception")
    assert ("\x1b" in kept[0], len(kept[1]) <= 512) == (False, True)


def test_a_failure_of_the_chiefs_program_tells_how_far_it_came(run: Run) -> None:
    run.says("i-a", "progress", step=0, loss=1.0)
    run.says("i-a", "failed", kind="program", reason="it raised", exit_code=1, step=11, loss=0.083)
    progress = run.row("run")["progress"]
    assert (progress["step"], float(progress["loss"])) == (11, 0.083)
    assert json.loads(run.account.answered[-1][2]["cause"])["step"] == 11


def test_a_failure_of_a_workers_program_leaves_the_runs_progress_as_the_chief_told_it(run: Run) -> None:
    run.says("i-a", "progress", step=7, loss=0.5)
    run.says("i-b", "failed", kind="program", reason="it raised", exit_code=1, step=9, loss=0.1)
    assert run.row("run")["progress"]["step"] == 7


def test_a_host_that_fails_for_itself_is_lost(run: Run) -> None:
    run.says("i-b", "failed", kind="host", reason="the disk is full", final=False)
    assert run.row("host#i-b")["lost"] == "the disk is full"
    ((_, _, said),) = run.account.answered
    assert json.loads(said["cause"])["lost"] == ["i-b"]


def test_a_slow_host_is_named_once_and_the_limit_is_the_latest_one(run: Run) -> None:
    slow = "worker 1 (i-b) is slower than the others, which wait for it: it waited for its input 70 % of the time"
    for step, limit in ((1, "the program waited for input 50 %"), (2, "the program waited for input 61 %")):
        run.says("i-a", "progress", step=step, limited=limit, slow={"i-b": slow})
    row = run.row("run")
    assert (row["limited"], row["findings"]) == ("the program waited for input 61 %", {"slow i-b": slow})
    entries = [row for (pk, _), row in run.account.table.items() if pk == "timeline#r"]
    assert [(each["instance"], each["reason"]) for each in entries if each["event"] == "slow host"] == [
        ("i-b", slow)
    ]


def test_the_bandwidth_of_a_checked_gang_is_on_the_timeline(run: Run) -> None:
    told = "an all-reduce over 8 GPUs reached 202.4 GB/s (NCCL, 21 s)"
    run.says("i-a", "started", role="chief", index=0, instead="an older checkpoint", checked=told)
    (entry,) = [row for (pk, _), row in run.account.table.items() if pk == "timeline#r"]
    assert (entry["event"], entry["reason"]) == ("started", f"an older checkpoint; {told}")


def test_a_gpu_with_a_low_clock_is_on_the_timeline_once_and_its_sentence_is_the_latest_one(run: Run) -> None:
    said = "GPU 0 of worker 1 (i-b) ran at 45 % of its clock for at least {} minutes: thermal slowdown"
    for step, minutes in ((1, 3), (2, 3), (3, 12)):
        run.says("i-a", "progress", step=step, slow={"i-b": "slow"}, degraded={"i-b": said.format(minutes)})
    assert run.row("run")["findings"] == {"slow i-b": "slow", "gpu i-b": said.format(12)}
    entries = [row for (pk, _), row in run.account.table.items() if pk == "timeline#r"]
    assert [each["reason"] for each in entries if each["event"] == "slow host"] == ["slow", said.format(3)]


XID = "a GPU of this host (PCI:0000:00:1e) reports Xid 79: the GPU has fallen off the bus"


def test_a_host_with_a_fault_of_its_hardware_is_given_up_and_quarantined_for_a_day(run: Run) -> None:
    for _ in range(2):  # the signal may arrive twice
        run.says("i-b", "failed", kind="hardware", reason=XID, final=False)
    assert {run.row("host#i-b")[key] for key in ("lost", "faulty")} == {XID}
    row = run.account.table["quarantine", "i-b"]
    assert (row["reason"], row["run"], row["until"]) == (XID, "r", "2026-11-21T12:00:00.000Z")
    (finding,) = run.row("run")["findings"].values()
    assert finding.startswith(f"i-b is terminated and not used again: {XID}; ")
    assert finding.endswith(" is tried last until 2026-11-21 12:00 UTC")
    (_, _, said), *_ = run.account.answered
    assert (said["error"], json.loads(said["cause"])["lost"]) == ("HardwareFailed", ["i-b"])
    entries = [row for (pk, _), row in run.account.table.items() if pk == "timeline#r"]
    assert [row["reason"] for row in entries if row["event"] == "quarantined"] == [finding]


@pytest.mark.parametrize(
    ("sender", "said"),
    [
        ("i-b", {"instance": "i-a"}),
        ("i-stranger", {"instance": "i-a"}),
        ("i-other", {"instance": "i-other"}),
        ("i-nobodys", {"instance": "i-nobodys"}),
    ],
    ids=["for a host of its own gang", "for a host of another run", "of another run", "of any run"],
)
@pytest.mark.parametrize("word", ["finished", "failed", "stopped", "ready", "progress", "checkpointed"])
def test_a_host_speaks_for_itself_and_of_its_run_alone(
    run: Run, log: Log, word: str, sender: str, said: dict[str, Any]
) -> None:
    run.account.table["instance#i-other", "run"] = {"run": "another", "attempt": 2}
    before = copy.deepcopy(run.account.table)
    detail = {"run": "r", "attempt": 2, "at": AT, "kind": "host", "reason": "r", "step": 9, **said}
    event = {"source": f"trainyard.host/AROA:{sender}", "detail-type": word, "detail": detail}
    assert signal.handler(event, CONTEXT) == {"result": "not about this yard"}
    assert (run.account.table, run.account.answered) == (before, [])
    counted = [line for line in log.lines() if "ForgedSignals" in line]
    assert len(counted) == (sender != "i-nobodys"), "a host without a run is foreign"


def test_each_attempt_keeps_how_far_it_came(run: Run) -> None:
    run.says("i-a", "progress", step=40, steps=100, resumed={"step": 30})
    run.says("i-a", "checkpointed", step=45, key="k")
    run.says("i-a", "progress")
    assert [run.row("attempt#0002")[key] for key in ("reported", "checkpointed", "resumed")] == [
        40,
        45,
        {"step": 30},
    ]
    assert "reported" not in run.row("attempt#0001")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("finished", {}),
        ("failed", {"kind": "program", "reason": "ValueError"}),
        ("stopped", {"why": "interrupted"}),
    ],
)
def test_where_an_attempt_went_on_is_known_though_its_last_word_is_heard_before_its_progress(
    run: Run, word: str, said: dict[str, Any]
) -> None:
    """Two events are two invocations, and either may meet a cold start."""
    resumed = {"step": 30, "verified": True}
    run.says("i-a", word, step=41, resumed=resumed, **said)
    run.says("i-a", "progress", step=40, resumed=resumed)
    assert run.row("attempt#0002")["resumed"] == resumed


def test_how_a_host_left_is_told_though_the_next_attempt_has_begun(run: Run) -> None:
    """Two events are two invocations: the next attempt's may be the first that is handled."""
    assert "after the end of attempt 1" in run.says("i-a", "stopped", attempt=1, step=30, why="asked")
    assert (run.row("host#i-a")["stopped"], run.row("host#i-a")["why"]) == (1, "asked")
    (told,) = [row for (pk, _), row in run.account.table.items() if pk.startswith("timeline#")]
    assert (told["event"], told["attempt"], told["instance"]) == ("stopped", 1, "i-a")
    assert run.account.answered == []


def test_a_host_that_waited_for_the_next_attempt_has_no_part_in_it_to_leave(run: Run) -> None:
    """EC2 takes the host back before the attempt has begun, so its signals about that attempt are ignored."""
    before = copy.deepcopy(run.account.table)
    assert (
        run.says("i-b", "stopped", attempt=3, step=None, why="interrupted") == "not a host of a live attempt"
    )
    assert run.account.table == before


def test_what_is_heard_late_takes_nothing_back(run: Run) -> None:
    run.says("i-a", "stopped", step=60, why="asked")
    run.says("i-a", "stopped", attempt=1, step=30, why="peer")
    assert (run.row("host#i-a")["stopped"], run.row("host#i-a")["why"]) == (2, "asked")
    run.row("run")["ended"] = AT
    before = copy.deepcopy(run.account.table)
    run.says("i-b", "stopped", attempt=1, step=30, why="peer")
    assert run.account.table == before


def news_of_it() -> None:
    signal.handler(
        {
            "source": "aws.ec2",
            "detail-type": "EC2 Instance State-change Notification",
            "detail": {"instance-id": "i-b", "state": "terminated"},
        },
        CONTEXT,
    )


def test_a_loss_that_became_nan_is_in_the_row_as_a_text(run: Run) -> None:
    run.put("attempt#0002", chief="i-a")
    run.put("host#i-a", role="chief", index=0)
    run.says("i-a", "progress", step=330, loss="NaN", nan_since=320)
    progress = run.row("run")["progress"]
    assert (progress["loss"], progress["nan_since"]) == ("NaN", 320)
    run.says("i-a", "finished", step=400, loss="-Infinity", nan_since=320)
    progress = run.row("run")["progress"]
    assert (progress["step"], progress["loss"], progress["nan_since"]) == (400, "-Infinity", 320)


def test_every_line_names_the_run_that_the_news_are_about(run: Run, log: Log) -> None:
    """Hosts name their run; events of AWS are matched by the look-up row."""
    run.account.table["instance#i-b", "run"] = {"pk": "instance#i-b", "sk": "run", "run": "r", "attempt": 2}
    run.says("i-a", "progress", step=40, steps=100)
    news_of_it()
    lines = [line for line in log.lines() if "_aws" not in line]
    assert len(lines) >= 2
    assert {(line["run"], line["attempt"]) for line in lines} == {("r", 2)}, lines


@pytest.mark.parametrize(
    ("sender", "word", "wrong"),
    [("i-a", "no-such-word", {}), ("i-b", "progress", {"step": 3}), ("i-a", "ready", {"attempt": "two"})],
)
def test_every_line_about_news_that_are_ignored_names_the_run_that_they_name(
    run: Run, log: Log, sender: str, word: str, wrong: dict[str, Any]
) -> None:
    detail = {"run": "r", "attempt": 2, "instance": "i-a", "at": "2026-11-20T12:00:00.000Z", **wrong}
    signal.handler(
        {"source": f"trainyard.host/AROA:{sender}", "detail-type": word, "detail": detail}, CONTEXT
    )
    lines = [line for line in log.lines() if "_aws" not in line]
    assert lines
    assert {line["run"] for line in lines} == {"r"}


def a_look_at_it() -> None:
    await_hosts.handler({"run": "r", "attempt": 2, "task_token": "t"}, CONTEXT)


@pytest.mark.parametrize("hears", [news_of_it, a_look_at_it])
@pytest.mark.parametrize(
    ("why", "error"),
    [
        ("Client.InternalError: Client error on launch", "Misconfigured"),
        ("Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state", "Misconfigured"),
        ("Server.InternalError: The host of the instance failed", "HostLost"),
    ],
)
def test_a_host_that_ec2_could_not_start_is_no_loss_that_another_attempt_mends(
    run: Run, monkeypatch: pytest.MonkeyPatch, why: str, error: str, hears: Callable[[], None]
) -> None:
    run.account.table["instance#i-b", "run"] = {
        "pk": "instance#i-b", "sk": "run", "run": "r", "attempt": 2,
    }  # fmt: skip
    ended = Instance(
        "i-b", "g6.xlarge", "a", Market.SPOT, "terminated", why, None, NOON, "ami-1", {}
    )  # fmt: skip
    monkeypatch.setattr(instances, "find_by_id", lambda _: (ended,))
    monkeypatch.setattr(SignalContext, "order_to_stop", lambda *_, **__: True)
    monkeypatch.setattr(s3, "get_json", lambda *_: None)
    hears()
    (said, *_) = (answer for _, _, answer in run.account.answered)
    assert said["error"] == error
    reason = json.loads(said["cause"])["reason"]
    assert (f"EC2 could not start i-b: {why}" in reason) == (error == "Misconfigured")


@pytest.mark.parametrize(
    ("word", "told"),
    [("start", [Order(OrderKind.STOP, "r", 1, ("i-b",))]), ("stop", [])],
    ids=["start", "stop"],
)
def test_who_stays_in_an_attempt_that_ended_as_it_was_started_is_called_back(
    word: str, told: list[Order], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first waiting host causes the order. A host that has the order gets no second one."""
    given: list[Order] = []
    monkeypatch.setattr(orders, "give", lambda order, **_: given.append(order))
    last = s3.Tagged(json.dumps({"run": "r", "attempt": 1, "kind": word}).encode(), "etag")
    monkeypatch.setattr(s3, "get_tagged", lambda *_: last)
    del run.account.table["run#r", "token#0002#train"]
    run.put("token#0001#train", token="was", stored=AT, answered=AT)
    run.put("token#0002#await_hosts", token="waits", stored=AT)
    run.put("host#i-b", ready=1)
    run.says("i-a", "ready", address="10.0.0.4")
    assert given == told


@pytest.mark.parametrize(("ending", "events"), [("finished", []), ("failed", ["ready"])])
def test_a_host_that_waits_after_the_last_attempt_is_not_said_to_be_ready(
    ending: str, events: list[str], run: Run
) -> None:
    """After a failure there may be another attempt, and the host is ready for it."""
    run.put("attempt#0002", ending=ending, ended=AT)
    run.put("host#i-a", ready=2)
    run.says("i-a", "ready", attempt=3, address="10.0.0.4")
    found = [row["event"] for (pk, _), row in run.account.table.items() if pk == "timeline#r"]
    assert found == events
