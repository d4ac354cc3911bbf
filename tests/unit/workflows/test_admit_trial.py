"""A trial is admitted under its study's name, for the user who submitted the study."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas import environment
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.rows import run_row
from lambdas.steps.job_check import JobSettings
from lambdas.workflows.train import admit
from tests.support.recorded import CONTEXT
from tests.unit.workflows.conftest import Place
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.trial import Trial, study_of

NOW = datetime(2026, 11, 20, tzinfo=UTC)
JOB = {"name": "digits", "program": {"module": "training.programs.digits"}}
TRIAL = Trial(study="digits-0a1b2c3d", number=12, submitter="ada@example.com")


@pytest.fixture(autouse=True)
def yard(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    yard = JobSettings(
        yard="trainyard",
        table_name="ledger",
        bucket_name="bucket",
        monthly_dollars=0.0,
        aws_region="us-east-1",
    )
    monkeypatch.setattr(environment, "read", lambda _: yard)


def add_study(**values: Any) -> None:
    """Write the row of the study."""
    known: dict[str, Any] = {
        "kind": "study",
        "state": "Search",
        "attempt": 1,
        "created": NOW,
        "execution_arn": "arn",
    }
    row = known | {"submitter": TRIAL.submitter} | values
    Ledger("ledger").write(run_row(TRIAL.study, row))  # type: ignore[arg-type]


def admitted(run: str) -> tuple[dict[str, Any], RunRow]:
    """Return the answer of Admit and the row that it has written."""
    event = {
        "run": run,
        "execution": f"arn:aws:states:us-east-1:123456789012:execution:trainyard-train:{run}",
        "started": "2026-11-20T12:00:00.000Z",
        "input": {"job": JOB, "trial": {"study": TRIAL.study, "number": 12, "submitter": TRIAL.submitter}},
    }
    answer = admit.handler(event, CONTEXT)
    row = Ledger("ledger").run(run)
    assert row is not None
    return answer, row


def test_a_trial_is_of_its_study_and_of_the_user_who_submitted_it() -> None:
    add_study()
    answer, row = admitted("digits-0a1b2c3d-0012-trial")
    assert answer["kind"] == "admitted"
    assert (row.submitter, row.trial) == ("ada@example.com", TRIAL)


def test_an_execution_of_another_name_is_not_that_trial() -> None:
    answer, row = admitted("digits-0a1b2c3d-0013-trial")
    assert (answer["kind"], row.trial) == ("refused", TRIAL)
    assert "whose execution is named digits-0a1b2c3d-0012-trial" in answer["reason"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"kind": "train"}, "ada@example.com has no study digits-0a1b2c3d"),
        ({"submitter": "eve"}, "ada@example.com has no study digits-0a1b2c3d"),
        ({"ended": NOW}, "the study digits-0a1b2c3d is over"),
        ({"cut_short": NOW}, "the study digits-0a1b2c3d is over"),
    ],
)
def test_a_trial_of_no_open_study_of_its_user_is_refused(values: dict[str, Any], reason: str) -> None:
    add_study(**values)
    answer, _ = admitted("digits-0a1b2c3d-0012-trial")
    assert answer["kind"] == "refused"
    assert reason in answer["reason"]


@pytest.mark.parametrize(
    ("run", "study"),
    [(TRIAL.run, TRIAL.study), ("digits-0a1b2c3d", None), ("x-12-trial", None), ("a-0001-trials", None)],
)
def test_the_id_of_a_trial_names_its_study(run: str, study: str | None) -> None:
    assert study_of(run) == study
