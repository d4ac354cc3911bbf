"""The check of a job at its admission: its file, the objects that it names, secrets, and the limits of the yard."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lambdas.aws import s3, ssm
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.core.run import RunUpdate
from lambdas.core.run import slots as run_slots
from lambdas.core.run.slots import YardLimits
from lambdas.environment import LimitSettings
from lambdas.needs import may
from lambdas.steps import resuming, uploads
from trainyard.core.jobfile import batch_rules, check, data_files, references
from trainyard.core.jobfile.check import JobSource
from trainyard.core.jobfile.references import DataObjects, SourceObject
from trainyard.core.model import submitter, tokens
from trainyard.core.model.batch import Predict
from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.job import Job
from trainyard.core.model.names import secret_parameter
from trainyard.core.model.program import Data, Telemetry
from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.protocol import conversions, keys
from trainyard.protocol.requests import model_of
from trainyard.protocol.serving import DATA as MODEL_DATA
from trainyard.values.validation import Fault, InputFaults

if TYPE_CHECKING:
    from trainyard.protocol.ledger.models import VersionRow


class JobSettings(LimitSettings):
    """The yard's limits."""

    most_runs: int = 0
    """The most training runs at once; 0: no limit."""
    most_pool_hosts: int = 0
    """The most hosts in the warm pool; 0: none."""
    when_full: str = "wait"
    """`wait` or `refuse`."""
    data_buckets: tuple[str, ...] = ()
    """Other buckets that runs may read, as the setting of the yard names them."""
    registries: tuple[str, ...] = ()
    """Registries and repositories of container images, as the setting of the yard names them."""
    pull_through: tuple[str, ...] = ()
    """Registries that are read through Amazon ECR, each with its place there."""
    file_systems: tuple[str, ...] = ()
    """File systems that runs may mount, as the setting of the yard names them."""
    subnet_ids: tuple[str, ...] = ()
    """The subnets of hosts."""
    hosts_group: str = ""
    """The security group of hosts."""
    otlp_endpoint: str = ""
    """The receiver of OpenTelemetry metrics of all runs; empty: none."""
    otlp_headers: str = ""
    """The secret with the headers of requests to it; empty: none."""
    nccl_check_seconds: int = 0
    """The time limit of the check of a gang's collectives; 0: no check."""


OF_RUNS = (keys.latest_checkpoint(keys.ANY), keys.job(keys.ANY))
GRANTS = (
    may("read versions", keys.JOBS),
    may("read objects", keys.JOBS, keys.PROGRAMS, *OF_RUNS),
    may(
        "list objects",
        keys.JOBS,
        keys.PROGRAMS,
        keys.DATA,
        keys.outputs(keys.ANY),
        keys.model(keys.ANY),
        keys.MODELS,
        *OF_RUNS,
    ),
    may("read data buckets"),
    may("read registries"),
    may("read file systems"),
    may("write objects", keys.RUNS),
    may("call", "ssm:DescribeParameters"),
    may("use the ledger", "GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem"),
)
"""The permissions of an Admit of jobs."""


def limits_of(yard: JobSettings) -> YardLimits:
    return YardLimits(
        dollars=yard.most_dollars_per_run,
        runs=yard.most_runs,
        hosts=yard.most_hosts,
        month=yard.monthly_dollars,
        pool=yard.most_pool_hosts,
        waits=yard.when_full == "wait",
    )


def find_version(
    source: JobSource | InputFaults, run: str, table_name: str
) -> "VersionRow | InputFaults | None":
    """Return the version of a model that the run prepares, None for another run, or the fault of the input."""
    named = None if isinstance(source, InputFaults) else source.for_version
    if named is None:
        return None
    from lambdas.aws.dynamodb.models import Models  # most jobs name no model, so that Admit starts faster
    from trainyard.protocol.ledger.models import VersionState

    rows = Models(table_name).read(model_of(named.request) or "")
    made = rows.made_by(named.request) if rows else None
    if made and made.state is VersionState.MAKING and named.run == run:
        return made
    problem = (
        f"the yard makes no version by the request {named.request} that the run {run} prepares; nothing was started. "
        "Only the workflow version starts such runs: leave the key for_version out"
    )
    return InputFaults("The execution's input", (Fault("for_version", problem),))


