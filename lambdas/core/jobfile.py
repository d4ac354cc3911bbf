"""The job file: read, checked, and either a Job or every fault of it at once.

Apart from job.py because yaml costs a tenth of boto3's import, and only submit and admit read files.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lambdas.core import document
from lambdas.core.catalogue import catalogue, supported
from lambdas.core.job import (
    After,
    Cluster,
    Data,
    Fault,
    Hardware,
    Hosts,
    Image,
    Job,
    JobFaults,
    Limits,
    MarketChoice,
    Program,
    Scalar,
    Strategy,
)
from lambdas.core.reading import BareWord, Faults, Section, any_of, bare_word, did_you_mean, shown

MOST_BYTES = 64 * 1024
MOST_HOSTS = 50
MOST_TYPES = 10
MOST_ARGS = 100
MOST_DATA = 16
MOST_ARG_CHARACTERS = 1024
SMALLEST_ARG, LARGEST_ARG = 1e-100, 1e18
"""DynamoDB's numbers have 38 digits and end at 1e126; beyond these a program wants text anyway."""

NAME = r"[a-z][a-z0-9-]{0,39}"
RUN_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}"
"""As the start and stop documents take it."""
MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
ARG = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
DATA = r"[a-z][a-z0-9_]{0,31}"
KEYS = ("name", "program", "data", "cluster", "hardware", "limits", "after")
SHIPPED = "training.programs."
PLACEHOLDER = "BUCKET"


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


def read_input(execution_input: object) -> Uploaded | Inline | JobFaults:
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


def misnamed(run: str) -> JobFaults | None:
    """The execution's name is the run's id: in tags, keys, paths and commands. None when it fits them all."""
    if re.fullmatch(RUN_ID, run):
        return None
    problem = (
        f"{shown(run)} cannot be a run's id; start it again (start-execution --name) with a name of 1 to 80 "
        "letters, digits, hyphens and underscores that begins with a letter or digit, or without a name"
    )
    return JobFaults("The execution's name", (Fault("", problem),))


def parse(text: bytes, *, source: str, bucket: str) -> Job | JobFaults:
    """The job an uploaded file says, or every fault of it. `source` is the key, named in the reason;
    `bucket` is the yard's, the only one URIs may name (as itself or as the placeholder BUCKET)."""
    if len(text) > MOST_BYTES:
        return JobFaults(source, (too_big(len(text)),))
    found = document.read(text, json_only=source.endswith(".json"))
    if isinstance(found, document.NotReadable):
        return JobFaults(source, (Fault("", found.reason),))
    return check(found, source=source, bucket=bucket)


def gone(uploaded: Uploaded) -> JobFaults:
    """The job file was deleted before it was read."""
    version = f" (version {uploaded.version_id})" if uploaded.version_id else ""
    problem = (
        f"it does not exist{version}: it was deleted before it was read, or never uploaded; upload it again"
    )
    return JobFaults(uploaded.key, (Fault("", problem),))


def too_big(size: int) -> Fault:
    """The fault of a file of this size: it need not even be read."""
    return Fault("", f"it has {size} bytes; a job file has at most {MOST_BYTES}")


def check(job: object, *, source: str, bucket: str) -> Job | JobFaults:
    """The job a mapping says (an inline `{"job": {...}}`), or every fault of it."""
    if not isinstance(job, Mapping):
        what = "it is empty" if job is None else f"it is not a mapping but {shown(job)}"
        return JobFaults(source, (Fault("", f"{what}; a job has the keys {any_of(KEYS)}"),))
    faults = Faults()
    top = Section(job, "", KEYS, faults)
    words = "a name of 1 to 40 lower-case letters, digits and hyphens that begins with a letter"
    name = top.text("name", pattern=NAME, allowed=words, required=True)
    program = _program(top, bucket)
    data = _data(top, bucket)
    cluster = _cluster(top.section("cluster", ("strategy", "workers", "parameter_servers")))
    hardware = _hardware(top.section("hardware", ("instance_types", "market", "max_dollars_per_hour")))
    limits = _limits(top.section("limits", ("hours", "dollars", "restarts", "wait_minutes")))
    after = _after(top.section("after", ("hosts", "image")), hardware.market)
    if faults.found:
        return _refuse(source, faults)
    return Job(
        name=str(name),
        program=program,
        data={entry: Data(source=uri) for entry, uri in data.items()},
        cluster=cluster,
        hardware=hardware,
        limits=limits,
        after=after,
    )


