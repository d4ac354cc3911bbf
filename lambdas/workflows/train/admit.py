"""Admit: check the job and everything that it names in the bucket; write the run to the ledger."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from lambdas import environment
from lambdas.aws import s3, ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.logbook import EarlierResults, Logbook
from lambdas.core.capacity import promise
from lambdas.core.capacity.prices import Prices
from lambdas.core.run import slots as run_slots
from lambdas.core.run.slots import YardLimits
from lambdas.core.run.updates import RunUpdate
from lambdas.environment import LimitSettings
from lambdas.needs import Needs, may
from lambdas.steps import admission, resuming, slots, uploads
from lambdas.steps.admission import Admission, job_values
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import AdmitInput, Admitted, Answer, Waits
from lambdas.steps.observability import clock
from trainyard.core.jobfile import check, data_files, references
from trainyard.core.jobfile.check import JobSource
from trainyard.core.jobfile.references import DataObjects, SourceObject
from trainyard.core.model import submitter, tokens
from trainyard.core.model.errors import JobRefused, Refused
from trainyard.core.model.job import Job
from trainyard.core.model.names import secret_parameter
from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.protocol import keys
from trainyard.protocol.ledger.claim import Claim
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


class TrainAdmitSettings(LimitSettings):
    """The yard's limits."""

    most_runs: int = 0
    """The most training runs at once; 0: no limit."""
    most_pool_hosts: int = 0
    """The most hosts in the warm pool; 0: none."""
    when_full: str = "wait"
    """`wait` or `refuse`."""
    data_buckets: tuple[str, ...] = ()
    """Other buckets that runs may read, as the setting of the yard names them."""


NO_STUDIES = Fault(
    "study",
    "a run has no study: this version of Trainyard checks studies and does not run them yet. Remove the section to run "
    "the job once",
)
OF_RUNS = (keys.latest_checkpoint(keys.ANY), keys.job(keys.ANY))
NEEDS = Needs(
    TrainAdmitSettings,
    (
        may("read versions", keys.JOBS),
        may("read objects", keys.JOBS, keys.PROGRAMS, *OF_RUNS),
        may("list objects", keys.JOBS, keys.PROGRAMS, keys.DATA, keys.outputs(keys.ANY), *OF_RUNS),
        may("read data buckets"),
        may("write objects", keys.RUNS),
        may("call", "ssm:DescribeParameters"),
        may("use the ledger", "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem"),
    ),
    memory_mib=1024,
)


@entry_point
def handler(given: AdmitInput) -> Admitted | Waits | ToPlan | NotPlanned | Refused:
    yard, run = environment.read(TrainAdmitSettings), given.run
    admitting = Admission(Ledger(yard.table_name), given, JobRefused)
    if taken := admitting.refuse_used_name():
        return taken
    admission.raise_denied(given)
    source = check.read_input(given.input)
    misnamed = admitting.refuse_misnamed() or _find_misnamed_trial(source, run)
    limits = _limits(yard)
    job, warnings = (misnamed, ()) if misnamed else _check(source, yard, limits, given.started)
    if isinstance(source, JobSource) and source.is_to_be_planned:
        return _answer_dry_run(yard, admitting, job, warnings)
    values: RunUpdate = {
        "kind": "train",
        **({} if isinstance(job, InputFaults) else job_values(job)),
        **_find_submitter(source, job, run),
        "warnings": warnings,
    }
    if isinstance(job, InputFaults):
        return admitting.refuse(job, values)
    drains = resuming.drains(admitting, job, values)
    if drains:
        return drains
    known, admitted = (
        Logbook(yard.table_name).read_earlier(),
        Admitted(reason=references.describe_warnings(warnings)),
    )
    mine = Claim(
        run=run,
        hosts=job.gang,
        created=given.started,
        waits=False,
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
    yard: TrainAdmitSettings, admitting: Admission, job: Job | InputFaults, warnings: tuple[str, ...]
) -> ToPlan | NotPlanned:
    """Answer a dry run, which writes nothing and takes no slot."""
    if isinstance(job, InputFaults):
        refused: Refused | None = admitting.refuse_or_none(job)
    else:
        book = Logbook(yard.table_name)
        known = book.read_earlier()
        asks = _most_dollars(yard, job, known)
        refused = slots.over_budget(
            book, asks, book.read_open_runs().claims, _limits(yard), known.money, clock()
        )
    if refused:
        return NotPlanned(error=refused.error, reason=refused.reason)
    return ToPlan(
        reason=references.describe_warnings(warnings), job=serialization.to_json(job), warnings=warnings
    )


def _most_dollars(yard: TrainAdmitSettings, job: Job, known: EarlierResults) -> float:
    return promise.most_dollars(job, Prices(yard.aws_region, known.prices))


def _find_misnamed_trial(source: JobSource | InputFaults, run: str) -> InputFaults | None:
    """Return the fault of a trial whose execution has another name. The name lets a study start each trial once."""
    trial = None if isinstance(source, InputFaults) else source.trial
    if trial is None or trial.run == run:
        return None
    problem = (
        f"{run} cannot be trial {trial.number} of {trial.study}, whose execution is named {trial.run}; "
        "nothing was started. Only the turn of a study starts trials: leave the key trial out"
    )
    return InputFaults("The execution's name", (Fault("", problem),))


