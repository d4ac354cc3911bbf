"""Admit: check the job and everything that it names in the bucket; write the run to the ledger."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lambdas import environment
from lambdas.aws import s3
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.logbook import EarlierResults, Logbook
from lambdas.core.capacity import promise
from lambdas.core.capacity.prices import Prices
from lambdas.core.run import RunUpdate
from lambdas.needs import Needs
from lambdas.steps import admission, job_check, resuming, slots
from lambdas.steps.admission import Admission, job_values
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AdmitInput, Admitted, AfterRuns, Answer, Waits
from lambdas.steps.job_check import JobSettings
from lambdas.steps.observability import clock
from trainyard.core.jobfile import check, references
from trainyard.core.jobfile.check import JobSource
from trainyard.core.model import submitter
from trainyard.core.model.errors import JobRefused, Refused
from trainyard.core.model.job import Job
from trainyard.protocol import keys
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.study import STUDY
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Fault, InputFaults


@dataclass(frozen=True, kw_only=True)
class ToPlan(Answer):
    """A dry run of a job without faults."""

    kind = "dry_run"
    job: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    """Parts of the job that will probably fail."""


@dataclass(frozen=True, kw_only=True)
class NotPlanned(Answer):
    """A dry run of a job that would be refused, with every reason."""

    kind = "not_planned"
    error: str


NO_STUDY = Fault(
    "study",
    "is not allowed in an execution of train, which runs a job once: submit the file, which starts the study, or "
    "remove the section to run the job once",
)
NO_SCHEDULE = (
    "is not allowed in an execution of train, which runs a job once: submit the file, which makes the schedule, or "
    "remove the section to run the job once"
)
NEEDS = Needs(JobSettings, job_check.GRANTS, memory_mib=1024)


@entry_point
def handler(given: AdmitInput) -> Admitted | Waits | AfterRuns | ToPlan | NotPlanned | Refused:
    yard, run = environment.read(JobSettings), given.run
    admitting = Admission(Ledger(yard.table_name), given, JobRefused)
    if taken := admitting.refuse_used_name():
        return taken
    admission.raise_denied(given)
    source = check.read_input(given.input)
    found = job_check.find_version(source, run, yard.table_name)
    fault, made = (found, None) if isinstance(found, InputFaults) else (None, found)
    by_schedule = job_check.find_schedule_owner(source, run, yard.table_name)
    misnamed = (
        admitting.refuse_misnamed()
        or fault
        or _find_fault_of_trial(source, run, admitting.ledger)
        or _find_fault_of_host(source, run, yard.table_name)
        or (by_schedule if isinstance(by_schedule, InputFaults) else None)
    )
    limits = job_check.limits_of(yard)
    job, warnings = (
        (misnamed, ()) if misnamed else job_check.check_job(source, yard, limits, given.started, made)
    )
    is_planned = isinstance(source, JobSource) and source.is_to_be_planned
    if isinstance(job, Job) and job.study:
        job = replace(job, study=None) if is_planned else InputFaults(_name_of(source), (NO_STUDY,))
    if isinstance(job, Job) and job.schedule:
        unscheduled = None if is_planned else _find_missing_schedule(source)
        job = InputFaults(_name_of(source), (unscheduled,)) if unscheduled else replace(job, schedule=None)
    if is_planned:
        return _answer_dry_run(yard, admitting, job, warnings)
    values: RunUpdate = {
        "kind": "train",
        **({} if isinstance(job, InputFaults) else job_values(job)),
        **job_check.find_submitter(
            source, job, run, made, None if isinstance(by_schedule, InputFaults) else by_schedule
        ),
        "warnings": warnings,
    }
    if isinstance(job, InputFaults):
        return admitting.refuse(job, values)
    held_back = _wait_for_runs(admitting, job, values) or resuming.drains(admitting, job, values)
    if held_back:
        return held_back
    known, admitted = (
        Logbook(yard.table_name).read_earlier(),
        Admitted(reason=references.describe_warnings(warnings)),
    )
    mine = Claim(
        run=run,
        hosts=job.gang,
        created=_turn_of(admitting, job),
        waits=False,
        priority=job.priority,
        dollars=_most_dollars(yard, job, known),
        by=values.get("submitter") or submitter.UNKNOWN,
    )
    answer = slots.admit(admitting, job, mine, values, admitted, limits, known.money)
    if isinstance(answer, Admitted):
        s3.put_json(yard.bucket_name, keys.job(run), serialization.to_json(job))
        if job.checkpoints.resume:
            _copy_checkpoint(job.checkpoints.resume, run, yard.bucket_name)
    return answer


def _answer_dry_run(
    yard: JobSettings, admitting: Admission, job: Job | InputFaults, warnings: tuple[str, ...]
) -> ToPlan | NotPlanned:
    """Answer a dry run, which writes nothing and takes no slot."""
    if isinstance(job, InputFaults):
        refused: Refused | None = admitting.refuse_or_none(job)
    else:
        book = Logbook(yard.table_name)
        known = book.read_earlier()
        asks = _most_dollars(yard, job, known)
        refused = slots.over_budget(
            book, asks, book.read_open_runs().claims, job_check.limits_of(yard), known.money, clock()
        )
    if refused:
        return NotPlanned(error=refused.error, reason=refused.reason)
    return ToPlan(
        reason=references.describe_warnings(warnings), job=serialization.to_json(job), warnings=warnings
    )


def _most_dollars(yard: JobSettings, job: Job, known: EarlierResults) -> float:
    return promise.most_dollars(job, Prices(yard.aws_region, known.prices))


def _name_of(source: JobSource | InputFaults) -> str:
    return source.source if isinstance(source, InputFaults) else source.name


def _find_fault_of_trial(source: JobSource | InputFaults, run: str, ledger: Ledger) -> InputFaults | None:
    """Return the fault of a trial whose execution has another name, or whose study does not run or belongs to another
    user. The name lets a study start each trial once."""
    trial = None if isinstance(source, InputFaults) else source.trial
    if trial is None:
        return None
    if trial.run != run:
        problem = (
            f"{run} cannot be trial {trial.number} of {trial.study}, whose execution is named {trial.run}; "
            "nothing was started. Only the turn of a study starts trials: leave the key trial out"
        )
        return InputFaults("The execution's name", (Fault("", problem),))
    study = ledger.run(trial.study)
    if study is None or study.kind != STUDY or (study.submitter or submitter.UNKNOWN) != trial.submitter:
        problem = f"{trial.submitter} has no study {trial.study}, so that {run} cannot be a trial of it"
        return InputFaults("The execution's input", (Fault("trial", problem),))
    if study.ended or study.cut_short:
        problem = f"the study {trial.study} is over, so that its trial {trial.number} does not start"
        return InputFaults("The execution's input", (Fault("trial", problem),))
    return None


def _find_fault_of_host(source: JobSource | InputFaults, run: str, table_name: str) -> InputFaults | None:
    """Return the fault of a run that is to serve a model and that no request has started."""
    serves = None if isinstance(source, InputFaults) else source.serves
    if serves is None:
        return None
    from lambdas.aws.dynamodb.models import Models  # most runs serve no model, so that Admit starts faster
    from trainyard.protocol.ledger.models import VersionState

    rows = Models(table_name).read(serves.model)
    row = rows.served_as(serves.number) if rows else None
    version = rows.find(str(serves.number)) if rows else None
    if version and version.state is not VersionState.READY:
        problem = f"version {version.shown} of {serves.model} is {version.state}, so no host serves it"
        return InputFaults("The execution's input", (Fault("serves", problem),))
    if row and row.run == run and row.by == serves.submitter:
        return None
    problem = (
        f"no request of {serves.submitter} has started {run} for version {serves.number} of {serves.model}"
    )
    return InputFaults("The execution's input", (Fault("serves", problem),))


def _wait_for_runs(admitting: Admission, job: Job, values: RunUpdate) -> AfterRuns | Waits | Refused | None:
    if job.start_after is None:
        return None
    from lambdas.steps import dependencies  # most runs wait for no other, so that Admit starts faster

    return dependencies.wait(admitting, job, values)


def _turn_of(admitting: Admission, job: Job) -> datetime:
    """Return the beginning of the run's wait for a slot."""
    row = admitting.ledger.run(admitting.given.run) if job.start_after else None
    return (row.begun if row else None) or admitting.given.started


def _find_missing_schedule(source: JobSource | InputFaults) -> Fault | None:
    if isinstance(source, InputFaults) or source.scheduled:
        return None
    return Fault("schedule", source.refused or NO_SCHEDULE)


def _copy_checkpoint(earlier: str, run: str, yard_bucket: str) -> None:
    """Make the last checkpoint of the earlier run the first of this one. Its files stay where they are."""
    latest = job_check.read_document(yard_bucket, keys.latest_checkpoint(earlier))
    if latest:
        s3.put_json_once(yard_bucket, keys.latest_checkpoint(run), {**latest, "before": []})
