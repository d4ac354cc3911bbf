"""The results of a run: in the bucket, in the ledger, and in notifications."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambdas import environment
from lambdas.aws import messages, s3, states
from lambdas.steps import conclusion, end_notification
from lambdas.steps.conclusion import RunEnd
from lambdas.workflows.train import conclude
from lambdas.workflows.train.conclude import ConcludeSettings
from tests.support.recorded import CONTEXT, Recorded, answering
from tests.unit.core.builders import admitted
from tests.unit.workflows.conftest import Log
from trainyard.core.model.errors import AccessDenied
from trainyard.protocol.serving import REFUSAL, REFUSED
from trainyard.values import serialization

AT = "2026-11-20T12:00:00.000Z"
FINISHED = {"kind": "finished", "reason": "the program finished at step 40"}
NO_IMAGE = {
    "error": "ImageFailed",
    "cause": json.dumps({"errorMessage": "EC2 could not make ami-1: no room"}),
}


class Run:
    """A run of one host whose only attempt has trained."""

    def __init__(self, account: Recorded) -> None:
        self.account = account
        self.put("run", kind="train", state="Release", attempt=1, created=AT, execution_arn="arn")
        self.put("attempt#0001", candidate={"pool": "p"}, hosts=["i-a"], launched=AT, started=AT)
        self.put(
            "host#i-a",
            attempt=1,
            type="g6.xlarge",
            zone="a",
            market="spot",
            price=Decimal(1),
            launched=AT,
            ended="2026-11-20T13:00:00.000Z",
        )
        account.table["open", "r"] = {"pk": "open", "sk": "r", "kind": "train", "execution_arn": "arn"}

    def put(self, sk: str, **values: Any) -> None:
        self.account.table.setdefault(("run#r", sk), {"pk": "run#r", "sk": sk}).update(values)

    def finishes(self) -> None:
        self.put("attempt#0001", ending="finished", ended=AT, to_step=40, reported=5)

    def row(self, sk: str) -> dict[str, Any]:
        return self.account.table["run#r", sk]

    def would_end(self, **given: Any) -> dict[str, Any]:
        """Return the answer and summary of a run that no Conclude has ended."""
        answer = self.ends(**given)
        del self.account.objects["runs/r/summary.json"]
        return answer

    def ends(self, **given: Any) -> dict[str, Any]:
        """Return the answer and the summary."""
        answer = conclude.handler({"run": "r", "execution": "arn", "outcome": FINISHED, **given}, CONTEXT)
        summary = json.loads(self.account.objects["runs/r/summary.json"])
        return {**answer, "summary": summary}

    @property
    def timeline(self) -> list[str]:
        lines = self.account.objects["runs/r/timeline.jsonl"].decode().splitlines()
        return [f"{entry['event']}: {entry['reason']}" for entry in map(json.loads, lines)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    yard = ConcludeSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        topic_arn="arn:aws:sns:us-east-1:1:n",
        version_state_machine_arn="arn:version",
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)
    with answering(Recorded(hosts={})) as account:
        yield Run(account)


def test_a_run_that_ends_is_open_no_more(run: Run) -> None:
    run.finishes()
    assert run.ends()["outcome"] == "succeeded"
    assert ("open", "r") not in run.account.table
    assert run.row("run")["outcome"] == "succeeded"


def test_an_image_that_fails_is_said_beside_training_that_finished(run: Run) -> None:
    run.finishes()
    run.put("run", warnings=["it uses tf.Session"])
    ended = run.ends(unimaged=NO_IMAGE)
    assert (ended["outcome"], ended["error"]) == ("succeeded", None)
    first, second = ended["summary"]["warnings"]
    assert (first, "no room" in second) == ("it uses tf.Session", True)
    assert run.row("run")["warnings"] == [first, second]
    assert f"warning: {second}" in run.timeline
    ((subject, text),) = run.account.notices
    assert subject == "Trainyard: r finished"
    assert f"Warning: {second}" in text


def test_what_speaks_against_a_success_is_said_wherever_people_look(run: Run) -> None:
    run.finishes()
    run.put(
        "attempt#0001", but=["its last lines are an uncaught exception (ValueError: no)", "1 process ran"]
    )
    ended = run.ends()
    reason = (
        "the program finished, but its last lines are an uncaught exception (ValueError: no); 1 process ran"
    )
    assert (ended["outcome"], ended["reason"]) == ("succeeded", reason)
    assert ended["summary"]["but"] == run.row("attempt#0001")["but"]
    assert run.row("run")["reason"] == reason
    assert f"succeeded: {reason}" in run.timeline
    ((subject, text),) = run.account.notices
    assert subject == "Trainyard: r finished, but ..."
    assert "  its last lines are an uncaught exception (ValueError: no)\n" in text


def test_of_a_run_that_failed_afterwards_nothing_of_that_is_said(run: Run) -> None:
    run.finishes()
    run.put("attempt#0001", but=["1 process ran"])
    assert run.ends(unreleased={"error": "AccessDenied", "cause": "no"})["summary"]["but"] == []


def test_what_is_left_of_such_an_image_is_said_too(run: Run) -> None:
    run.finishes()
    ended = run.ends(unimaged=NO_IMAGE, undone={"error": "AccessDenied", "cause": "ec2:DeregisterImage"})
    assert ended["outcome"] == "succeeded"
    assert "could not be undone: ec2:DeregisterImage" in ended["summary"]["warnings"][1]


def test_hosts_that_run_on_fail_the_run_whatever_became_of_its_image(run: Run) -> None:
    run.finishes()
    ended = run.ends(unimaged=NO_IMAGE, unreleased={"error": "AccessDenied", "cause": "no"})
    assert (ended["outcome"], ended["error"]) == ("failed", "AccessDenied")


def test_a_run_that_fails_after_its_program_finished_has_its_steps_and_metrics(run: Run) -> None:
    run.finishes()
    run.account.objects["runs/r/metrics.json"] = json.dumps({"step": 40, "accuracy": 0.9}).encode()
    ended = run.ends(unreleased={"error": "ServiceUnavailable", "cause": "no"})
    assert ended["outcome"] == "failed"
    assert ended["summary"]["steps"]["done"] == 40
    assert ended["summary"]["metrics"] == {"step": 40, "accuracy": 0.9}


def test_the_attempt_of_an_execution_that_was_stopped_has_ended_too(run: Run) -> None:
    ended = run.ends(cut_short=True, outcome={"kind": "error", "error": "Aborted", "reason": "by hand"})
    (attempt,) = ended["summary"]["attempts"]
    assert (attempt["ending"], attempt["reason"]) == ("aborted", "by hand")
    assert attempt["ended"] == run.row("attempt#0001")["ended"] == ended["summary"]["ended"]


def is_asking(run: Run, ago: timedelta, **answer: Any) -> None:
    at = (datetime.now(UTC) - ago).isoformat()
    run.put("launch-request#0001#000#000", attempt=1, candidate=0, round=0, token="t", at=at, **answer)


@pytest.mark.parametrize(
    ("ago", "answer", "is_concluded"),
    [
        (timedelta(seconds=2), {}, False),
        (timedelta(seconds=2), {"answer": "launched"}, True),
        (timedelta(minutes=2), {}, True),
    ],
    ids=["Launch asks still", "Launch has its answer", "Launch died"],
)
def test_a_stopped_run_is_concluded_once_launch_has_its_answer(
    run: Run, ago: timedelta, answer: dict[str, str], *, is_concluded: bool
) -> None:
    is_asking(run, ago, **answer)
    given = {
        "run": "r",
        "execution": "arn",
        "cut_short": True,
        "outcome": {"kind": "error", "error": "Aborted"},
    }
    said = conclude.handler(given, CONTEXT)
    assert (said["kind"] != "not concluded") is is_concluded
    assert ("runs/r/summary.json" in run.account.objects) is is_concluded
    assert (("open", "r") in run.account.table) is not is_concluded, "patrol concludes what is open"
    assert "cut_short" in run.row("run"), "Launch asks for no more"


def test_an_attempt_that_ended_before_keeps_its_end(run: Run) -> None:
    run.finishes()
    run.ends(outcome={"kind": "error", "error": "HostLost", "cause": "gone"})
    assert (run.row("attempt#0001")["ending"], run.row("attempt#0001")["ended"]) == ("finished", AT)


def leaves_a_checkpoint(run: Run, of: str = "r") -> None:
    folder = f"runs/{of}/checkpoints/"
    latest = {"step": 40, "key": f"{folder}00000040/", "before": []}
    manifest = {"files": {"last.ckpt": [2, 0, 420, "00000040/last.ckpt"]}, "links": {}, "folders": {}}
    run.account.objects["runs/r/checkpoints/latest.json"] = json.dumps(latest).encode()
    run.account.objects[f"{folder}00000040.json"] = json.dumps(manifest).encode()
    run.account.objects[f"{folder}00000040/last.ckpt"] = b"{}"


ENDS = [
    ("a loss of hosts", {"kind": "error", "error": "HostLost", "cause": "gone"}),
    ("a crash of a function", {"kind": "error", "error": "Runtime.ExitError", "cause": "{}"}),
    ("no room", {"kind": "stop", "error": "NoCapacity", "reason": "every pool refused"}),
    (
        "a program that speaks of another run's",
        {"kind": "error", "error": "ProgramError", "cause": "checkpoints.resume: other-run has no step 7"},
    ),
    ("an execution that was stopped", {"kind": "error", "error": "Aborted", "reason": "by hand"}),
]


@pytest.mark.parametrize("outcome", [row[1] for row in ENDS], ids=[row[0] for row in ENDS])
def test_an_end_that_is_no_success_says_once_how_to_go_on_from_the_checkpoint(
    run: Run, outcome: dict[str, Any]
) -> None:
    assert "checkpoints.resume: r" not in run.would_end(outcome=outcome)["summary"]["reason"]
    leaves_a_checkpoint(run)
    said = run.ends(outcome=outcome)
    assert said["summary"]["reason"].count("checkpoints.resume: r") == 1
    assert said["reason"] == said["summary"]["reason"]


@pytest.mark.parametrize(
    ("outputs", "says"), [({}, True), ({"restore": False}, False), ({"keep": False}, False)]
)
def test_an_end_without_a_checkpoint_says_how_to_continue_from_outputs_that_a_run_restores(
    run: Run, outputs: dict[str, Any], says: bool
) -> None:
    job = json.loads(json.dumps(serialization.to_json(admitted(outputs=outputs))), parse_float=Decimal)
    run.put("run", job=job)
    lost = {"kind": "error", "error": "HostLost", "cause": "gone"}
    assert "checkpoints.resume" not in run.would_end(outcome=lost)["reason"]
    run.account.objects["runs/r/outputs/last.ckpt"] = b"{}"
    line = "To continue from its outputs, start a job with checkpoints.resume: r"
    assert (line in run.would_end(outcome=lost)["summary"]["reason"].splitlines()) is says
    leaves_a_checkpoint(run)
    reason = run.ends(outcome=lost)["reason"]
    assert reason.count("checkpoints.resume: r") == 1
    assert "its last checkpoint" in reason


@pytest.mark.parametrize("of", ["r", "earlier"])
@pytest.mark.parametrize("gone", ["00000040/last.ckpt", "00000040.json"])
def test_no_end_advises_to_resume_a_run_whose_checkpoint_is_gone(run: Run, of: str, gone: str) -> None:
    """A resumed run starts with the catalogue of the other run, which may have pruned some of the files in it."""
    leaves_a_checkpoint(run, of)
    lost = {"kind": "error", "error": "HostLost", "cause": "gone"}
    assert "checkpoints.resume: r" in run.would_end(outcome=lost)["reason"]
    del run.account.objects[f"runs/{of}/checkpoints/{gone}"]
    assert "checkpoints.resume" not in run.would_end(outcome=lost)["reason"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"key": 5}', '{"key": "runs/r/"}', '{"key": "jobs/a/b"}'])
def test_what_a_program_writes_into_its_catalogue_fails_no_conclude(run: Run, text: str) -> None:
    run.account.objects["runs/r/checkpoints/latest.json"] = text.encode()
    run.account.objects["runs/r.json"] = b'{"files": [1]}'
    assert "checkpoints.resume" not in run.ends(outcome={"kind": "error", "error": "HostLost"})["reason"]


def sent(run: Run) -> list[str]:
    return [subject for subject, _ in run.account.notices]


def test_two_concludes_send_one_notification(run: Run) -> None:
    run.finishes()
    run.ends()
    run.ends()
    run.ends(outcome={"kind": "error", "error": "Aborted", "reason": "by hand"}, cut_short=True)
    assert sent(run) == ["Trainyard: r finished"]
    assert run.row("run")["notified"]


def test_the_loser_of_two_concludes_says_nothing(run: Run) -> None:
    """Another call wrote the end and sends the notification."""
    stopped = {"outcome": "stopped", "error": "Stopped", "reason": "alice has stopped it"}
    run.put("run", ended=AT, **stopped, notifying=AT)
    run.account.objects["runs/r/summary.json"] = json.dumps(
        {**stopped, "created": AT, "ended": AT, "execution_arn": "arn"}
    ).encode()
    run.finishes()
    assert run.ends()["outcome"] == "stopped"
    assert sent(run) == []
    assert run.row("run")["outcome"] == "stopped"


def test_the_loser_of_two_concludes_leaves_the_summary_and_ends_the_run_as_it_says(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call dies after its summary, or is slow; the second call follows because the run was stopped."""
    run.finishes()
    stock = RunEnd.write
    monkeypatch.setattr(RunEnd, "write", lambda *_, **__: False)
    first = run.ends()
    monkeypatch.setattr(RunEnd, "write", stock)
    monkeypatch.setattr(conclusion, "clock", lambda: datetime(2026, 11, 21, tzinfo=UTC))
    second = run.ends(outcome={"kind": "error", "error": "Aborted", "reason": "by hand"}, cut_short=True)
    assert (first["outcome"], second) == ("succeeded", first)
    row = run.row("run")
    assert (row["outcome"], row["ended"]) == ("succeeded", first["summary"]["ended"])
    assert run.timeline[-1].startswith("succeeded: ")
    assert sent(run) == ["Trainyard: r finished"]


