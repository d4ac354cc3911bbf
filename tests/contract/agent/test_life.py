"""Detection of programs without progress: their own work and their peers' work count, not repeated lines."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.contract.agent.host import INSTANCE, Yard
from tests.contract.conftest import eventually
from training.host.agent import closing, conclusion, life
from training.host.program import silence

POLLS = """
import time
while True:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), "CreateSession still waiting for response", flush=True)
    time.sleep(0.1)
"""
COMPUTES = """
import time
until = time.monotonic() + 7
while time.monotonic() < until:
    sum(range(10000))
"""
WRITES = """
import pathlib, time
for number in range(14):
    pathlib.Path("part-%d" % number).write_text("x")
    time.sleep(0.5)
"""
WAITS_FOR_PEERS = "import time; time.sleep(7)"
GANG = [
    {"instance": INSTANCE, "role": "chief", "index": 0, "address": "10.0.1.5"},
    {"instance": "i-worker", "role": "worker", "index": 0, "address": "10.0.1.6"},
    {"instance": "i-ps", "role": "ps", "index": 0, "address": "10.0.1.7"},
]


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(silence, "SILENT_SECONDS", 3.0)
    monkeypatch.setattr(closing, "SILENT_SECONDS", 3.0)


def started(yard: Yard, program: str, *, job: dict[str, Any] | None = None, **changes: Any) -> None:
    yard.prepare(program, **(job or {}))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, **changes)


def test_a_program_that_repeats_itself_while_it_waits_hangs(yard: Yard) -> None:
    started(yard, POLLS)
    assert yard.hear("stopped")["why"] == "hangs"
    assert "the program has shown no work: no progress, no new line or file" in yard.log()


@pytest.mark.parametrize("program", [COMPUTES, WRITES], ids=["computes", "writes"])
def test_a_program_that_computes_or_writes_in_silence_does_not(yard: Yard, program: str) -> None:
    started(yard, program)
    yard.hear("finished")


@contextmanager
def again_and_again(act: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(0.5):
            act()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join()


@pytest.mark.parametrize("works", [True, False], ids=["they work", "nobody works"])
def test_a_chief_waits_for_what_the_others_compute_as_long_as_they_say_that_they_work(
    yard: Yard, works: bool
) -> None:
    def say() -> None:
        at = f"{time.time()}" if works else "once"
        key = f"runs/{yard.run}/attempts/1/working/AROAHOST:i-worker.json"
        yard.put(key, json.dumps({"at": at, "ended": None, "uploaded": True}))

    with again_and_again(say):
        started(yard, WAITS_FOR_PEERS, strategy="parameter_server", hosts=GANG)
        if works:
            yard.hear("finished")
        else:
            assert yard.hear("stopped")["why"] == "hangs"


def test_a_worker_says_that_its_program_works_and_how_it_ended(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "REPORT_SECONDS", 1.0)
    key = f"runs/{yard.run}/attempts/1/working/AROAHOST:{INSTANCE}.json"
    others = [{**GANG[0], "instance": "i-chief"}, {**GANG[1], "instance": INSTANCE}, GANG[2]]
    started(yard, COMPUTES, strategy="parameter_server", hosts=others)
    said: dict[str, int | None] = {}

    def has_ended() -> bool:
        if yard.keys(key):
            found = json.loads(yard.read(key))
            said[found["at"]] = found["ended"]
        return 0 in said.values()

    eventually(has_ended)
    assert len(said) >= 4


CHIEF_IS_WORKER = {
    "cluster": {
        "strategy": "parameter_server",
        "workers": 2,
        "parameter_servers": 1,
        "evaluator": False,
        "chief": "worker",
    }
}

ALL_TRAIN = [GANG[0], {**GANG[1], "index": 1}, GANG[2]]
"""With `cluster.chief: worker` the chief is worker 0."""


@pytest.mark.parametrize("how", ["ends", "falls silent"])
def test_the_chief_waits_for_other_workers_that_still_train(
    how: str, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "IDLE_SECONDS", 4.0)
    began = time.monotonic()

    def say() -> None:
        seconds = time.monotonic() - began
        ended = 0 if how == "ends" and seconds > 20 else None
        at = "once" if how == "falls silent" and seconds > 10 else f"{seconds}"
        key = f"runs/{yard.run}/attempts/1/working/AROAHOST:i-worker.json"
        yard.put(key, json.dumps({"at": at, "ended": ended, "uploaded": ended == 0}))

    with again_and_again(say):
        started(yard, "print('done')", job=CHIEF_IS_WORKER, strategy="parameter_server", hosts=ALL_TRAIN)
        yard.hear("finished")
    assert "the chief has finished; waiting for those that still train: i-worker" in yard.log()
    assert how != "ends" or time.monotonic() - began > 20


def test_a_worker_that_fails_when_the_chief_has_finished_is_no_news(yard: Yard) -> None:
    others = [{**GANG[0], "instance": "i-chief"}, {**ALL_TRAIN[1], "instance": INSTANCE}, GANG[2]]
    key = f"runs/{yard.run}/attempts/1/working/AROAHOST:i-chief.json"
    yard.put(key, json.dumps({"at": "now", "ended": 0}))
    program = "raise ValueError('the chief does not answer')"
    started(yard, program, job=CHIEF_IS_WORKER, strategy="parameter_server", hosts=others)
    yard.hear("ready", attempt=2)
    assert not {"failed", "stopped"} & {event["detail-type"] for event in yard.heard}
    assert "the chief has finished, so this program's failure does not matter" in yard.log(name="worker-1")


SAVES = """
import os, pathlib
pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"], "weights").write_text("some")
"""
IN_STEP = {"strategy": "multi_worker", "workers": 1, "evaluator": True, "chief": "coordinator"}
EVALUATED = [GANG[0], {"instance": "i-evaluator", "role": "evaluator", "index": 0, "address": "10.0.1.6"}]


@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_the_chief_waits_until_the_evaluator_has_looked_at_the_last_checkpoint(
    strategy: str, yard: Yard
) -> None:
    began = time.monotonic()

    def say() -> None:
        ended = 0 if time.monotonic() - began > 12 else None
        key = f"runs/{yard.run}/attempts/1/working/AROAHOST:i-evaluator.json"
        yard.put(key, json.dumps({"at": "now", "ended": ended}))

    with again_and_again(say):
        job = {"cluster": IN_STEP | {"strategy": strategy}}
        started(yard, SAVES, job=job, strategy=strategy, hosts=EVALUATED)
        yard.hear("finished")
    assert time.monotonic() - began > 12
    assert yard.latest["kind"] == "folder"


def test_an_evaluator_that_does_not_end_is_not_waited_for_for_ever(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conclusion, "EVALUATION_SECONDS", 4.0)
    started(yard, SAVES, job={"cluster": IN_STEP}, strategy="multi_worker", hosts=EVALUATED)
    yard.hear("finished")
    assert "the evaluator has not ended 4 seconds after the last checkpoint" in yard.log()


def test_nobody_waits_for_an_evaluator_that_has_nothing_to_look_at(yard: Yard) -> None:
    started(yard, "print('done')", job={"cluster": IN_STEP}, strategy="multi_worker", hosts=EVALUATED)
    yard.hear("finished")
    assert "the evaluator has not ended" not in yard.log()


@pytest.mark.parametrize("strategy", ["multi_worker", "parameter_server"])
def test_an_evaluator_that_fails_when_the_chief_has_finished_is_no_news(strategy: str, yard: Yard) -> None:
    hosts = [{**GANG[0], "instance": "i-chief"}, {**EVALUATED[1], "instance": INSTANCE}]
    key = f"runs/{yard.run}/attempts/1/working/AROAHOST:i-chief.json"
    yard.put(key, json.dumps({"at": "now", "ended": 0}))
    job = {"cluster": IN_STEP | {"strategy": strategy}}
    started(yard, "raise ValueError('no checkpoint')", job=job, strategy=strategy, hosts=hosts)
    yard.hear("ready", attempt=2)
    assert not {"failed", "stopped"} & {event["detail-type"] for event in yard.heard}


def test_an_evaluator_that_fails_while_others_train_fails_the_run(yard: Yard) -> None:
    hosts = [{**GANG[0], "instance": "i-chief"}, {**EVALUATED[1], "instance": INSTANCE}]
    program = "raise ValueError('no such model')"
    started(yard, program, job={"cluster": IN_STEP}, strategy="multi_worker", hosts=hosts)
    assert "ValueError: no such model" in yard.hear("failed")["reason"]


def test_that_an_evaluator_works_is_no_sign_that_anybody_trains(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "REPORT_SECONDS", 1.0)
    hosts = [{**GANG[0], "instance": "i-chief"}, {**EVALUATED[1], "instance": INSTANCE}]
    key = f"runs/{yard.run}/attempts/1/working/AROAHOST:{INSTANCE}.json"
    started(yard, COMPUTES, job={"cluster": IN_STEP}, strategy="multi_worker", hosts=hosts)
    said: set[int | None] = set()

    def has_ended() -> bool:
        said.update(json.loads(yard.read(found))["ended"] for found in yard.keys(key))
        return 0 in said

    eventually(has_ended)
    assert said == {0}