def find_schedule_owner(
    source: JobSource | InputFaults, run: str, table_name: str
) -> str | InputFaults | None:
    """Return the user whose schedule starts the run, None for another run, or the fault of the input. The function
    submit records the run in the schedule before it starts it."""
    scheduled = None if isinstance(source, InputFaults) else source.scheduled
    if scheduled is None:
        return None
    # Most runs have no schedule, and Admit starts faster without the import.
    from lambdas.aws.dynamodb.schedules import Schedules

    table = Schedules(table_name)
    row = table.find(scheduled.schedule)
    if row and any(each.run == run and each.answer == "started" for each in row.recent):
        return row.by
    if admitted := table.run(run):  # it waits for a slot, and the schedule has changed meanwhile
        return admitted.submitter or submitter.UNKNOWN
    problem = (
        f"the yard has no schedule {scheduled.schedule} that starts {run}; nothing was started. Only schedules start "
        "such runs: leave the key scheduled out"
    )
    return InputFaults("The execution's input", (Fault("scheduled", problem),))


def find_submitter(
    source: JobSource | InputFaults,
    job: Job | InputFaults,
    run: str,
    made: "VersionRow | None" = None,
    by_schedule: str | None = None,
) -> RunUpdate:
    """Return the submitter, as far as IAM authenticates them, and the job file.

    The upload of a file version starts one run with a name derived from it, which Step Functions and the ledger accept
    once. An execution with another name was started by hand, perhaps not by the owner of the file. `made` is the
    version that the run prepares for its user, `by_schedule` the user whose schedule starts the run."""
    if isinstance(source, InputFaults):
        return {"submitter": submitter.UNKNOWN}
    if source.trial:
        return {"submitter": source.trial.submitter, "trial": source.trial}
    if made:
        return {"submitter": made.by}
    if source.serves:
        return {"submitter": source.serves.submitter, "serves": source.serves}
    if by_schedule:
        return {"job_key": source.job_key, "submitter": by_schedule, "requester": source.requester}
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


def check_job(
    source: JobSource | InputFaults,
    yard: JobSettings,
    limits: YardLimits,
    asked: datetime,
    made: "VersionRow | None" = None,
) -> tuple[Job | InputFaults, tuple[str, ...]]:
    """Return the job, or its faults, including those that only the bucket, Parameter Store or the limits of the yard
    reveal; and warnings about parts that will probably fail. `made` is the version that the run prepares."""
    if isinstance(source, InputFaults):
        return source, ()
    parsed = _parse(source, yard.bucket_name)
    if isinstance(parsed, InputFaults):
        return parsed, ()
    if made:
        parsed = replace(parsed, data={conversions.DATA: Data(source=made.origin)})
    if parsed.predict:
        found = _with_version(parsed, parsed.predict, yard)
        if isinstance(found, Fault):
            return InputFaults(source.name, (found,)), ()
        parsed = found
    if source.serves:
        folder = keys.version(source.serves.model, source.serves.number)
        parsed = replace(parsed, data={MODEL_DATA: Data(source=f"s3://{yard.bucket_name}/{folder}")})
    if faults := _faults_elsewhere(parsed, yard):
        return InputFaults(source.name, faults), ()
    objects = _data_facts(parsed)
    findings = references.findings(parsed, _source_facts(parsed), objects)
    parsed = references.with_objects(parsed, objects)
    faults = (
        *(batch_rules.as_written(each, parsed) for each in findings.faults),
        *_secret_faults(parsed, yard.yard),
        *_webhook_faults(parsed, yard.yard, submitter.submitter_of(source.job_key)),
        *run_slots.faults(parsed, limits, is_trial=source.trial is not None),
        *_model_faults(parsed, yard.table_name),
    )
    parsed, against, more = _with_container(parsed, yard)
    parsed, unmounted = _with_file_systems(parsed, yard)
    if yard.otlp_endpoint:
        parsed = replace(parsed, telemetry=Telemetry(yard.otlp_endpoint, yard.otlp_headers))
    if yard.nccl_check_seconds:
        parsed = replace(parsed, nccl_check_seconds=yard.nccl_check_seconds)
    faults = (*faults, *against, *unmounted)
    resume, warnings = parsed.checkpoints.resume, (*findings.warnings, *more)
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


def _faults_elsewhere(job: Job, yard: JobSettings) -> tuple[Fault, ...]:
    """Why what the job names in other buckets cannot be read; only what the yard may read is looked at."""
    others = references.list_foreign_uris(job, yard.bucket_name)
    buckets = [DataBucket.of(each) for each in yard.data_buckets]
    if unlisted := references.find_unlisted(others, buckets, yard.yard):
        return unlisted
    why = {uri: s3.explain_unreadable(*references.split_uri(uri)) for uri in set(others.values())}
    return references.unreadable(others, why)


