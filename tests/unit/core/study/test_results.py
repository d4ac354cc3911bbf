"""The result of a trial, from its run and the metrics of its program."""

from typing import Any

import pytest

from lambdas.core.study import results
from tests.unit.core.study.builders import NOW
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.ledger.study import TrialState
from trainyard.protocol.trial import STUDY, Pruned
from trainyard.values.serialization import Measure


def run(outcome: Outcome, error: str | None = None, **values: Any) -> RunRow:
    known: dict[str, Any] = {
        "run": "digits-0a1b2c3d-0001-trial", "kind": "train", "state": "Conclude", "attempt": 1, "created": NOW,
        "execution_arn": "arn", "ended": NOW, "reason": "it ended", "dollars": 0.25,
    }  # fmt: skip
    return RunRow(outcome=outcome, error=error, **(known | values))


PRUNED = Pruned(rung=4, value=Measure(0.3), reason="0.3 is below 0.6")
OK = Outcome.SUCCEEDED
ENDS = [
    # sentence, run, metrics, state, value
    ("it left the metric", run(OK), {"accuracy": 0.9}, TrialState.COMPLETE, 0.9),
    ("the metric is a whole number", run(OK), {"accuracy": 1}, TrialState.COMPLETE, 1.0),
    ("it left no metrics", run(OK), None, TrialState.FAILED, None),
    ("it left others", run(OK), {"loss": 0.9}, TrialState.FAILED, None),
    ("the metric is NaN", run(OK), {"accuracy": float("nan")}, TrialState.FAILED, None),
    ("the metric is a text", run(OK), {"accuracy": "NaN"}, TrialState.FAILED, None),
    ("the metric is a flag", run(OK), {"accuracy": True}, TrialState.FAILED, None),
    ("a rung stopped it", run(Outcome.STOPPED, "Stopped", pruned=PRUNED), None, TrialState.STOPPED, 0.3),
    ("it finished before the stop", run(OK, pruned=PRUNED), {"accuracy": 0.4}, TrialState.COMPLETE, 0.4),
    ("a user stopped it", run(Outcome.STOPPED, "Stopped", stopped_by="ada"), None, TrialState.STOPPED, None),
    ("its study ended", run(Outcome.STOPPED, "Stopped", stopped_by=STUDY), None, TrialState.CUT, None),
    ("its program failed", run(Outcome.FAILED, "ProgramFailed"), {"accuracy": 0.4}, TrialState.FAILED, None),
    ("it was at its cap", run(Outcome.FAILED, "LimitReached"), None, TrialState.FAILED, None),
    ("its job was refused", run(Outcome.REFUSED, "JobRefused"), None, TrialState.FAILED, None),
    ("its host was lost", run(Outcome.FAILED, "HostLost"), None, TrialState.LOST, None),
    ("no capacity was found", run(Outcome.FAILED, "NoCapacity"), None, TrialState.LOST, None),
    ("the yard was full", run(Outcome.REFUSED, "YardFull"), None, TrialState.LOST, None),
    ("the month's budget is spent", run(Outcome.REFUSED, "BudgetSpent"), None, TrialState.LOST, None),
    ("its execution was stopped", run(Outcome.FAILED, "Aborted"), None, TrialState.LOST, None),
]


@pytest.mark.parametrize(
    ("sentence", "ended", "metrics", "state", "value"), ENDS, ids=[row[0] for row in ENDS]
)
def test_how_a_trial_ended(
    sentence: str, ended: RunRow, metrics: dict[str, Any] | None, state: TrialState, value: float | None
) -> None:
    result = results.result_of(ended, metrics, "accuracy")
    assert (result.state, result.value, result.dollars) == (state, value, 0.25)


def test_a_missing_metric_is_explained_with_those_that_exist() -> None:
    result = results.result_of(run(OK), {"acuracy": 0.9, "loss": 0.1, "history": []}, "accuracy")
    assert result.reason == 'metrics.json has no accuracy; it has acuracy, loss; did you mean "acuracy"?'


def test_a_stopped_trial_has_the_step_and_reason_of_its_rung() -> None:
    result = results.result_of(run(Outcome.STOPPED, "Stopped", pruned=PRUNED), None, "accuracy")
    assert (result.step, result.reason) == (4, "0.3 is below 0.6")
