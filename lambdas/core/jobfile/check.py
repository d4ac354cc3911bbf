"""The job file: read, checked, and either a Job or every fault of it at once.

Apart from job.py because yaml costs a tenth of boto3's import, and only submit and admit read files.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lambdas.core.jobfile import document, hosts
from lambdas.core.jobfile import program as jobprogram
from lambdas.core.model import policy
from lambdas.core.model.job import Fault, InputFaults, Job, Role, Sharding, Strategy
from lambdas.core.model.names import NAME
from lambdas.core.model.validation import Faults, Section, any_of, shown

SECTIONS = {
    "program": ("source", "module", "args", "environment", "requirements", "expect"),
    "cluster": ("strategy", "workers", "parameter_servers", "chief", "evaluator"),
    "hardware": (
        "instance_types",
        "cpu_instance_types",
        "cpu_roles",
        "market",
        "max_dollars_per_hour",
        "image",
    ),
    "checkpoints": ("steps", "seconds", "keep", "resume"),
    "limits": ("hours", "dollars", "restarts", "wait_minutes"),
    "after": ("hosts", "image"),
    "policy": policy.KEYS,
}
"""Each section with its keys."""
KEYS = ("name", "program", "data", "cluster", "hardware", "checkpoints", "limits", "after", "policy")
SEVERAL_HOSTS = (Strategy.MULTI_WORKER, Strategy.PARAMETER_SERVER)


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
    if not isinstance(job, Mapping):
        what = "it is empty" if job is None else f"it is not a mapping but {shown(job)}"
        return InputFaults(source, (Fault("", f"{what}; a job has the keys {any_of(KEYS)}"),))
    faults = Faults()
    top = Section(job, "", KEYS, faults)
    words = "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter"
    name = top.text("name", pattern=NAME, allowed=words, required=True)
    program = jobprogram.program(_section(top, "program"), bucket)
    data = jobprogram.data(top, bucket)
    cluster = hosts.cluster(_section(top, "cluster"))
    hardware = hosts.hardware(_section(top, "hardware"), cluster)
    whole = Job(
        name=str(name),
        program=program,
        data=data,
        cluster=cluster,
        hardware=hardware,
        checkpoints=hosts.checkpoints(_section(top, "checkpoints")),
        limits=hosts.limits(_section(top, "limits")),
        after=hosts.after(_section(top, "after"), hardware.market),
        policy=policy.check(_section(top, "policy")),
    )
    named = top.values.get("data")
    _check_together(whole, faults, [str(entry) for entry in named] if isinstance(named, Mapping) else [])
    return _refuse(source, faults) if faults.found else whole


def name_of(text: bytes, *, key: str) -> str:
    """A legal job name for the run id: the one the file says if that is legal, else one made of the key."""
    found = document.read(text, json_only=key.endswith(".json")) if len(text) <= document.MOST_BYTES else None
    said = found.get("name") if isinstance(found, Mapping) else None
    if isinstance(said, str) and re.fullmatch(NAME, said):
        return said
    stem = key.rpartition("/")[2].rpartition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).lstrip("-0123456789")[:40].strip("-") or "job"


def _refuse(source: str, faults: Faults) -> InputFaults:
    return InputFaults(source, tuple(Fault(path, problem) for path, problem in faults.found))


def _section(top: Section, name: str) -> Section:
    return top.section(name, SECTIONS[name])


def _check_together(job: Job, faults: Faults, entries: Collection[str]) -> None:
    """What no section can know alone. `entries` are the data entries the file names, sound or not."""
    strategy = job.cluster.strategy
    for name, entry in job.data.items():
        if entry.sharding is Sharding.FILE and strategy not in SEVERAL_HOSTS:
            faults.add(
                f"data.{name}.sharding",
                f"found file, which shares the files out among hosts; the strategy {strategy} has one host: none is "
                f"allowed, or the strategies {any_of(SEVERAL_HOSTS)}",
            )
    for where, values in (("args", job.program.args), ("environment", job.program.environment)):
        for name, value in values.items():
            for problem in jobprogram.placeholder_problems(str(value), entries, strategy):
                faults.add(f"program.{where}.{name}", problem)
    if job.gang > hosts.MOST_HOSTS:
        faults.add(
            "cluster", f"makes {_gang_in_words(job)}; up to {hosts.MOST_HOSTS} hosts are allowed together"
        )


def _gang_in_words(job: Job) -> str:
    counts = ", ".join(f"{job.roles.count(role)} {role}" for role in Role if role in job.roles)
    return f"{job.gang} hosts ({counts})"