def _find_submitter(source: JobSource | InputFaults, job: Job | InputFaults, run: str) -> RunUpdate:
    """Return the submitter, as far as IAM authenticates them, and the job file.

    The upload of a file version starts one run with a name derived from it, which Step Functions and the ledger accept
    once. An execution with another name was started by hand, perhaps not by the owner of the file."""
    if isinstance(source, InputFaults):
        return {"submitter": submitter.UNKNOWN}
    if source.trial:
        return {"submitter": source.trial.submitter, "trial": source.trial}
    version = source.version_id or source.etag or ""
    uploaded = tokens.run_id(
        job.name if isinstance(job, Job) else run.rpartition("-")[0],
        key=source.job_key or "",
        version=version,
    )
    if run != uploaded:
        return {"job_key": source.job_key, "submitter": submitter.UNKNOWN}
    who = submitter.submitter_of(source.job_key)
    return {"job_key": source.job_key, "submitter": who, "requester": source.requester}


def _limits(yard: TrainAdmitSettings) -> YardLimits:
    return YardLimits(
        dollars=yard.most_dollars_per_run,
        runs=yard.most_runs,
        hosts=yard.most_hosts,
        month=yard.monthly_dollars,
        pool=yard.most_pool_hosts,
        waits=yard.when_full == "wait",
    )


def _check(
    source: JobSource | InputFaults, yard: TrainAdmitSettings, limits: YardLimits, asked: datetime
) -> tuple[Job | InputFaults, tuple[str, ...]]:
    """Return the job, or its faults, including those that only the bucket, Parameter Store or the limits of the yard
    reveal; and warnings about parts that will probably fail."""
    if isinstance(source, InputFaults):
        return source, ()
    parsed = _parse(source, yard.bucket_name)
    if isinstance(parsed, InputFaults):
        return parsed, ()
    if parsed.study:
        return InputFaults(source.name, (NO_STUDIES,)), ()
    if faults := _faults_elsewhere(parsed, yard):
        return InputFaults(source.name, faults), ()
    findings = references.findings(parsed, _source_facts(parsed), _data_facts(parsed))
    faults = (
        *findings.faults,
        *_secret_faults(parsed, yard.yard),
        *run_slots.faults(parsed, limits, is_trial=source.trial is not None),
    )
    resume, warnings = parsed.checkpoints.resume, findings.warnings
    earlier = Ledger(yard.table_name).run(resume) if resume else None
    if resume and earlier and resuming.is_open(earlier):
        faults = (*faults, *resuming.faults(earlier, asked))
    elif resume:
        owner, kept = _owner_of_work(resume, parsed, yard.bucket_name)
        if isinstance(owner, Fault):
            faults = (*faults, owner)
        else:
            warnings = (*warnings, *references.warn_of_earlier_outputs(resume, owner, parsed, kept=kept))
            parsed = replace(parsed, checkpoints=replace(parsed.checkpoints, resume=owner))
    return InputFaults(source.name, faults) if faults else parsed, warnings


def _faults_elsewhere(job: Job, yard: TrainAdmitSettings) -> tuple[Fault, ...]:
    """Why what the job names in other buckets cannot be read; only what the yard may read is looked at."""
    others = references.list_foreign_uris(job, yard.bucket_name)
    buckets = [DataBucket.of(each) for each in yard.data_buckets]
    if unlisted := references.find_unlisted(others, buckets, yard.yard):
        return unlisted
    why = {uri: s3.explain_unreadable(*references.split_uri(uri)) for uri in set(others.values())}
    return references.unreadable(others, why)


def _secret_faults(job: Job, yard: str) -> tuple[Fault, ...]:
    names = {secret_parameter(yard, secret) for secret in job.program.secrets.values()}
    return references.secret_faults(job, yard, ssm.read_parameter_types(names))


def _owner_of_work(run: str, new: Job, yard_bucket: str) -> tuple[str | Fault, Collection[str]]:
    """Return the run whose checkpoints and outputs the hosts of the new job may read besides their own
    (bucket_access.py), and all runs in question that have outputs."""
    latest, job = (_document(yard_bucket, key) for key in (keys.latest_checkpoint(run), keys.job(run)))
    runs = references.lineage(run, job)
    kept = {each for each in runs if s3.list_first_page(yard_bucket, keys.outputs(each))}
    return references.owner_of_work(runs, latest, kept=kept, restores=new.outputs.are_restored()), kept


def _document(yard_bucket: str, key: str) -> Mapping[str, Any] | None:
    """Return the JSON object; None if it is missing or malformed, because a program may have written it."""
    try:
        return s3.get_json(yard_bucket, key)
    except ValueError:
        return None


def _copy_checkpoint(earlier: str, run: str, yard_bucket: str) -> None:
    """Make the last checkpoint of the earlier run the first of this one. Its files stay where they are."""
    latest = _document(yard_bucket, keys.latest_checkpoint(earlier))
    if latest:
        s3.put_json_once(yard_bucket, keys.latest_checkpoint(run), {**latest, "before": []})


def _parse(source: JobSource, yard_bucket: str) -> Job | InputFaults:
    if source.job_key is None:
        return check.check(source.job, source=source.name, bucket=yard_bucket)
    text = uploads.read(yard_bucket, source.job_key, source.version_id, what="a job file")
    return (
        text
        if isinstance(text, InputFaults)
        else check.parse(text, source=source.job_key, bucket=yard_bucket)
    )


def _source_facts(admitted: Job) -> SourceObject | None:
    if admitted.program.source is None:
        return None
    found = s3.get_start(*references.split_uri(admitted.program.source), most=references.HEAD_BYTES)
    return SourceObject(found.size, found.start) if found else None


def _data_facts(admitted: Job) -> dict[str, DataObjects]:
    facts = {}
    for name, entry in admitted.data.items():
        listed = dict(s3.list_sizes(*references.split_uri(entry.source), most=references.MOST_LISTED))
        sizes = [size for size in listed.values() if size]
        try:
            data_files.files_of(entry.source, (key for key in listed if not key.endswith("/")))
            same_file = ""
        except data_files.NamesMeetError as error:
            same_file = str(error)
        facts[name] = DataObjects(len(sizes), sum(sizes), same_file)
    return facts
