"""The job file: read, checked, and either a Job or every fault of it at once.

Apart from model/job.py, which says its keys, because yaml costs a tenth of boto3's import.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from lambdas.core.jobfile import document, rules
from lambdas.core.model.fields import Record, keys
from lambdas.core.model.job import NAME, Fault, InputFaults, Job
from lambdas.core.model.lazy import dataclass
from lambdas.core.model.validation import Faults, Section, any_of, shown


@dataclass(frozen=True)
class Uploaded:
    """The execution's input names an object under jobs/."""

    kind: ClassVar[str] = "uploaded"
    key: str
    version_id: str | None
    etag: str | None


@dataclass(frozen=True)
class Inline:
    """The execution's input holds the job itself."""

    kind: ClassVar[str] = "inline"
    job: Mapping[str, Any]


def read_input(execution_input: object) -> Uploaded | Inline | InputFaults:
    """What to run: exactly one of `job_key` (with `version_id`, `etag`) and `job`."""
    source, faults = "The execution's input", Faults()
    section = Section(execution_input, "", ("job_key", "version_id", "etag", "job"), faults)
    given = [key for key in ("job_key", "job") if section.given(key)]
    if len(given) != 1 and not faults.found:
        found = "both job_key and job" if given else "neither job_key nor job"
        faults.add("", f'found {found}; give {{"job_key": "jobs/x.yaml"}} or {{"job": {{...}}}}')
    words = "a key under jobs/ that ends in .yaml, .yml or .json"
    key = section.text("job_key", pattern=r"jobs/[^\x00-\x1f]+\.(yaml|yml|json)", allowed=words)
    version, etag = (
        section.text(each, pattern=r"\S{1,1024}", allowed="a text") for each in ("version_id", "etag")
    )
    job = section.values.get("job")
    if job is not None and not isinstance(job, Mapping):
        section.fault("job", f"found {shown(job)}; a mapping is allowed")
    if faults.found:
        return _refuse(source, faults)
    return Inline(job) if isinstance(job, Mapping) else Uploaded(str(key), version, etag)


def parse(text: bytes, *, source: str, bucket: str) -> Job | InputFaults:
    """The job an uploaded file says, or every fault of it. `source` is the key, named in the reason;
    `bucket` is the yard's, the only one URIs may name (as itself or as the placeholder BUCKET)."""
    if len(text) > document.MOST_BYTES:
        return InputFaults(source, (too_big(len(text)),))
    found = document.read(text, json_only=source.endswith(".json"))
    if isinstance(found, document.NotReadable):
        return InputFaults(source, (Fault("", found.reason),))
    return check(found, source=source, bucket=bucket)


def gone(uploaded: Uploaded) -> InputFaults:
    """The job file was deleted before it was read."""
    version = f" (version {uploaded.version_id})" if uploaded.version_id else ""
    problem = (
        f"it does not exist{version}: it was deleted before it was read, or never uploaded; upload it again"
    )
    return InputFaults(uploaded.key, (Fault("", problem),))


def too_big(size: int) -> Fault:
    """The fault of a file of this size: it need not even be read."""
    return Fault("", f"it has {size} bytes; a job file has at most {document.MOST_BYTES}")


def check(job: object, *, source: str, bucket: str) -> Job | InputFaults:
    """The job a mapping says (an inline `{"job": {...}}`), or every fault of it."""
    known = tuple(keys(Job))
    if not isinstance(job, Mapping):
        what = "it is empty" if job is None else f"it is not a mapping but {shown(job)}"
        return InputFaults(source, (Fault("", f"{what}; a job has the keys {any_of(known)}"),))
    faults = Faults()
    read = Record(Job).take(Section(job, "", known, faults, bucket))
    whole = rules.settled(read, rules.Written(job, faults))
    return _refuse(source, faults) if faults.found else whole


def name_of(text: bytes, *, key: str) -> str:
    """A legal job name for the run id: the one the file says if that is legal, else one made of the key."""
    found = document.read(text, json_only=key.endswith(".json")) if len(text) <= document.MOST_BYTES else None
    name = found.get("name") if isinstance(found, Mapping) else None
    if isinstance(name, str) and re.fullmatch(NAME, name):
        return name
    stem = key.rpartition("/")[2].rpartition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).lstrip("-0123456789")[:40].strip("-") or "job"


def _refuse(source: str, faults: Faults) -> InputFaults:
    return InputFaults(source, tuple(Fault(path, problem) for path, problem in faults.found))
