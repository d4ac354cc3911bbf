"""The handling of a user's stop request."""

import pytest

from lambdas.aws import states
from lambdas.core.run.recovery import Trouble, trouble_of
from lambdas.workflows import signal
from tests.support.recorded import CONTEXT
from tests.unit.core.builders import after
from tests.unit.workflows.conftest import Place
from tests.unit.workflows.leaving import Aws


@pytest.fixture
def aws(place: Place, monkeypatch: pytest.MonkeyPatch) -> Aws:
    return Aws(monkeypatch)


def stop(detail: object = None, source: str = "trainyard.people/alice", word: str = "stop") -> str:
    event = {"source": source, "detail-type": word, "detail": detail or {"run": "digits-1"}}
    return str(signal.handler(event, CONTEXT)["result"])


def patrol() -> str:
    event = {"source": "trainyard.patrol", "detail-type": "stop", "detail": {"run": "digits-1", "attempt": 1}}
    return str(signal.handler(event, CONTEXT)["result"])


def test_all_hosts_are_asked_once_and_the_first_to_ask_is_named(place: Place, aws: Aws) -> None:
    assert stop() == "the gang is asked to checkpoint"
    assert stop(source="trainyard.people/bob") == "the gang was asked and may still save"
    assert sorted(aws.asked) == place.hosts
    aws.hears(place.worker, "stopped", why="asked", step=7)
    aws.hears(place.chief, "stopped", why="asked", step=9)
    assert aws.failed == ["Stopped"]
    row = place.ledger.require("digits-1").attempts[1]
    trouble = trouble_of(row)
    assert trouble is not None
    assert (row.ending, row.to_step) == ("stopped", 9)
    assert trouble.reason == "alice has stopped the run after step 9; no checkpoint has been saved"


def test_hosts_that_do_not_answer_have_three_minutes(place: Place, aws: Aws) -> None:
    stop()
    aws.now = after(170)
    assert patrol() == "the gang was asked and may still save"
    aws.now = after(180)
    assert patrol() == "the attempt is over"
    assert aws.failed == ["Stopped"]


def test_a_run_without_hosts_has_its_execution_stopped(
    place: Place, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, Trouble]] = []

    def stops(arn: str, trouble: Trouble) -> bool:
        told.append((arn, trouble))
        return True

    monkeypatch.setattr(states, "stop", stops)
    place.row("attempt#0001", {"ending": "lost"})
    assert stop() == "its execution is stopped"
    ((arn, trouble),) = told
    assert (arn, trouble.error) == ("arn", "Stopped")
    assert "alice" in trouble.reason


IGNORED = [
    ("an unknown word", {"run": "digits-1"}, "pause", "not about this yard"),
    ("an unknown run", {"run": "digits-2"}, "stop", "the run is over, or unknown"),
    ("no run at all", {"job": "digits"}, "stop", "not about this yard"),
    ("no mapping", ["digits-1"], "stop", "not about this yard"),
    ("a number", {"run": 5}, "stop", "not about this yard"),
]


@pytest.mark.parametrize(
    ("detail", "word", "said"), [row[1:] for row in IGNORED], ids=[row[0] for row in IGNORED]
)
def test_what_says_nothing_changes_nothing(
    place: Place, aws: Aws, detail: object, word: str, said: str
) -> None:
    assert stop(detail, word=word) == said
    assert place.ledger.require("digits-1").run.stopping is None


def test_only_a_training_saves(place: Place, aws: Aws) -> None:
    place.row("run", {"kind": "bake"})
    assert "stop its execution" in stop()
    assert aws.asked == []


def test_patrol_stops_nothing_that_nobody_has_stopped(place: Place, aws: Aws) -> None:
    assert patrol() == "the run is over, or no user stopped it"
    assert aws.asked == []
