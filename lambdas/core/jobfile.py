"""The job file: read, checked, and either a Job or every fault of it at once.

Apart from job.py because yaml costs a tenth of boto3's import, and only submit and admit read files.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lambdas.core import document
from lambdas.core.catalogue import catalogue, cpu_types, supported
from lambdas.core.job import (
    After,
    Checkpoints,
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
    Result,
    Role,
    Scalar,
    Sharding,
    Strategy,
)
from lambdas.core.reading import BareWord, Faults, Section, any_of, bare_word, did_you_mean, shown

MOST_BYTES = 64 * 1024
MOST_HOSTS = 50
MOST_TYPES = 10
MOST_ARGS = 100
MOST_DATA = 16
MOST_ARG_CHARACTERS = 1024
MOST_STEPS = 1_000_000_000
SMALLEST_ARG, LARGEST_ARG = 1e-100, 1e18
"""DynamoDB's numbers have 38 digits and end at 1e126; beyond these a program wants text anyway."""

NAME = r"[a-z][a-z0-9-]{0,39}"
RUN_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}"
"""As the start and stop documents take it."""
MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
ARG = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
DATA = r"[a-z][a-z0-9_]{0,31}"
VARIABLE = r"[A-Z_][A-Z0-9_]{0,63}"
KEYS = ("name", "program", "data", "cluster", "hardware", "checkpoints", "limits", "after")
HARDWARE = ("instance_types", "cpu_instance_types", "cpu_roles", "market", "max_dollars_per_hour")
SHIPPED = "training.programs."
PROGRAMS = (
    "digits",
    "downpour",
    "keras_text",
    "matmul",
    "mnist",
    "parameter_server_v1",
    "replicate",
)
"""The programs that ship with the image, each a module below SHIPPED."""
PLACEHOLDER = "BUCKET"

OURS = ("TF_CONFIG", "PYTHONPATH", "PATH", "HOME")
OUR_PREFIXES = ("TRAINYARD_", "AWS_", "LD_")
"""Environment variables that Trainyard or the host sets: a job that changed them would break what it stands on."""

WORDS = (
    "role", "index", "run", "attempt", "checkpoints", "tensorboard", "model", "metrics", "workers",
    "job_name", "task_index", "worker_hosts", "ps_hosts", "chief_host",
)  # fmt: skip
"""What a host puts in place of `${word}` in arguments and environment values, beside `${data.NAME}`."""
REPLACED = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
"""A word to replace, or the `$${` that stands for a plain `${`."""

SEVERAL_HOSTS = (Strategy.MULTI_WORKER, Strategy.PARAMETER_SERVER)
CPU_ROLES = (Role.CHIEF, Role.PS, Role.EVALUATOR)
CPU_ROLES_BY_DEFAULT = (Role.CHIEF, Role.PS)
CPU_TYPES_BY_DEFAULT = ("m7i.xlarge", "m6i.xlarge", "m7a.xlarge")


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
    cluster = _cluster(top.section("cluster", ("strategy", "workers", "parameter_servers", "evaluator")))
    hardware = _hardware(top.section("hardware", HARDWARE), cluster.strategy)
    checkpoints = _checkpoints(top.section("checkpoints", ("steps", "seconds", "keep")))
    limits = _limits(top.section("limits", ("hours", "dollars", "restarts", "wait_minutes")))
    after = _after(top.section("after", ("hosts", "image")), hardware.market)
    job = Job(
        name=str(name),
        program=program,
        data=data,
        cluster=cluster,
        hardware=hardware,
        checkpoints=checkpoints,
        limits=limits,
        after=after,
    )
    named = top.values.get("data")
    _check_together(job, faults, [str(entry) for entry in named] if isinstance(named, Mapping) else [])
    return _refuse(source, faults) if faults.found else job


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
            for problem in _placeholder_problems(str(value), entries, strategy):
                faults.add(f"program.{where}.{name}", problem)
    if job.gang > MOST_HOSTS:
        faults.add("cluster", f"makes {_gang_in_words(job)}; up to {MOST_HOSTS} hosts are allowed together")


def _gang_in_words(job: Job) -> str:
    counts = ", ".join(f"{job.roles.count(role)} {role}" for role in Role if role in job.roles)
    return f"{job.gang} hosts ({counts})"


