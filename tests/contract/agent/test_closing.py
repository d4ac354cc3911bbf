"""Hosts stay at the end of a run until every host of the gang has uploaded its files."""

import json
import signal
import time
from datetime import timedelta
from typing import Any

import pytest

from tests.contract.agent.host import INSTANCE, Yard
from tests.contract.conftest import eventually
from training.host.agent import closing

CHIEF = {"instance": "i-chief", "role": "chief", "index": 0, "address": "10.0.1.6"}
WRITES_LAST = """
import pathlib, signal, sys, time

def leave(*_):
    for number in range(20):
        pathlib.Path(f"last-{number}.bin").write_bytes(bytes([number]) * 100_000)
    sys.exit(0)

signal.signal(signal.SIGTERM, leave)
pathlib.Path("early.txt").write_text("early")
print("serves", flush=True)
while True:
    time.sleep(0.1)
"""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "LOOK_SECONDS", 0.5)


def key(yard: Yard, instance: str) -> str:
    return f"runs/{yard.run}/attempts/1/working/AROAHOST:{instance}.json"


def say(yard: Yard, instance: str, **state: Any) -> None:
    """Send a state as the agent of another host."""
    yard.put(key(yard, instance), json.dumps({"at": f"{time.time()}", "ended": None} | state))


def said(yard: Yard) -> dict[str, Any]:
    """Return the last state of this host."""
    own = key(yard, INSTANCE)
    found: dict[str, Any] = json.loads(yard.read(own)) if yard.keys(own) else {}
    return found


def started(yard: Yard, program: str, role: str, strategy: str, *others: dict[str, Any]) -> None:
    yard.prepare(program)
    yard.start_agent()
    yard.hear("ready")
    own = {"instance": INSTANCE, "role": role, "index": 0, "address": "10.0.1.5"}
    yard.order("start", 1, strategy=strategy, hosts=[own, *others])


def endings(yard: Yard) -> set[str]:
    return {event["detail-type"] for event in yard.heard} & {"finished", "failed", "stopped"}


@pytest.mark.parametrize(("strategy", "role"), [("multi_worker", "worker"), ("parameter_server", "ps")])
def test_the_chief_waits_until_the_others_have_uploaded_their_files(
    strategy: str, role: str, yard: Yard
) -> None:
    other = {"instance": "i-other", "role": role, "index": 0, "address": "10.0.1.7"}
    started(yard, "print('done')", "chief", strategy, other)
    eventually(lambda: said(yard).get("closing"))
    for _ in range(4):
        say(yard, "i-other", ended=0)
        time.sleep(1.0)
    with pytest.raises(pytest.fail.Exception):
        yard.hear("finished", within=1.0)
    assert "waiting until the files of i-other are uploaded" in yard.log()
    say(yard, "i-other", ended=0, uploaded=True)
    yard.hear("finished")


def test_a_host_that_says_nothing_new_is_not_waited_for(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "SILENT_SECONDS", 2.0)
    started(
        yard,
        "print('done')",
        "chief",
        "multi_worker",
        {"instance": "i-lost", "role": "worker", "index": 0, "address": "10.0.1.7"},
    )
    yard.hear("finished")


def test_a_user_who_stops_the_run_meanwhile_does_not_wait_for_the_others(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.host.agent.retries.STOP_GRACE", timedelta(seconds=2))
    other = {"instance": "i-other", "role": "worker", "index": 0, "address": "10.0.1.7"}
    started(yard, "print('done')", "chief", "multi_worker", other)
    eventually(lambda: "waiting until the files of i-other" in yard.log())
    yard.order("stop", 1)
    yard.hear("finished", within=40)
    assert "not waiting any more for the files of i-other: the run was asked to end" in yard.log()


@pytest.mark.parametrize(("strategy", "role"), [("parameter_server", "ps"), ("parameter_server", "worker")])
def test_a_program_that_serves_the_chief_leaves_when_the_chief_has_finished_and_nothing_of_it_is_lost(
    strategy: str, role: str, yard: Yard
) -> None:
    started(yard, WRITES_LAST, role, strategy, CHIEF)
    eventually(lambda: "serves" in yard.log(name=f"{role}-0"))
    say(yard, "i-chief", ended=0, closing=True)
    eventually(lambda: said(yard).get("uploaded"))
    there = yard.keys(f"runs/{yard.run}/outputs/@{role}-0/")
    assert len(there) == 21, "early.txt and twenty files of its last moment"
    assert "finished: the chief's program has ended with 0" in yard.log(name=f"{role}-0")
    yard.hear("ready", attempt=2)
    assert not endings(yard)


def test_a_worker_that_ends_by_itself_gets_a_minute_to_do_so(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "GRACE", timedelta(seconds=6))
    started(yard, WRITES_LAST, "worker", "multi_worker", CHIEF)
    eventually(lambda: "serves" in yard.log(name="worker-0"))
    say(yard, "i-chief", ended=0, closing=True)
    closes_at = time.monotonic()
    eventually(lambda: said(yard).get("at"))
    assert said(yard)["ended"] is None, "the chief's host sees that this one is still there"
    eventually(lambda: said(yard).get("uploaded"))
    assert time.monotonic() - closes_at > 6
    assert len(yard.keys(f"runs/{yard.run}/outputs/@worker-0/")) == 21
    assert not endings(yard)


def test_a_worker_that_fails_after_the_chief_has_finished_repeats_no_training(yard: Yard) -> None:
    """Test that training is not repeated. Many frameworks' runtimes abort when the first process of a gang ends."""
    program = """
    import os, pathlib
    pathlib.Path("rank-1.txt").write_text("written last")
    os.abort()
    """
    say_first = {"ended": 0, "closing": True}
    say(yard, "i-chief", **say_first)
    started(yard, program, "worker", "multi_worker", CHIEF)
    eventually(lambda: said(yard).get("uploaded"))
    yard.hear("ready", attempt=2)
    assert not endings(yard)
    assert yard.read(f"runs/{yard.run}/outputs/@worker-0/rank-1.txt") == "written last"


@pytest.mark.parametrize("ending", ["asked", "interrupted"])
def test_a_worker_that_has_to_leave_says_so_only_when_all_its_files_are_uploaded(
    ending: str, yard: Yard
) -> None:
    """Test the order of upload and signal. The gang's end waits for this signal, and AWS gives two minutes."""
    yard.prepare(WRITES_LAST)
    service = yard.start_agent()
    yard.hear("ready")
    own = {"instance": INSTANCE, "role": "worker", "index": 0, "address": "10.0.1.5"}
    yard.order("start", 1, strategy="multi_worker", hosts=[own, CHIEF])
    eventually(lambda: "serves" in yard.log(name="worker-0"))
    if ending == "asked":
        yard.order("stop", 1)
    else:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120))
        service.pages["meta-data/spot/instance-action"] = json.dumps({"action": "terminate", "time": at})
    assert yard.hear("stopped", within=110)["why"] == ending
    assert len(yard.keys(f"runs/{yard.run}/outputs/@worker-0/")) == 21


def test_a_worker_whose_host_is_ended_since_another_one_failed_uploads_its_files_first(yard: Yard) -> None:
    """Test an end during the failure of another host: a stop request, and termination a moment later."""
    started(yard, WRITES_LAST, "worker", "multi_worker", CHIEF)
    eventually(lambda: "serves" in yard.log(name="worker-0"))
    yard.order("stop", 1)
    yard.agent.go_down(signal.SIGTERM, None)
    yard.hear("stopped", within=80)
    assert len(yard.keys(f"runs/{yard.run}/outputs/@worker-0/")) == 21
