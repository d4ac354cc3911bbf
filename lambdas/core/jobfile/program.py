"""The sections `program` and `data` of a job file: what runs, on what, with which words filled in by the hosts."""

import re
from collections.abc import Collection, Iterator, Mapping

from lambdas.core.model.job import Data, Program, Result, Scalar, Sharding, Strategy
from lambdas.core.model.validation import BareWord, Section, any_of, bare_word, did_you_mean, shown

MOST_ARGS = 100
MOST_DATA = 16
MOST_ARG_CHARACTERS = 1024
SMALLEST_ARG, LARGEST_ARG = 1e-100, 1e18
"""DynamoDB's numbers have 38 digits and end at 1e126; beyond these a program wants text anyway."""

MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
ARG = r"[A-Za-z][A-Za-z0-9_-]{0,63}"
DATA = r"[a-z][a-z0-9_]{0,31}"
VARIABLE = r"[A-Z_][A-Z0-9_]{0,63}"
PLACEHOLDER = "BUCKET"
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


def program(section: Section, bucket: str) -> Program:
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


def data(top: Section, bucket: str) -> dict[str, Data]:
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


def placeholder_problems(text: str, entries: Collection[str], strategy: Strategy) -> Iterator[str]:
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
