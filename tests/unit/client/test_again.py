"""Rerun and resume: a run's job starts from step 0, or from its last checkpoint if steps remain."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.unit.client.facts import MACHINE, NOON, row_of, yard_of
from trainyard.client import Execution, Run, Session, Yard
from trainyard.client.errors import RunFinished, RunGoesOn, RunNotFound
from trainyard.core.jobfile.check import check
from trainyard.core.model.job import Job
from trainyard.values import serialization

RUN = "digits-1a2b3c4d"
ARN = f"{MACHINE.replace(':stateMachine:', ':execution:')}:{RUN}"


class Ended:
    """The status of the run. A test may change it."""

    status = "SUCCEEDED"


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Ended:
    how = Ended()
    monkeypatch.setattr(Yard, "row", lambda self, run: row_of(execution_arn=ARN) if run == RUN else None)
    monkeypatch.setattr(
        Run, "execution", property(lambda self: Execution(self.arn, how.status, NOON, None, "", ""))
    )
    return how


@pytest.fixture
def yard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        session = Session(
            boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
        )
        found = yard_of(session)
        session.client("s3").create_bucket(Bucket=found.bucket.name)
        document = {
            "name": "digits",
            "program": {"module": "training.programs.digits", "args": {"epochs": 5}},
            "checkpoints": {"resume": "digits-00000000"},
        }
        job = check(document, source="job.json", bucket=found.bucket.name)
        assert isinstance(job, Job)
        found.bucket.put(f"runs/{RUN}/job.json", json.dumps(serialization.to_json(job)).encode())
        found.bucket.put(f"runs/{RUN}/summary.json", b'{"steps": {"done": 40, "planned": 40}}')
        yield found


@pytest.mark.usefixtures("ended")
def test_a_resumed_run_is_run_again_from_step_0(yard: Yard) -> None:
    assert yard.job_of(RUN).job.checkpoints.resume is None
    chosen = yard.job_of(RUN, set={"checkpoints.resume": "other-00000000"})
    assert chosen.job.checkpoints.resume == "other-00000000"


def test_a_finished_run_is_not_resumed(yard: Yard, ended: Ended) -> None:
    with pytest.raises(RunFinished) as refused:
        yard.job_of(RUN, resume=True)
    assert refused.value.what == f"{RUN} has finished at step 40 of 40"
    assert f"trainyard rerun {RUN}" in refused.value.next_step
    ended.status = "FAILED"
    assert yard.job_of(RUN, resume=True).job.checkpoints.resume == RUN


@pytest.mark.usefixtures("ended")
@pytest.mark.parametrize(
    ("asked", "is_resumed"),
    [
        ({"force": True}, True),
        ({"set": {"args.epochs": 9}}, True),
        ({"set": {"program.args.epochs": 9}}, True),
        ({"set": {"args.epochs": 5}}, False),
        ({"set": {"limits.hours": 12}}, False),
        ({"labels": {"args": "1"}}, False),
    ],
)
def test_a_finished_run_is_resumed_if_there_is_more_to_train_or_the_user_insists(
    yard: Yard, asked: dict[str, Any], is_resumed: bool
) -> None:
    if is_resumed:
        assert yard.job_of(RUN, resume=True, **asked).job.checkpoints.resume == RUN
    else:
        with pytest.raises(RunFinished):
            yard.job_of(RUN, resume=True, **asked)


def test_a_run_that_has_not_ended_is_not_resumed_even_by_force(
    yard: Yard, ended: Ended, tmp_path: Path
) -> None:
    ended.status = "RUNNING"
    with pytest.raises(RunGoesOn, match="still running") as refused:
        yard.job_of(RUN, resume=True, force=True)
    assert f"trainyard stop {RUN}" in refused.value.next_step
    job = tmp_path / "job.yaml"
    job.write_text(
        f"name: x\nprogram: {{module: training.programs.digits}}\ncheckpoints: {{resume: {RUN}}}\n"
    )
    with pytest.raises(RunGoesOn):
        yard.submit(job)
    assert yard.job_of(RUN).job.name == "digits"


def test_a_run_that_is_being_stopped_may_be_resumed_at_once(
    yard: Yard, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Admit waits for the last checkpoint of a run that is being stopped."""
    ended.status = "RUNNING"
    row = row_of(execution_arn=ARN, stopping="2026-11-20T12:00:00.000Z")
    monkeypatch.setattr(Yard, "row", lambda self, run: row)
    assert yard.job_of(RUN, resume=True).job.checkpoints.resume == RUN


@pytest.mark.usefixtures("ended")
def test_a_run_without_a_job_is_not_run_again(yard: Yard) -> None:
    with pytest.raises(RunNotFound):
        yard.job_of("gpu-00000000")