def name_of(text: bytes, *, key: str) -> str:
    """A legal job name for the run id: the one the file says if that is legal, else one made of the key."""
    found = document.read(text, json_only=key.endswith(".json")) if len(text) <= MOST_BYTES else None
    said = found.get("name") if isinstance(found, Mapping) else None
    if isinstance(said, str) and re.fullmatch(NAME, said):
        return said
    stem = key.rpartition("/")[2].rpartition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).lstrip("-0123456789")[:40].strip("-") or "job"


def _refuse(source: str, faults: Faults) -> JobFaults:
    return JobFaults(source, tuple(Fault(path, problem) for path, problem in faults.found))


def _program(top: Section, bucket: str) -> Program:
    section = top.section("program", ("source", "module", "args", "requirements"))
    words = "a dotted Python module name of letters, digits and underscores, as in training.programs.digits"
    module = section.text("module", pattern=MODULE + r"(?<!.{201})", allowed=words, required=True)
    source = _uri(section, "source", bucket, folder="programs", ends=(".tar", ".tar.gz", ".tgz"))
    words = "a relative path inside program.source, as in requirements.txt"
    requirements = section.text(
        "requirements", pattern=r"(?![./-])(?!.*(/\.|//))[\w./-]{1,200}", allowed=words
    )
    if not section.given("source"):
        if requirements is not None:
            section.fault("requirements", "needs program.source: it names a file inside it")
        if module is not None and not module.startswith(SHIPPED):
            section.fault("module", f"{shown(module)} needs program.source; without it only {SHIPPED}* exist")
    return Program(module=module or "", source=source, args=_args(section), requirements=requirements)


def _args(section: Section) -> dict[str, Scalar]:
    words = "a name of up to 64 letters, digits, hyphens and underscores that begins with a letter"
    args: dict[str, Scalar] = {}
    for path, name, value in section.entries("args", name=ARG, named=words, most=MOST_ARGS):
        problem = _arg_problem(value)
        if problem:
            section.faults.add(path, problem)
        else:
            args[name] = value
    return args


def _arg_problem(value: object) -> str | None:
    if isinstance(value, BareWord):
        return bare_word(value)
    if isinstance(value, str):
        if len(value) > MOST_ARG_CHARACTERS:
            return f"has {len(value)} characters; up to {MOST_ARG_CHARACTERS} are allowed"
        if not value.isprintable():
            return f"found {shown(value)}; text without control characters is allowed"
    elif not isinstance(value, bool | int | float):
        return f"found {shown(value)}; one text, number or boolean is allowed"
    elif value and not SMALLEST_ARG <= abs(value) <= LARGEST_ARG:
        return f"found {shown(value)}, which the ledger cannot hold as a number; write it in quotes"
    return None


def _data(top: Section, bucket: str) -> dict[str, str]:
    words = "a name of up to 32 lower-case letters, digits and underscores that begins with a letter"
    entries = top.entries("data", name=DATA, named=words, most=MOST_DATA)
    folder = Section(
        {name: value for _, name, value in entries}, "data", [name for _, name, _ in entries], top.faults
    )
    found = {name: _uri(folder, name, bucket, folder="data", ends=("/",)) for _, name, _ in entries}
    for path, _, value in entries:
        if value is None:
            top.faults.add(path, f"found nothing; s3://{PLACEHOLDER}/data/.../ is allowed")
    return {name: uri for name, uri in found.items() if uri is not None}


def _uri(section: Section, key: str, bucket: str, *, folder: str, ends: tuple[str, ...]) -> str | None:
    """An S3 URI of the yard's bucket, with the placeholder resolved."""
    place = f"s3://{PLACEHOLDER}/{folder}/..."
    words = f"an S3 URI in the yard's bucket, {place} ending in {' or '.join(ends)}"
    uri = section.text(key, pattern=r".*", allowed=words)
    if uri is None:
        return None
    match = re.fullmatch(r"s3://([^/]+)/(.*)", uri, re.DOTALL)
    if not match:
        section.fault(key, f"{shown(uri)} is not {words}")
    elif match[1] not in (PLACEHOLDER, bucket):
        section.fault(
            key, f"{shown(uri)} is in another bucket; hosts read only s3://{bucket}/{folder}/ ({place})"
        )
    elif not match[2].startswith(f"{folder}/") or (match[2] == f"{folder}/" and folder == "programs"):
        section.fault(key, f"{shown(uri)} is not under {folder}/; hosts read only {place} here")
    elif not _is_plain_key(match[2]):
        section.fault(
            key, f"{shown(uri)} has an empty, . or .. part, a backslash or a control character in its path"
        )
    elif not match[2].endswith(ends):
        hint = f"; did you mean {shown(uri + '/')}?" if ends == ("/",) else ""
        section.fault(key, f"{shown(uri)} does not end in {' or '.join(ends)}{hint}")
    else:
        return f"s3://{bucket}/{match[2]}"
    return None