def _with_container(job: Job, yard: JobSettings) -> tuple[Job, tuple[Fault, ...], tuple[str, ...]]:
    """Return the job with the digests of its container image, its faults and its warnings."""
    if job.program.container is None:
        return job, (), ()
    from lambdas.steps import containers  # most jobs have no container, so that Admit starts faster

    found = containers.pin(job, containers.Sources.of(yard.yard, yard.registries, yard.pull_through))
    return found.job, found.faults, found.warnings


def _with_file_systems(job: Job, yard: JobSettings) -> tuple[Job, tuple[Fault, ...]]:
    """Return the job with the addresses of its file systems, and its faults."""
    if not any(entry.folder for entry in job.data.values()):
        return job, ()
    from lambdas.steps import file_systems  # most jobs mount no file system, so that Admit starts faster
    from trainyard.core.model.yard.file_systems import ListedFileSystem

    listed = tuple(ListedFileSystem.of(each) for each in yard.file_systems)
    return file_systems.pin(
        job, file_systems.Yard(yard.yard, yard.aws_region, listed, yard.subnet_ids, yard.hosts_group)
    )


def _secret_faults(job: Job, yard: str) -> tuple[Fault, ...]:
    names = {secret_parameter(yard, secret) for secret in job.program.secrets.values()}
    return references.secret_faults(job, yard, ssm.read_parameter_types(names))


def _webhook_faults(job: Job, yard: str, sender: str) -> tuple[Fault, ...]:
    if not job.notify:
        return ()
    from lambdas.core.webhooks import targets  # most jobs name no webhook, so that Admit starts faster
    from trainyard.protocol import webhooks

    return targets.faults(job.notify, ssm.read_descriptions(webhooks.folder(yard)), yard, sender)


def _model_faults(job: Job, table_name: str) -> tuple[Fault, ...]:
    wanted = job.after.model
    if wanted is None:
        return ()
    from lambdas.aws.dynamodb.models import Models  # most jobs name no model, so that Admit starts faster
    from lambdas.core.models import registry

    models = Models(table_name)
    if models.exists(wanted.name):
        return ()
    return (Fault("after.model.name", registry.unknown_model(wanted.name, models.list_names()).reason),)


def _with_version(job: Job, wanted: Predict, yard: JobSettings) -> Job | Fault:
    """Return the job of a batch with the files of the version that it names."""
    from lambdas.aws.dynamodb.models import Models
    from lambdas.core.models import registry
    from lambdas.core.models.batch import add_version, find_version

    models = Models(yard.table_name)
    rows = models.read(wanted.name)
    try:
        if rows is None:
            raise registry.unknown_model(wanted.name, models.list_names())
        return add_version(job, wanted, find_version(wanted, rows), yard.bucket_name)
    except ModelRefused as refused:
        return Fault("predict.model", refused.reason)


def _owner_of_work(run: str, new: Job, yard_bucket: str) -> tuple[str | Fault, Collection[str]]:
    """Return the run whose checkpoints and outputs the hosts of the new job may read besides their own
    (bucket_access.py), and all runs in question that have outputs."""
    latest, job = (read_document(yard_bucket, key) for key in (keys.latest_checkpoint(run), keys.job(run)))
    runs = references.lineage(run, job)
    kept = {each for each in runs if s3.list_first_page(yard_bucket, keys.outputs(each))}
    return references.owner_of_work(runs, latest, kept=kept, restores=new.outputs.are_restored()), kept


def read_document(yard_bucket: str, key: str) -> Mapping[str, Any] | None:
    """Return the JSON object; None if it is missing or malformed, because a program may have written it."""
    try:
        return s3.get_json(yard_bucket, key)
    except ValueError:
        return None


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
        if entry.folder:
            continue
        most = references.MOST_LISTED
        found = s3.list_objects(*references.split_uri(entry.source), most=most)
        listed = [key for key, _, _ in found]
        sizes = [size for _, size, _ in found if size]
        archived = (key for key, size, storage in found if size and storage in s3.ARCHIVES)
        try:
            data_files.files_of(entry.source, (key for key in listed if not key.endswith("/")))
            same_file = ""
        except data_files.NamesMeetError as error:
            same_file = str(error)
        facts[name] = DataObjects(
            len(sizes),
            sum(sizes),
            same_file,
            gets=data_files.count_gets(sizes),
            archived=next(archived, ""),
            is_cut=len(found) == most,
        )
    return facts
