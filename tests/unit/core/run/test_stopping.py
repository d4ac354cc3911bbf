"""Runs that a user stops, by their state."""

from datetime import datetime
from typing import Any

import pytest

from lambdas.core.run import outcome, recovery, stopping
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.stopping import Action, EndAttempt, GiveTime, LetItEnd, OrderGang, StopExecution
from tests.support.records import AT, JOB, host, ledger
from tests.unit.core.builders import NOON, after
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.ledger.run import Outcome

SAVING = after(170)
LATE = after(180)

WHERE = [
    # name, the run's row, the attempt's row (None: none), time of the order to the gang, now, action
    ("it waits for its place, or for capacity", {"state": "Launch"}, None, None, NOON, StopExecution()),
    ("its hosts boot", {"state": "AwaitHosts"}, {}, None, NOON, OrderGang()),
    ("it trains", {}, {"started": AT}, None, NOON, OrderGang()),
    ("its hosts save", {}, {"started": AT}, NOON, SAVING, GiveTime()),
    ("its hosts do not answer", {}, {"started": AT}, NOON, LATE, EndAttempt()),
    ("between two attempts", {}, {"ending": "lost"}, None, NOON, StopExecution()),
    (
        "its program has finished",
        {},
        {"ending": "finished"},
        None,
        NOON,
        LetItEnd("its program has finished"),
    ),
    (
        "it ends by itself",
        {"state": "Release"},
        {"ending": "failed"},
        None,
        NOON,
        LetItEnd("its hosts are being released"),
    ),
]


def run_of(row: dict[str, Any], attempt: dict[str, Any] | None) -> Any:
    run = {
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 2,
        "created": AT,
        "execution_arn": "arn",
    }
    run |= {"job": JOB, "stopping": AT, "stopped_by": "alice", **row}
    begun = {"candidate": {"pool": "p"}, "hosts": ["i-a"], "launched": AT}
    rows = [{"sk": "attempt#0002", **begun, **attempt}] if attempt is not None else []
    return ledger(
        {"sk": "attempt#0001", **begun, "ending": "lost", "reported": 40}, *rows, run, hosts={"i-a": host()}
    )


@pytest.mark.parametrize(
    ("row", "attempt", "asked", "now", "deed"), [each[1:] for each in WHERE], ids=[each[0] for each in WHERE]
)
def test_what_becomes_of_it(
    row: dict[str, Any], attempt: dict[str, Any] | None, asked: datetime | None, now: datetime, deed: Action
) -> None:
    assert stopping.decide(run_of(row, attempt), asked, now) == deed


def test_the_reason_says_who_and_how_far_it_had_come() -> None:
    began, saved = run_of({}, {}), run_of({}, {"saved": AT})
    assert (
        stopping.reason(began, NOON)
        == "alice has stopped the run after step 40; no checkpoint has been saved"
    )
    assert stopping.reason(saved, after(90), 1840) == (
        "alice has stopped the run after step 1,840; its last save was 90 s old"
    )
    assert stopping.reason(ledger(), NOON) == "A user has stopped the run; no checkpoint has been saved"


def test_a_run_that_was_stopped_has_not_failed_and_is_not_tried_again() -> None:
    trouble = Trouble(error="Stopped", reason="alice has stopped the run after step 40", final=True)
    decided = recovery.decide(trouble, attempt=1, restarts=3, now=NOON, deadline=after(3600))
    assert (decided.kind, decided.reason) == ("stop", "alice has stopped the run after step 40.")
    how = outcome.conclude("stop", error="Stopped", reason=decided.reason)
    assert (how.outcome, how.error, outcome.ending_of("Stopped")) == (
        Outcome.STOPPED,
        "Stopped",
        Ending.STOPPED,
    )
    resumable = outcome.add_resume(how, "digits-1", has_checkpoint=True, has_outputs=False)
    assert resumable.reason.endswith("checkpoints.resume: digits-1")
    assert outcome.add_resume(how, "digits-1", has_checkpoint=False, has_outputs=False) == how