def test_a_notification_that_cannot_be_sent_changes_no_end_and_is_sent_later(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: str) -> None:
        raise AccessDenied("sns:Publish is not allowed")

    run.finishes()
    with monkeypatch.context() as patch:
        patch.setattr(messages, "publish", denied)
        assert run.ends()["outcome"] == run.row("run")["outcome"] == "succeeded"
        assert run.account.table["open", "r"] == {
            "pk": "open",
            "sk": "r",
            "kind": "train",
            "execution_arn": "arn",
        }
        (warned,) = [row for row in run.account.table.values() if row.get("event") == "warning"]
        assert "sns:Publish is not allowed" in warned["reason"]
        passes(run, monkeypatch, minutes=5)
        with pytest.raises(AccessDenied):
            patrolled(run)
    passes(run, monkeypatch, minutes=10)
    patrolled(run)
    patrolled(run)
    assert sent(run) == ["Trainyard: r finished"]
    assert ("open", "r") not in run.account.table


@pytest.mark.parametrize(("minutes", "times"), [(0, 0), (2, 0), (4, 1)])
def test_a_conclude_that_dies_before_it_sends_is_followed_by_another(
    run: Run, monkeypatch: pytest.MonkeyPatch, minutes: int, times: int
) -> None:
    """A call that may still be sending is not repeated."""

    def dies(*_: str) -> None:
        raise KeyboardInterrupt

    run.finishes()
    with monkeypatch.context() as patch:
        patch.setattr(messages, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            run.ends()
    passes(run, monkeypatch, minutes=minutes)
    patrolled(run)
    assert len(sent(run)) == times
    assert (("open", "r") in run.account.table) is not bool(times)


def passes(run: Run, monkeypatch: pytest.MonkeyPatch, *, minutes: int) -> None:
    later = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr(end_notification, "clock", lambda: later)


def patrolled(run: Run) -> None:
    cut = {"kind": "error", "error": "Aborted", "reason": "nothing says how it ended"}
    answer = conclude.handler({"run": "r", "execution": "arn", "outcome": cut, "cut_short": True}, CONTEXT)
    assert answer == {"kind": "not concluded", "reason": "r was concluded before"}


def test_a_success_says_nothing_of_its_checkpoint(run: Run) -> None:
    run.finishes()
    leaves_a_checkpoint(run)
    assert "checkpoints.resume" not in run.ends()["reason"]


def test_a_run_that_admit_writes_while_its_stopped_execution_is_concluded_stays_open_for_patrol(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {key: run.account.table.pop(key) for key in (("run#r", "run"), ("open", "r"))}
    run.account.table.clear()
    put = s3.put

    def admit_writes(*given: Any, **more: Any) -> Any:
        run.account.table.update(rows)
        return put(*given, **more)

    cut = {"kind": "error", "error": "Aborted", "reason": "stopped by hand while it was admitted"}
    with monkeypatch.context() as patch:
        patch.setattr(s3, "put", admit_writes)
        run.ends(outcome=cut, cut_short=True)
    assert "ended" not in run.row("run")
    assert ("open", "r") in run.account.table, "patrol concludes the runs in this list"
    run.ends(outcome=cut, cut_short=True)
    assert run.row("run")["outcome"] == "failed"
    assert ("open", "r") not in run.account.table


def test_a_run_that_admit_writes_after_the_conclusion_of_its_stopped_execution_is_told_once(run: Run) -> None:
    rows = {key: run.account.table.pop(key) for key in (("run#r", "run"), ("open", "r"))}
    run.account.table.clear()
    cut = {"kind": "error", "error": "Aborted", "reason": "stopped by hand while it was admitted"}
    run.ends(outcome=cut, cut_short=True)
    run.account.table.update(rows)
    run.ends(outcome=cut, cut_short=True)
    assert run.row("run")["outcome"] == "failed"
    assert sent(run) == ["Trainyard: r failed"]


def test_a_run_without_a_row_is_open_no_more(run: Run) -> None:
    """A user has deleted its row, and a late update has written a part of it again."""
    run.account.table["run#r", "run"] = {"pk": "run#r", "sk": "run", "attempt": 1}
    run.ends(outcome={"kind": "error", "error": "Aborted", "reason": "by hand"}, cut_short=True)
    assert {("open", "r"), ("run#r", "run")} & run.account.table.keys() == set()


@pytest.mark.parametrize(
    ("sentence", "code", "line", "is_refused"),
    [
        ("an answer differs", REFUSED, f"{REFUSAL}version 2 of text differs: row 0, y", True),
        ("the program has an error of its own", 1, "ValueError: no", False),
        ("another program ends with this code", REFUSED, "no such data", False),
    ],
)
def test_a_version_that_its_host_does_not_serve_is_refused_with_the_hosts_reason(
    run: Run, sentence: str, code: int, line: str, is_refused: bool
) -> None:
    version = {
        "number": 2,
        "label": "v2",
        "state": "ready",
        "by": "ada",
        "at": AT,
        "request": "r",
        "origin": "s3://b/",
    }
    key = ("model#text", "version#00002")
    run.account.table[key] = {"pk": key[0], "sk": key[1], **version}
    job = json.dumps(serialization.to_json(admitted(cluster={"strategy": "single", "workers": 1})))
    served = {"model": "text", "number": 2, "submitter": "ada"}
    run.put("run", job=json.loads(job, parse_float=Decimal), serves=served)
    cause = {"reason": f"exit code {code}", "tail": f"loading\n{line}\n", "exit_code": code}
    run.put("attempt#0001", ending="failed", ended=AT, error="ProgramFailed", cause=json.dumps(cause))
    outcome = {"kind": "stop", "error": "ProgramFailed", "reason": "Attempt 1 failed"}
    for _ in range(2):  # a repeated call gives the same end
        ended, row = run.ends(outcome=outcome), run.account.table[key]
        assert row["state"] == ("refused" if is_refused else "ready"), sentence
        assert row.get("reason") == (line.removeprefix(REFUSAL) if is_refused else None), sentence
        assert ended["error"] == ("ModelRefused" if is_refused else "ProgramFailed"), sentence
        assert ("version 2 of text is refused by its host" in ended["reason"]) is is_refused, sentence


def test_a_run_that_was_cut_short_is_counted_once(run: Run, log: Log) -> None:
    aborted = {"kind": "error", "error": "Aborted", "reason": "stopped by hand"}
    run.ends(outcome=aborted, cut_short=True)
    assert log.metrics() == {"RunsCutShort": [1.0], "RunsFailed": [1.0]}
    run.ends(outcome=aborted, cut_short=True)
    assert log.metrics() == {}


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        ("JobRefused", False),
        ("ProgramFailed", False),
        ("BudgetSpent", False),
        ("QuotaExceeded", False),
        ("AccessDenied", True),
        ("HostLost", True),
        ("KeyError", True),
    ],
)
def test_a_run_that_failed_is_the_operators_matter_only_if_its_user_is_not_the_cause(
    run: Run, log: Log, error: str, counted: bool
) -> None:
    run.ends(outcome={"kind": "error", "error": error, "reason": "so it went"})
    assert ("RunsFailed" in log.metrics()) is counted


