"""The job of a trial."""

from datetime import timedelta
from typing import Any

import pytest

from lambdas.core.study import trials
from tests.support.job_files import SMALLEST
from tests.unit.core.study.builders import NOW, SPACE, trial
from trainyard.core.jobfile import check
from trainyard.core.model.job import Job
from trainyard.protocol.ledger.study import TrialState
from trainyard.protocol.trial import Trial


def job_of_trial(number: int, **section: Any) -> Job:
    study = {"maximize": "accuracy", "parameters": SPACE, "limits": {"dollars": 30}} | section
    job = check.check(SMALLEST | {"study": study}, source="x.yaml", bucket="bucket")
    assert isinstance(job, Job)
    assert job.study
    mine = Trial(study="tune-1a2b3c4d", number=number, submitter="ada")
    until = NOW + timedelta(hours=1)
    row = trial(number)
    given = trials.input_of(job, job.study, row, mine, trials=10, until=until, now=NOW)
    found = check.check(given["job"], source="x.yaml", bucket="bucket")
    assert isinstance(found, Job), found
    return found


@pytest.mark.parametrize(("number", "kept"), [(1, 1), (7, 1), (8, 0), (10, 0), (11, 0)])
def test_only_the_hosts_of_a_trial_that_another_one_follows_wait(number: int, kept: int) -> None:
    assert job_of_trial(number, trials=10, parallel=3).pool.keep == kept


def test_a_trial_has_the_values_and_the_cap_of_its_row() -> None:
    job = job_of_trial(3, trials=10, parallel=3)
    assert isinstance(job.program.args, dict)
    assert job.program.args["lr"] == 3 / 10_000
    assert (job.limits.dollars, job.study) == (2.0, None)


def test_a_turn_reads_every_open_trial_and_the_last_ended_ones_in_one_request() -> None:
    now = NOW + timedelta(minutes=8)
    ended = [trial(number, TrialState.COMPLETE) for number in range(1, 151)]
    running = [trial(number) for number in range(151, 171)]
    read = [row.number for row in trials.list_read([*ended, *running], now)]
    assert read[:20] == [row.number for row in running]
    assert read[20:] == list(range(150, 70, -1))
    assert trials.list_read(ended, now + timedelta(hours=1)) == []
