"""The check of a job file, which results in a Job or in all of its faults (model/job.py declares the keys)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainyard.command_line import command_line
from trainyard.core.jobfile import batch_rules, document, other_keys, rules, study_rules
from trainyard.core.model.job import Job
from trainyard.core.model.job_fields import NAME
from trainyard.core.model.study import Study
from trainyard.protocol import keys
from trainyard.protocol.conversions import ForVersion
from trainyard.protocol.schedules import Scheduled
from trainyard.protocol.serving import Serves
from trainyard.protocol.trial import Trial
from trainyard.values.fields import Flag, Text, key
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Anything, Optional, Record
from trainyard.values.validation import Fault, InputFaults, show_value

PLANNED = r".+\.(?i:plan\.(yaml|yml|json))"
UPLOADED = r"\S{1,1024}"


@dataclass(frozen=True, kw_only=True)
class JobSource:
    """The input of an execution: the key of a job file under jobs/, or the job itself."""

    job_key: str | None = key(
        None,
        Text(
            keys.JOBS + r"[^\x00-\x1f]+\.(?i:yaml|yml|json)",
            f"a key under {keys.JOBS} that ends in .yaml, .yml or .json",
        ),
        "A job file in the bucket.",
    )
    version_id: str | None = key(None, Text(UPLOADED, "a text"), "The version that was uploaded.")
    etag: str | None = key(None, Text(UPLOADED, "a text"), "Its key, for a bucket without versioning.")
    requester: str | None = key(None, Text(UPLOADED, "a text"), "The account that has uploaded it.")
    job: Mapping[str, Any] | None = key(None, Anything(), "The job itself.")
    dry_run: bool = key(False, Flag(), "`true`: plan the run, and launch nothing.")
    trial: Trial | None = key(
        None,
        Optional(Trial),
        "The place of the job in its study. The turn of a study starts such executions.",
    )
    for_version: ForVersion | None = key(
        None,
        Optional(ForVersion),
        "The version of a model that the job prepares. The workflow version starts such executions.",
    )
    serves: Serves | None = key(
        None,
        Optional(Serves),
        "The version of a model that the job serves. The workflow version starts such executions.",
    )

    scheduled: Scheduled | None = key(
        None,
        Optional(Scheduled),
        "The schedule and its time for which the run starts. The function submit starts such executions.",
    )

    refused: str | None = key(
        None, Text(r"[\s\S]{1,2000}", "a text"), "Why the schedule of the job file was not made."
    )

    @property
    def name(self) -> str:
        """Return the name under which a reason lists the faults."""
        return self.job_key or "the execution's input"

    @property
    def is_to_be_planned(self) -> bool:
        """Return True if the job is only planned, by the input's `dry_run` or by a file name such as
        digits.plan.yaml."""
        return self.dry_run or re.fullmatch(PLANNED, self.job_key or "") is not None


def read_input(execution_input: object) -> JobSource | InputFaults:
    """Read the input of an execution, which has either `job_key` (with `version_id` and `etag`) or `job`."""
    source, section = Record(JobSource).read_document(execution_input)
    section.require_one(("job_key", "job"), '{"job_key": "jobs/x.yaml"} or {"job": {...}}')
    if source.trial and source.job is None:
        section.fault("trial", "is allowed only with job: the turn of a study fills the values of a trial in")
    if source.for_version and source.job is None:
        section.fault("for_version", "is allowed only with job: the workflow version makes it")
    if source.serves and source.job is None:
        section.fault("serves", "is allowed only with job: the workflow version makes it")
    return InputFaults("The execution's input", tuple(section.faults)) if section.faults else source


def parse(text: bytes, *, source: str, bucket: str) -> Job | InputFaults:
    """Read the job in an uploaded file, or return its faults.

    `source` is the file's key, which the reason names. `bucket` is the yard's bucket. URIs may name no other, either by
    name or by the placeholder BUCKET.
    """
    found = document.parse(text, source=source, what="a job file")
    return found if isinstance(found, InputFaults) else check(found, source=source, bucket=bucket)


def check(job: object, *, source: str, bucket: str) -> Job | InputFaults:
    """Read the job in a mapping such as an inline `{"job": {...}}`, or return its faults."""
    found = document.open_document(
        batch_rules.with_program(job),
        Job,
        source=source,
        what="a job",
        bucket=bucket,
        locations=other_keys.locations(),
    )
    if isinstance(found, InputFaults):
        return found
    read, section = found
    written = rules.Written(section.values, section.faults)
    whole = study_rules.settle(rules.settle(batch_rules.settle(read, written), written))
    study_rules.check_study(whole, written)
    if whole.study and whole.schedule:
        section.fault("schedule", f"is not allowed together with study; {_advise_cron()}")
    if whole.study and whole.start_after:
        section.fault("start_after", f"is not allowed together with study; {_advise_order()}")
    if whole.study:
        section.faults.extend(_corner_faults(section.values, whole.study, bucket, tuple(section.faults)))
    return InputFaults(source, tuple(section.faults)) if section.faults else whole


def _advise_cron() -> str:
    submit = command_line("submit", "FILE", "--detach")
    return f"a schedule starts runs of one job. Let a cron of your own start the study: {submit}"


def _advise_order() -> str:
    submits = " && ".join(command_line("submit", file) for file in ("FIRST", "STUDY"))
    return (
        f"a study starts at once. Start it once the other run has succeeded: {submits}. "
        "Other jobs may start after a study"
    )


def _corner_faults(
    job: Mapping[str, Any], study: Study, bucket: str, known: tuple[Fault, ...]
) -> Iterator[Fault]:
    """Yield the first fault of each sound parameter for which a job with one of its outermost or chosen values has
    faults that the job without the study does not have. `known` are the faults of the file."""
    program = job.get("program")
    if not isinstance(program, Mapping) or not all(
        isinstance(program.get(word) or {}, Mapping) for word in ("args", "environment")
    ):
        return
    without = _faults_of(study_rules.with_values(job, {}), bucket)
    faulty = {
        path for path in study.parameters if study_rules.is_faulty(f"{study_rules.PARAMETERS}.{path}", known)
    }
    for path, value, point in study_rules.corner_points(study):
        if path in faulty or point.keys() & faulty:
            continue
        new = [
            each for each in _faults_of(study_rules.with_values(job, point), bucket) if each not in without
        ]
        if new:
            faulty.add(path)
            problem = f"the job refuses {show_value(value)}: {new[0].path}: {new[0].problem}"
            yield Fault(f"{study_rules.PARAMETERS}.{path}", problem)
    if faulty or study_rules.is_faulty("study.then", known):
        return
    retrained = study_rules.with_values(job, study.then.retrain or {})
    new = [each for each in _faults_of(retrained, bucket) if each not in without]
    if new:
        problem = f"the job refuses these values: {new[0].path}: {new[0].problem}"
        yield Fault("study.then.retrain", problem)


def _faults_of(job: Mapping[str, Any], bucket: str) -> tuple[Fault, ...]:
    found = check(job, source="", bucket=bucket)
    return found.faults if isinstance(found, InputFaults) else ()


def has_study(text: bytes, *, key: str) -> bool:
    """Return True for the file of a study. A file that is only planned is planned as a run."""
    found = _read(text, key)
    is_planned = re.fullmatch(PLANNED, key) is not None
    return not is_planned and isinstance(found, Mapping) and found.get("study") is not None


def has_schedule(text: bytes, *, key: str) -> bool:
    """Return True for a job file that makes a schedule. A file that is only planned is planned as a run."""
    found = _read(text, key)
    is_planned = re.fullmatch(PLANNED, key) is not None
    return not is_planned and isinstance(found, Mapping) and found.get("schedule") is not None


def name_of(text: bytes, *, key: str) -> str:
    """Return a valid job name for the run id: the name in the file if it is valid, otherwise a name made from
    the key."""
    found = _read(text, key)
    name = found.get("name") if isinstance(found, Mapping) else None
    if isinstance(name, str) and re.fullmatch(NAME, name):
        return name
    stem = key.rpartition("/")[2].rpartition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).lstrip("-0123456789")[:40].strip("-") or "job"


def _read(text: bytes, key: str) -> object:
    """Return the document of an uploaded file, or None for a file that is too big."""
    return (
        document.read(text, json_only=key.lower().endswith(".json"))
        if len(text) <= document.MOST_BYTES
        else None
    )