def _is_plain_key(key: str) -> bool:
    parts = key.removesuffix("/").split("/")
    return (
        key.isprintable()
        and "\\" not in key
        and len(key.encode()) <= 1024
        and not {"", ".", ".."} & set(parts)
    )


def _cluster(section: Section) -> Cluster:
    workers = section.count("workers", 1, least=1, most=MOST_HOSTS)
    servers = section.count("parameter_servers", 0, least=0, most=MOST_HOSTS)
    likely = Strategy.MULTI_WORKER if workers > 1 else Strategy.SINGLE
    strategy = Strategy(section.choice("strategy", likely, Strategy))
    if strategy is Strategy.PARAMETER_SERVER:
        section.fault(
            "strategy",
            "parameter_server is not supported yet: Trainyard would launch it and could not run it; "
            "allowed for now are single, mirrored, multi_worker",
        )
    elif servers:
        section.fault("parameter_servers", f"found {servers}; 0 is allowed with the strategy {strategy}")
    if strategy in (Strategy.SINGLE, Strategy.MIRRORED) and workers > 1:
        section.fault(
            "workers", f"found {workers}; 1 is allowed with the strategy {strategy} (multi_worker has more)"
        )
    return Cluster(strategy=strategy, workers=workers, parameter_servers=servers)


def _hardware(section: Section) -> Hardware:
    default = Hardware()
    market = section.choice("market", default.market, MarketChoice)
    cap = section.number("max_dollars_per_hour", 0.0, most=10_000, unit="dollars for the whole gang")
    return Hardware(
        instance_types=_instance_types(section)
        if section.given("instance_types")
        else default.instance_types,
        market=MarketChoice(market),
        max_dollars_per_hour=cap or None,
    )


def _instance_types(section: Section) -> tuple[str, ...]:
    types = section.values["instance_types"]
    if not isinstance(types, list | tuple) or not 1 <= len(types) <= MOST_TYPES:
        found = f"a list of {len(types)}" if isinstance(types, list | tuple) else shown(types)
        section.fault(
            "instance_types", f"found {found}; a list of 1 to {MOST_TYPES} EC2 instance types is allowed"
        )
        return ()
    for index, name in enumerate(types):
        problem = _type_problem(name)
        if problem:
            section.fault(f"instance_types[{index}]", problem)
        elif name in types[:index]:
            section.fault(f"instance_types[{index}]", f"{shown(name)} stands in the list twice")
    return tuple(str(name) for name in types)


def _type_problem(name: object) -> str | None:
    known = catalogue().types.get(name) if isinstance(name, str) else None
    if known is None:
        hint = did_you_mean(name, supported())
        return f"{shown(name)} is not an EC2 instance type with an NVIDIA GPU that Trainyard knows{hint}"
    if known.legacy:
        return f"{shown(name)} has a {known.gpu.upper()}, which the image's NVIDIA driver no longer supports"
    return None


def _limits(section: Section) -> Limits:
    default = Limits()
    return Limits(
        hours=section.number("hours", default.hours, most=720, unit="hours"),
        dollars=section.number("dollars", default.dollars, most=100_000, unit="dollars"),
        restarts=section.count("restarts", default.restarts, least=0, most=20),
        wait_minutes=section.number("wait_minutes", default.wait_minutes, most=1440, unit="minutes"),
    )


def _after(section: Section, market: MarketChoice) -> After:
    hosts = Hosts(section.choice("hosts", Hosts.TERMINATE, Hosts))
    image = Image(section.choice("image", Image.NEVER, Image))
    if hosts is Hosts.STOP and market is not MarketChoice.ON_DEMAND:
        section.fault(
            "hosts",
            f"stop is allowed with hardware.market on_demand only, found {market}: "
            "EC2 can terminate spot hosts of a fleet but never stop them",
        )
    return After(hosts=hosts, image=image)
