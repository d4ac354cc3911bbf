"""The section predict of a job file: the program and the files that it stands for, and what it cannot be combined
with."""

from typing import Any

import pytest

from trainyard.core.jobfile import batch_rules, check
from trainyard.core.jobfile.written import as_file
from trainyard.core.model.job import Job
from trainyard.core.model.program import Sharding
from trainyard.protocol.cluster import Strategy
from trainyard.values import serialization
from trainyard.values.validation import Fault, InputFaults

PREDICT = {"model": "digits@champion", "source": "s3://BUCKET/data/new/", "format": "npz"}


def read(**given: Any) -> Job | InputFaults:
    return check.check({"name": "new-digits", "predict": PREDICT, **given}, source="job.yaml", bucket="yard")


def test_a_batch_has_the_yards_program_and_shares_its_files_among_the_workers() -> None:
    job = read(cluster={"workers": 3})
    assert isinstance(job, Job), job.reason
    assert (job.program.module, job.program.args) == ("training.programs.predict_batch", {"format": "npz"})
    assert {name: (each.source, each.sharding) for name, each in job.data.items()} == {
        "rows": ("s3://yard/data/new/", Sharding.FILE)
    }
    assert (job.cluster.strategy, job.outputs.keep) == (Strategy.MULTI_WORKER, False)
    alone = read()
    assert isinstance(alone, Job)
    assert alone.data["rows"].sharding is Sharding.NONE


def test_the_job_of_a_batch_can_be_submitted_again() -> None:
    job = read(predict={**PREDICT, "signature": "scores"})
    assert isinstance(job, Job)
    assert check.check(as_file(serialization.to_json(job)), source="job.json", bucket="yard") == job


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"program": {"module": "train"}}, "program", "is not allowed with predict"),
        ({"data": {"few": "s3://BUCKET/data/few/"}}, "data", "is not allowed with predict"),
        ({"after": {"model": {"name": "digits"}}}, "after.model", "a batch leaves no model"),
        ({"cluster": {"workers": {"min": 1, "max": 2}}}, "cluster.workers", "one number of workers"),
        ({"predict": {**PREDICT, "model": "Digits"}}, "predict.model", "a model with @ and an alias"),
        ({"predict": {**PREDICT, "format": "csv"}}, "predict.format", "csv"),
        ({"predict": {**PREDICT, "source": "s3://BUCKET/models/x/"}}, "predict.source", "is not under data/"),
        ({"predict": {"model": "digits"}}, "predict.source", "found nothing"),
    ],
)
def test_a_batch_with_a_fault_is_refused(given: dict[str, Any], path: str, words: str) -> None:
    found = read(**given)
    assert isinstance(found, InputFaults)
    assert words in {fault.path: fault.problem for fault in found.faults}[path]


def test_a_fault_of_the_files_names_the_key_that_the_user_wrote() -> None:
    job = read()
    assert isinstance(job, Job)
    assert batch_rules.as_written(Fault("data.rows.sharding", "few"), job).path == "predict.source"
    assert batch_rules.as_written(Fault("program", "few"), job).path == "program"