def _placeholder_problems(text: str, entries: Collection[str], strategy: Strategy) -> Iterator[str]:
    for found in REPLACED.finditer(text):
        if found[0] == "$${":
            continue
        word, known = found[1], [*WORDS, *(f"data.{name}" for name in entries)]
        if not found[2]:
            yield f'{shown(text)} has a "${{" that no "}}" ends; write "$${{" for a plain "${{"'
        elif word == "ps_hosts" and strategy is not Strategy.PARAMETER_SERVER:
            yield f"${{ps_hosts}} needs the strategy {Strategy.PARAMETER_SERVER}, found {strategy}"
        elif word not in known:
            yield (
                f'"${{{word}}}" is nothing that a host can fill in{did_you_mean(word, known)}; allowed are '
                f'{any_of(known)}; write "$${{" for a plain "${{"'
            )


def _program(top: Section, bucket: str) -> Program:
    section = top.section("program", ("source", "module", "args", "environment", "requirements", "expect"))
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
        if module is not None and not is_shipped(module):
            section.fault("module", _not_shipped(module))
    return Program(
        module=module or "",
        source=source,
        args=_args(section),
        environment=_environment(section),
        requirements=requirements,
        expect=tuple(Result(each) for each in section.choices("expect", (), Result)),
    )


def is_shipped(module: str) -> bool:
    return module.startswith(SHIPPED) and module.removeprefix(SHIPPED) in PROGRAMS


def _not_shipped(module: str) -> str:
    known = [SHIPPED + program for program in PROGRAMS]
    allowed = f"without it only the image's own programs exist: {any_of(known)}"
    return f"{shown(module)} needs program.source; {allowed}{did_you_mean(module, known)}"


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


def _environment(section: Section) -> dict[str, str]:
    words = "a name of up to 64 capital letters, digits and underscores that begins with no digit"
    found: dict[str, str] = {}
    for path, name, value in section.entries("environment", name=VARIABLE, named=words, most=MOST_ARGS):
        problem = _variable_problem(name, value)
        if problem:
            section.faults.add(path, problem)
        else:
            found[name] = value
    return found


def _variable_problem(name: str, value: object) -> str | None:
    if name in OURS or name.startswith(OUR_PREFIXES):
        ours = any_of([*OURS, *(f"{prefix}*" for prefix in OUR_PREFIXES)])
        return f"is not a job's to set; Trainyard or the host sets {ours}"
    if isinstance(value, bool | int | float):
        return f"found {shown(value)}; text is allowed: write it in quotes"
    if not isinstance(value, str):
        return f"found {shown(value)}; one text is allowed"
    return _arg_problem(value)


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


def _data(top: Section, bucket: str) -> dict[str, Data]:
    words = "a name of up to 32 lower-case letters, digits and underscores that begins with a letter"
    found: dict[str, Data] = {}
    for path, name, value in top.entries("data", name=DATA, named=words, most=MOST_DATA):
        if isinstance(value, Mapping):
            section = Section(value, path, ("source", "sharding"), top.faults)
            sharding = Sharding(section.choice("sharding", Sharding.NONE, Sharding))
            found[name] = Data(source=_data_uri(section, "source", bucket), sharding=sharding)
        else:
            section = Section({name: value}, "data", (name,), top.faults)
            found[name] = Data(source=_data_uri(section, name, bucket))
    return found


def _data_uri(section: Section, key: str, bucket: str) -> str:
    if not section.given(key):
        section.fault(key, f"found nothing; s3://{PLACEHOLDER}/data/.../ is allowed")
    return _uri(section, key, bucket, folder="data", ends=("/",)) or ""


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
    why = "only workers train, also with parameter_server, whose chief only coordinates"
    workers = section.count("workers", 1, least=1, most=MOST_HOSTS, because=why)
    servers = section.count("parameter_servers", 0, least=0, most=MOST_HOSTS)
    evaluator = section.flag("evaluator", default=False)
    likely = Strategy.MULTI_WORKER if workers > 1 else Strategy.SINGLE
    strategy = Strategy(section.choice("strategy", likely, Strategy))
    if strategy is Strategy.PARAMETER_SERVER:
        _check_servers(section, workers, servers)
    else:
        needs = f"is allowed with the strategy {Strategy.PARAMETER_SERVER} only, found {strategy}"
        if servers:
            section.fault("parameter_servers", f"{servers} {needs}")
        if evaluator:
            section.fault("evaluator", f"true {needs}")
    if strategy in (Strategy.SINGLE, Strategy.MIRRORED) and workers > 1:
        section.fault(
            "workers", f"found {workers}; 1 is allowed with the strategy {strategy} (multi_worker has more)"
        )
    return Cluster(strategy=strategy, workers=workers, parameter_servers=servers, evaluator=evaluator)