def test_what_recoveries_took_is_told_when_the_run_is_over(run: Run, log: Log) -> None:
    run.put("attempt#0001", ending="lost", ended="2026-11-20T12:10:00.000Z")
    again = {"candidate": {"pool": "p"}, "hosts": ["i-a"], "launched": "2026-11-20T12:11:00.000Z"}
    run.put("attempt#0002", **again, started="2026-11-20T12:13:30.000Z", ending="finished", ended=AT)
    run.ends()
    assert log.metrics() == {"SecondsLost": [210.0]}
    run.ends()
    assert log.metrics() == {}


def test_of_several_hosts_that_failed_the_one_that_tells_most_is_the_reason(run: Run) -> None:
    cluster = {"strategy": "multi_worker", "workers": 2}
    job = json.dumps(serialization.to_json(admitted(cluster=cluster)))
    run.put("run", job=json.loads(job, parse_float=Decimal))
    row = {**run.row("host#i-a"), "sk": "host#i-b"}
    run.put("host#i-b", **{key: value for key, value in row.items() if key not in ("pk", "sk")})
    cause = json.dumps({"reason": "AbortedError: a peer", "exit_code": 1})
    run.put("attempt#0001", hosts=["i-a", "i-b"], ending="failed", error="ProgramFailed", cause=cause)
    for instance, reason, advised in (
        ("i-b", "AbortedError: a peer", False),
        ("i-a", "URL fetch failure on https://x; put it into the bucket", True),
    ):
        said = {
            "run": "r",
            "attempt": 1,
            "instance": instance,
            "at": AT,
            "signal": "failed",
            "kind": "program",
        }
        said |= {"reason": reason, "tail": f"last lines of {instance}", "exit_code": 1, "advised": advised}
        key = f"runs/r/attempts/1/signals/AROA:{instance}.json"
        run.account.objects[key] = json.dumps(said).encode()
    reason = run.ends(outcome={"kind": "stop", "error": "ProgramFailed", "reason": "Attempt 1 failed"})[
        "reason"
    ]
    assert "chief-0: URL fetch failure on https://x; put it into the bucket" in reason
    assert "worker-1: AbortedError: a peer" in reason
    assert reason.endswith("The program's last lines:\nlast lines of i-a")


