"""Unusual ends of programs: exit code 0 after an interruption, a kill by itself, processes that still run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.published import script
from tests.e2e.runs import Runs
from tests.support.webhook_receiver import Receiver
from trainyard.client import Run, webhooks
from trainyard.protocol.webhooks import Webhook, WebhookKind


def a_job(runs: Runs, name: str, **program: Any) -> dict[str, Any]:
    job = script(runs, name) | {"name": "endings"}
    job["program"] = {"source": job["program"]["source"], **program}
    return job


RECEIVER = "endings-receiver"


@pytest.fixture
def receiver(runs: Runs) -> Iterator[Receiver]:
    """Return a server that gets the notifications of runs whose job names the webhook `endings`."""
    session = runs.yard.session
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    made = session.client("iam").create_role(RoleName=RECEIVER, AssumeRolePolicyDocument=document)
    server = Receiver.make(session.client("lambda"), RECEIVER, made["Role"]["Arn"])
    hook = Webhook(kind=WebhookKind.URL, url=f"{server.url}/hook", key=webhooks.make_key(), named_only=True)
    webhooks.add(runs.yard, "endings", hook)
    yield server
    webhooks.remove(runs.yard, "endings")
    session.client("lambda").delete_function(FunctionName=RECEIVER)
    session.client("iam").delete_role(RoleName=RECEIVER)


def test_a_program_that_saves_and_ends_with_0_goes_on_where_it_was_interrupted(
    runs: Runs, receiver: Receiver
) -> None:
    assert webhooks.test(runs.yard, "endings") == ""
    run = runs.in_mid_training(script(runs, "saves_and_ends_with_0") | {"notify": ["url:endings"]})
    runs.cloud.fault("interrupt", runs.host_of(run, "chief"))
    runs.finish(run)
    assert run.succeeded, run.why()
    assert [attempt["ending"] for attempt in run.summary["attempts"]] == ["interrupted", "finished"]
    assert "starting at 0" not in run.log(attempt=2)
    assert "trained to the end" in run.log(attempt=2)
    runs.until("the notification of the end", lambda: len(receiver.taken) >= 3)
    _test, *told = [json.loads(each["body"]) for each in receiver.requests]
    assert [(each["type"], each["data"]["run"]) for each in told] == [
        ("interruption", run.id),
        ("end", run.id),
    ]


def test_one_that_a_person_stops_has_been_stopped(runs: Runs) -> None:
    run = runs.in_mid_training(script(runs, "saves_and_ends_with_0"))
    run.stop()
    runs.finish(run)
    assert run.summary["outcome"] == "stopped"


ENDINGS = [
    # the argument and a part of the reason
    ("kills itself", "ended by SIGKILL, which neither this host's agent nor the kernel"),
    ("alarm", "ended by SIGALRM, an alarm that it had set itself; its last line: step 1"),
    ("split", "its last line: --split must be train or test"),
]


@pytest.mark.parametrize(("how", "reason"), ENDINGS, ids=[row[0] for row in ENDINGS])
def test_a_programs_own_end_is_reported_once(runs: Runs, how: str, reason: str) -> None:
    run = runs.run(a_job(runs, "ends_oddly", command=["python", "ends_oddly.py", how]))
    assert (run.summary["outcome"], run.summary["restarts"]) == ("failed", 0)
    assert reason in run.summary["reason"]
    assert "apex;" not in run.summary["reason"]


def doubts(runs: Runs, run: Run) -> str:
    (doubt,) = run.summary["but"]
    assert run.summary["outcome"] == "succeeded"
    listed = next(each for each in runs.yard.list(limit=50) if each.id == run.id)
    assert (listed.ending, listed.but) == ("Finished, but ...", doubt)
    assert run.reason().lines[0] == f"{run.id} has finished, but {doubt}."
    return str(doubt)


def test_a_pipe_that_hides_an_exception_is_said_wherever_people_look(runs: Runs) -> None:
    run = runs.run(
        a_job(runs, "ends_oddly", command=["sh", "-c", "python ends_oddly.py raises | tee log.txt"])
    )
    assert "uncaught exception (ValueError: the labels are strings)" in doubts(runs, run)


def test_so_is_a_program_in_the_background(runs: Runs) -> None:
    lines = "nohup python ends_oddly.py 'goes on' & sleep 1"
    run = runs.run(a_job(runs, "ends_oddly", command=["sh", "-c", lines]))
    assert "1 of its processes still ran and was killed (python ends_oddly.py goes on)" in doubts(runs, run)


STRICT = [
    {"strict": True, "command": ["sh", "-c", "python ends_oddly.py raises | tee log.txt"]},
    {"shell": "echo ${model}\npython ends_oddly.py raises | tee log.txt\necho never"},
]


@pytest.mark.parametrize("program", STRICT, ids=["strict", "shell"])
def test_who_wants_it_has_it_as_a_failure(runs: Runs, program: dict[str, Any]) -> None:
    run = runs.run(a_job(runs, "ends_oddly", **program))
    assert run.summary["error"] == "ProgramFailed"
    assert "ValueError: the labels are strings" in run.summary["reason"]
    assert "never" not in run.log()


def test_a_finished_model_outlasts_an_outage_of_s3(runs: Runs) -> None:
    lines = "mkdir -p ${model}\necho weights > ${model}/weights.txt\necho ready\nsleep 3"
    run = runs.start(a_job(runs, "ends_oddly", shell=lines))
    runs.until("its last line", lambda: "ready" in run.log())
    runs.cloud.fault("throttle", "s3:PutObject", "--seconds", "60")
    runs.finish(run)
    assert run.succeeded, run.why()
    assert (run.summary["restarts"], "model/weights.txt" in run.keys) == (0, True)
    assert "uploading its model has failed since" in run.log()