def _check_servers(section: Section, workers: int, servers: int) -> None:
    if servers == 0 and section.values.get("parameter_servers") in (0, None):
        section.fault(
            "parameter_servers",
            f"found {'0' if section.given('parameter_servers') else 'nothing'}; 1 or more are required with the "
            f"strategy {Strategy.PARAMETER_SERVER}: they hold the variables",
        )
    if servers > workers:
        section.fault(
            "parameter_servers",
            f"more parameter servers than workers ({servers} for {workers}); up to {workers} are allowed: each "
            "costs a host, and more than one for every worker has nothing to do",
        )


def _hardware(section: Section, strategy: Strategy) -> Hardware:
    default = Hardware()
    market = section.choice("market", default.market, MarketChoice)
    cap = section.number("max_dollars_per_hour", 0.0, most=10_000, unit="dollars for the whole gang")
    types = default.instance_types
    if section.given("instance_types"):
        types = _instance_types(section, "instance_types", least=1, problem=_gpu_type_problem)
    cpu_instance_types, cpu_roles = _cpu_hardware(section, strategy)
    return Hardware(
        instance_types=types,
        cpu_instance_types=cpu_instance_types,
        cpu_roles=cpu_roles,
        market=MarketChoice(market),
        max_dollars_per_hour=cap or None,
    )


def _cpu_hardware(section: Section, strategy: Strategy) -> tuple[tuple[str, ...], tuple[Role, ...]]:
    """The second gang's types and roles: by default CPU hosts for what needs no GPU, since a GPU under a parameter
    server costs for nothing. An empty list of either means one gang for all."""
    if strategy is not Strategy.PARAMETER_SERVER:
        for key in ("cpu_instance_types", "cpu_roles"):
            if section.given(key):
                section.fault(
                    key, f"is allowed with the strategy {Strategy.PARAMETER_SERVER} only, found {strategy}"
                )
        return (), ()
    types: tuple[str, ...] = CPU_TYPES_BY_DEFAULT
    if section.given("cpu_instance_types"):
        types = _instance_types(section, "cpu_instance_types", least=0, problem=_cpu_type_problem)
    default: tuple[Role, ...] = CPU_ROLES_BY_DEFAULT if types else ()
    roles = tuple(Role(role) for role in section.choices("cpu_roles", default, CPU_ROLES))
    if roles and not types and section.values["cpu_instance_types"] == []:
        section.fault(
            "cpu_roles", "needs cpu_instance_types, which is empty: all roles are on instance_types"
        )
    if types and not roles and section.given("cpu_instance_types"):
        section.fault(
            "cpu_instance_types", "is for nobody, since cpu_roles is empty; name a role or leave it out"
        )
    return (types, roles) if types and roles else ((), ())


def _instance_types(
    section: Section, key: str, *, least: int, problem: Callable[[object], str | None]
) -> tuple[str, ...]:
    types = section.values[key]
    if not isinstance(types, list | tuple) or not least <= len(types) <= MOST_TYPES:
        found = f"a list of {len(types)}" if isinstance(types, list | tuple) else shown(types)
        section.fault(key, f"found {found}; a list of {least} to {MOST_TYPES} EC2 instance types is allowed")
        return ()
    for index, name in enumerate(types):
        fault = problem(name)
        if fault:
            section.fault(f"{key}[{index}]", fault)
        elif name in types[:index]:
            section.fault(f"{key}[{index}]", f"{shown(name)} stands in the list twice")
    return tuple(str(name) for name in types)


def _gpu_type_problem(name: object) -> str | None:
    if name in supported():
        return None
    if name in cpu_types():
        return (
            f"{shown(name)} has no GPU; it belongs in hardware.cpu_instance_types, for the roles that need none "
            f"(strategy {Strategy.PARAMETER_SERVER})"
        )
    known = catalogue().types.get(name) if isinstance(name, str) else None
    if known is None:
        hint = did_you_mean(name, supported())
        return f"{shown(name)} is not an EC2 instance type with an NVIDIA GPU that Trainyard knows{hint}"
    return f"{shown(name)} has a {known.gpu.upper()}, which the image's NVIDIA driver no longer supports"


def _cpu_type_problem(name: object) -> str | None:
    if name in cpu_types():
        return None
    if isinstance(name, str) and name in catalogue().types:
        return f"{shown(name)} has a GPU, which these roles would pay for and not use; it belongs in instance_types"
    hint = did_you_mean(name, cpu_types())
    return f"{shown(name)} is not an EC2 instance type without a GPU that Trainyard knows{hint}"


def _checkpoints(section: Section) -> Checkpoints:
    default = Checkpoints()
    return Checkpoints(
        steps=section.count("steps", default.steps, least=0, most=MOST_STEPS),
        seconds=section.number("seconds", default.seconds, least=1, most=86_400, unit="seconds"),
        keep=section.count("keep", default.keep, least=1, most=100),
    )


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