def test_where_one_host_alone_failed_the_reason_is_recovers(run: Run) -> None:
    job = json.dumps(serialization.to_json(admitted(cluster={"strategy": "single", "workers": 1})))
    run.put("run", job=json.loads(job, parse_float=Decimal))
    run.put(
        "attempt#0001", ending="failed", error="ProgramFailed", cause=json.dumps({"reason": "ValueError"})
    )
    outcome = {"kind": "stop", "error": "ProgramFailed", "reason": "Attempt 1 failed: as Recover has said"}
    assert run.ends(outcome=outcome)["reason"] == "Attempt 1 failed: as Recover has said"


@pytest.mark.parametrize(
    "outcome", [FINISHED, {"kind": "stop", "error": "ProgramFailed", "reason": "lr too high"}]
)
def test_a_trial_of_any_outcome_ends_its_execution_well_and_without_a_notification(
    run: Run, outcome: dict[str, Any]
) -> None:
    run.put("run", trial={"study": "digits-0a1b2c3d", "number": 2, "submitter": "ada"})
    ended = run.ends(outcome=outcome)
    assert ended["ends_as"] == "succeeded"
    assert ended["outcome"] == ("succeeded" if outcome is FINISHED else "failed")
    assert run.account.notices == []
    assert ("open", "r") not in run.account.table
    conclude.handler({"run": "r", "execution": "arn", "outcome": outcome, "cut_short": True}, CONTEXT)
    assert run.account.notices == []


