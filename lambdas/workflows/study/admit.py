"""Admit of study: check the job, and write the study to the ledger."""

from datetime import timedelta

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.studies import first_row
from lambdas.core.run import RunUpdate
from lambdas.core.study import limits
from lambdas.needs import Needs
from lambdas.steps import admission, continuation, job_check, warm_start
from lambdas.steps.admission import Admission, job_values
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AdmitInput, Answer
from lambdas.steps.job_check import JobSettings
from trainyard.core.jobfile import check, references, study_rules
from trainyard.core.model.errors import JobRefused, Refused
from trainyard.core.model.job import Job
from trainyard.protocol import keys, trial
from trainyard.protocol.ledger.study import STUDY, Search, StudyRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.validation import InputFaults

TO_STOP = timedelta(minutes=30)
"""How long the trials of a study whose hours are used up may save and stop before its search times out."""
NEEDS = Needs(JobSettings, job_check.GRANTS, memory_mib=1024)


@dataclass(frozen=True, kw_only=True)
class StudyAdmitted(Answer):
    """The study may begin."""

    kind = "admitted"
    seconds: int
    """The timeout of the search."""


@entry_point
def handler(given: AdmitInput) -> StudyAdmitted | Refused:
    yard, run = environment.read(JobSettings), given.run
    if trial.part_of(run)[1] > 1:
        return _continue(given, yard)
    admitting = Admission(Ledger(yard.table_name), given, JobRefused)
    if taken := admitting.refuse_used_name():
        return taken
    admission.raise_denied(given)
    source, of_yard = check.read_input(given.input), job_check.limits_of(yard)
    job, warnings = job_check.check_job(source, yard, of_yard, given.started)
    warm = None
    if isinstance(job, Job):
        warm = warm_start.read(admitting.ledger, job.study) if job.study and job.study.warm else None
        warnings = (*warnings, *(warm.warnings if warm else ()))
        faults = (*limits.faults(job, of_yard), *(warm.faults if warm else ()))
        job = InputFaults(job.name, faults) if faults else job
    job = admitting.refuse_misnamed() or job
    values: RunUpdate = {
        "kind": STUDY,
        **({} if isinstance(job, InputFaults) else job_values(job)),
        **job_check.find_submitter(source, job, run),
        "warnings": warnings,
    }
    if isinstance(job, InputFaults):
        return admitting.refuse(job, values)
    assert job.study, "a job without a study has a fault"
    study, until = job.study, given.started + timedelta(hours=job.study.limits.hours)
    row = StudyRow(version=1, trials=study_rules.trials_of(study), dollars=study.limits.dollars, until=until)
    values["search"] = Search(
        metric=study.objective.metric,
        trials=row.trials,
        reported=0,
        running=0,
        dollars=0.0,
        most_dollars=row.dollars,
    )
    if warm:
        warm_start.store(yard.bucket_name, run, warm.trials)
    answer = _admitted(references.describe_warnings(warnings), study.limits.hours)
    refused = admitting.write(answer, values, first_row(run, row))
    if refused is None:
        s3.put_json(yard.bucket_name, keys.job(run), serialization.to_json(job))
    return refused or answer


def _continue(given: AdmitInput, yard: JobSettings) -> StudyAdmitted | Refused:
    found = continuation.admit(given, Ledger(yard.table_name), job_check.limits_of(yard))
    return found if isinstance(found, Refused) else _admitted(found.reason, found.hours)


def _admitted(reason: str, hours: float) -> StudyAdmitted:
    lasts = timedelta(hours=hours) + TO_STOP
    return StudyAdmitted(reason=reason, seconds=int(lasts.total_seconds()))