@pytest.mark.parametrize(
    ("when", "trial", "begins"),
    [
        (None, False, True),
        ("accuracy >= 0.9", False, True),
        ("accuracy >= 0.99", False, False),
        ("recall > 0", False, False),
        (None, True, False),
    ],
)
def test_a_successful_run_asks_for_its_version_once_if_the_metrics_meet_the_condition(
    run: Run, monkeypatch: pytest.MonkeyPatch, when: str | None, trial: bool, begins: bool
) -> None:
    begun: dict[str, Any] = {}
    monkeypatch.setattr(states, "start", lambda machine, name, given: begun.setdefault(name, given))
    run.finishes()
    after = {"model": {"name": "digits", "alias": "candidate", "when": when}}
    job = json.loads(json.dumps(serialization.to_json(admitted(after=after))), parse_float=Decimal)
    run.put("run", job=job, submitter="ada")
    if trial:
        run.put("run", trial={"study": "digits-0a1b2c3d", "number": 2, "submitter": "ada"})
    run.account.objects["runs/r/metrics.json"] = b'{"accuracy": 0.95}'
    warnings = run.ends()["summary"]["warnings"]
    run.ends()
    assert len(begun) == begins
    assert bool(warnings) is not (begins or trial)
    for name, given in begun.items():
        assert name.startswith("model-digits-20261120T120000-")
        assert given["by"] == "ada"
        asked = ("version", "digits", "candidate", "r")
        assert tuple(given["request"][key] for key in ("act", "model", "alias", "origin")) == asked
