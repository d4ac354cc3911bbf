"""What only a job file (and partly a recipe) may hold: instance types, places in the yard's bucket, what a program is
given, with words that the hosts fill in."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from trainyard.core.model import progress
from trainyard.core.model.images import tensorflow_releases
from trainyard.core.model.instance_types import all_types, catalogue, cpu_types
from trainyard.core.model.secret_store import store_secret
from trainyard.core.model.yard import data_buckets
from trainyard.values.fields import Count, Entries, Kind, Several, Text, whole
from trainyard.values.lazy import dataclass
from trainyard.values.text import has_controls
from trainyard.values.validation import BareWord, Section, any_of, bare_word, did_you_mean, shown

MOST_TYPES = 10
MOST_GIB = 16_384
"""Of a gp3 volume."""
MOST_ARG_CHARACTERS = 1024
MOST_SHOWN_WORDS = 30
MOST_SHELL_CHARACTERS = 10_000
SMALLEST_ARG, LARGEST_ARG = 1e-100, 1e18
"""DynamoDB's numbers have 38 digits and end at 1e126; beyond these a program wants text anyway."""
PLACEHOLDER = "BUCKET"
HERE = r"\.{1,2}(?:/.*)?"
"""A path beside the job file: what `trainyard submit` sends along."""
FROM_GIT = r"git\+(?:https?|ssh|file)://(?!.*@-)\S+"
"""A program in a git repository: what `trainyard submit` clones and sends along."""
CONTROL = r"\u0000-\u001f\u007f-\u009f"
LINES = "\n\t"
"""Control characters that a text may have: several lines, and columns."""
TEXT_CONTROL = r"\u0000-\u0008\u000b-\u001f\u007f-\u009f"
"""The other control characters."""

OURS = ("TF_CONFIG", "PYTHONPATH", "PATH", "HOME")
OUR_PREFIXES = ("TRAINYARD_", "AWS_", "LD_")
"""Environment variables that Trainyard or the host sets: a job that changed them would break what it stands on."""
SECRETIVE = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
"""What an environment variable ends with that has a secret as its value: its name, or the name's last word."""

WORDS = (
    "role", "index", "run", "attempt", "checkpoints", "tensorboard", "model", "metrics", "workers",
    "job_name", "task_index", "worker_hosts", "ps_hosts", "chief_host",
    "rank", "hosts", "master_addr", "master_port",
)  # fmt: skip
"""What a host puts in place of `${word}` in arguments and environment values, beside `${data.NAME}`."""


@dataclass(frozen=True)
class TypeName(Kind[str]):
    """The name of an EC2 instance type; `others` says what of the types that are none of `known`."""

    known: Callable[[], tuple[str, ...]]
    called: str
    others: str = ""

    @property
    def words(self) -> str:
        return self.called

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.known())}

    def problem(self, value: object) -> str | None:
        known = self.known()
        if value in known:
            return None
        if isinstance(value, str) and value in catalogue().types:
            return f"{shown(value)} {self.others}"
        return f"{shown(value)} is not {self.words} that Trainyard knows{did_you_mean(value, known)}"


def instance_types(each: TypeName, *, least: int, named: str) -> Several[str]:
    """Different ones."""
    named = f"{least} to {MOST_TYPES} different EC2 instance types{named}"
    return Several(each=each, named=named, least=least, most=MOST_TYPES)


ANY_TYPES = instance_types(TypeName(all_types, "an EC2 instance type"), least=1, named="")
CPU_TYPES = instance_types(
    TypeName(
        cpu_types,
        "an EC2 instance type without a GPU",
        "has a GPU, which these roles would pay for and not use; it belongs in instance_types",
    ),
    least=0,
    named=" without a GPU",
)
DISK_GIB = Count(least=1, most=MOST_GIB, because="the size of the root disk in GiB")


MOST_ZONES = 10
ZONES = Several(
    each=Text(r"[a-z0-9-]{1,60}", "the name of an Availability Zone, as in us-east-1a"),
    named=f"1 to {MOST_ZONES} different Availability Zones",
    least=1,
    most=MOST_ZONES,
)


RANGE = ("min", "max")


@dataclass(frozen=True, kw_only=True)
class CountOrRange(Kind[int | Mapping[str, int]]):
    """A whole number, or the least and the most that it may be: `{min: 2, max: 8}`."""

    count: Count

    @property
    def words(self) -> str:
        return f"{self.count.words}, or a mapping with the keys {any_of(RANGE)}"

    def schema(self) -> dict[str, Any]:
        number = {name: value for name, value in self.count.schema().items() if name != "type"}
        ends = dict.fromkeys(RANGE, self.count.schema())
        inside = {"properties": ends, "additionalProperties": False, "required": list(RANGE)}
        return {"type": ["integer", "object"], **number, **inside}

    def problem(self, value: object) -> str | None:
        return self.count.problem(value)

    def found(self, section: Section, key: str, default: Any) -> Any:
        if not isinstance(section.values.get(key), Mapping):
            return super().found(section, key, default)
        before, inside = len(section.faults), section.section(key, RANGE)
        for end in RANGE:
            if not inside.given(end):
                inside.fault(end, self.count.missing)
        least, most = (self.count.read(inside, end, default) for end in RANGE)
        if len(section.faults) > before:
            return default
        if least > most:
            section.fault(key, f"min is {least}, which is above max, {most}; min up to max is allowed")
            return default
        return least if least == most else {"min": least, "max": most}


@dataclass(frozen=True)
class ImageName(Kind[str | Mapping[str, str]]):
    """The image of a job: a name (`pattern`, in words `allowed`), or which TensorFlow it is to have."""

    pattern: str
    allowed: str

    @property
    def words(self) -> str:
        return f'{self.allowed}; or {{tensorflow: "VERSION"}}, as in {{tensorflow: "2.18"}}'

    def schema(self) -> dict[str, Any]:
        version = {"type": "string", "pattern": whole(tensorflow_releases.VERSION)}
        by_version = {"properties": {"tensorflow": version}, "required": ["tensorflow"]}
        more = {"additionalProperties": False}
        return {"type": ["string", "object"], "pattern": whole(self.pattern), **by_version, **more}

    def problem(self, value: object) -> str | None:
        if not isinstance(value, Mapping):
            return Text(self.pattern, self.words).problem(value)
        if list(value) != ["tensorflow"]:
            found = any_of(tuple(map(str, value))) or "none"
            return f"found a mapping with the keys {found}; tensorflow alone is allowed"
        version = value["tensorflow"]
        if isinstance(version, int | float) and not isinstance(version, bool):
            return (
                f'found {shown(version)}; text is allowed: write it in quotes, as in {{tensorflow: "2.18"}}'
            )
        allowed = 'a version in quotes, as in {tensorflow: "2.18"}'
        return Text(tensorflow_releases.VERSION, allowed).problem(version)


@dataclass(frozen=True)
class ProgressPattern(Kind[str]):
    """A regular expression by which hosts find in what a program prints how far it is."""

    words = (
        f"a regular expression of up to {progress.MOST_CHARACTERS} characters with groups named "
        f"{any_of(progress.GROUPS)}"
    )

    def schema(self) -> dict[str, Any]:
        named = "|".join(progress.POSITIONS)
        has_one = whole(rf"[\s\S]*\(\?P<(?:{named})>[\s\S]*")
        return {"type": "string", "maxLength": progress.MOST_CHARACTERS, "pattern": has_one}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if not isinstance(value, str):
            return f"found {shown(value)}; {self.words} is allowed"
        problem = progress.problem_with(value)
        return f"{shown(value)} {problem}" if problem else None


@dataclass(frozen=True, kw_only=True)
class Uri(Kind[str]):
    """An S3 URI of the yard's bucket, with the placeholder resolved, or of another; whether the yard may read that one
    only the yard can say (references.py)."""

    folder: str
    ends: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"an S3 URI in the yard's bucket, {self.place}, or in one of its data_buckets, s3://NAME/..., ending in "
            f"{' or '.join(self.ends)}"
        )

    @property
    def missing(self) -> str:
        return f"found nothing; s3://{PLACEHOLDER}/{self.folder}/.../ is allowed"

    @property
    def place(self) -> str:
        return f"s3://{PLACEHOLDER}/{self.folder}/..."

    def schema(self) -> dict[str, Any]:
        part = rf"(?!\.{{1,2}}(?:/|$))[^/\\{CONTROL}]+"
        ends = "|".join(re.escape(end) for end in self.ends)
        last = "" if self.ends == ("/",) else rf"[^/\\{CONTROL}]*(?:{ends})"
        ours = rf"{PLACEHOLDER}/{self.folder}/(?:{part}/)*{last}"
        other = rf"{data_buckets.BUCKET}/(?:{part}/){'+' if self.ends == ('/',) else '*'}{last}"
        here = f"{HERE}|{FROM_GIT}" if self.is_of_programs else HERE
        return {"type": "string", "pattern": whole(rf"s3://(?:{ours}|{other})|{here}")}

    @property
    def is_of_programs(self) -> bool:
        return self.folder == "programs"

    def problem(self, value: object) -> str | None:
        if is_here(value) or (self.is_of_programs and is_from_git(value)):
            where = "is on the computer that submits" if is_here(value) else "is in a git repository"
            return (
                f"{shown(value)} {where}: `trainyard submit` sends it along; in a file that is uploaded by hand "
                f"{self.words} is allowed"
            )
        hint = _as_path(value, self.is_of_programs) if isinstance(value, str) else ""
        problem = Text(r"(?s)s3://[^/]+/.*", self.words).problem(value)
        return f"{problem}{hint}" if problem else None

    def found(self, section: Section, key: str, default: Any) -> Any:
        uri = super().found(section, key, None)
        if uri is None:
            return default
        bucket, _, path = uri.removeprefix("s3://").partition("/")
        problem = self._problem(bucket, path, section.bucket)
        if problem:
            section.fault(key, f"{shown(uri)} {problem}")
        bucket = section.bucket if bucket == PLACEHOLDER else bucket
        return default if problem else f"s3://{bucket}/{path}"

    def _problem(self, bucket: str, path: str, ours: str) -> str | None:
        folder = f"{self.folder}/"
        if bucket not in (PLACEHOLDER, ours):
            if not re.fullmatch(data_buckets.BUCKET, bucket, re.ASCII):
                return f"names no bucket that there can be; the yard's is {self.place}"
            if not path:
                return "names a whole bucket; name a folder or an object of it"
        elif not path.startswith(folder) or (path == folder and self.ends != ("/",)):
            return f"is not under {folder}; hosts read only {self.place} here"
        if not _is_plain_key(path):
            return "has an empty, . or .. part, a backslash or a control character in its path"
        if path.endswith(self.ends):
            return None
        hint = f"; did you mean {shown(f's3://{bucket}/{path}/')}?" if self.ends == ("/",) else ""
        return f"does not end in {' or '.join(self.ends)}{hint}"


def is_here(value: object) -> bool:
    """Whether it is a path beside the job file, and not a place in the bucket."""
    return isinstance(value, str) and re.fullmatch(HERE, value) is not None


def is_from_git(value: object) -> bool:
    """Return True for a program in a git repository, as in git+https://HOST/PATH@REF."""
    return isinstance(value, str) and re.fullmatch(FROM_GIT, value) is not None


def _as_path(value: str, is_program: bool) -> str:
    """Return what was probably meant: a path beside the job file, or a repository."""
    if "://" not in value and re.fullmatch(r"[^@\s]+@[^:\s]+:\S+", value) and is_program:
        user, _, path = value.partition(":")
        return f'; for a git repository write "git+ssh://{user}/{path}"'
    if value.startswith(("https://", "http://", "ssh://", "file://")):
        return f'; for a git repository write "git+{value}"' if is_program else ""
    if "://" in value or not value or isinstance(value, BareWord):
        return ""
    if value.startswith(("/", "~")):
        return "; a folder of this computer is written as seen from the job file, as in ./src or ../src"
    return f'; for the folder beside the job file write "./{value}"'


def _is_plain_key(key: str) -> bool:
    parts = key.removesuffix("/").split("/")
    return (
        not has_controls(key)
        and "\\" not in key
        and len(key.encode()) <= 1024
        and not {"", ".", ".."} & set(parts)
    )


@dataclass(frozen=True)
class Argument(Kind[str | int | float | bool]):
    """One value that a program is given."""

    words = f"a text (up to {MOST_ARG_CHARACTERS} characters, no control characters), number or boolean"

    def schema(self) -> dict[str, Any]:
        numbers = [
            {"const": 0},
            {"minimum": SMALLEST_ARG, "maximum": LARGEST_ARG},
            {"minimum": -LARGEST_ARG, "maximum": -SMALLEST_ARG},
        ]
        return {"anyOf": [_text_schema(), {"type": "number", "anyOf": numbers}, {"type": "boolean"}]}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if isinstance(value, str):
            return _text_problem(value)
        if not isinstance(value, bool | int | float):
            return f"found {shown(value)}; one text, number or boolean is allowed"
        if value and not SMALLEST_ARG <= abs(value) <= LARGEST_ARG:
            return f"found {shown(value)}, which the ledger cannot hold as a number; write it in quotes"
        return None


@dataclass(frozen=True)
class Word(Argument):
    """One word of a command line: as `Argument`, but no boolean, which every program spells its own way."""

    words = f"a text (up to {MOST_ARG_CHARACTERS} characters, no control characters) or number"

    def schema(self) -> dict[str, Any]:
        return {"anyOf": super().schema()["anyOf"][:2]}

    def problem(self, value: object) -> str | None:
        if isinstance(value, bool):
            return f"found {shown(value)}; {self.words} is allowed: write it in quotes, as the program wants it spelled"
        return super().problem(value)


@dataclass(frozen=True, kw_only=True)
class CommandLine(Several[str | int | float]):
    """The words of a command line, in order."""

    each: Kind[str | int | float | bool] = Word()
    distinct: bool = False
    named: str = ""

    @property
    def words(self) -> str:
        return f"a list of {self.least} to {self.most} words: {self.each.words}"

    def problem(self, value: object) -> str | None:
        problem = super().problem(value)
        return f"{problem}; {_as_words(value)}" if problem and isinstance(value, str) and value else problem


def _as_words(text: str) -> str:
    """Return how a command line is written that stands in one text: as a list, or for a shell where it needs one."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    if not words or len(words) > MOST_SHOWN_WORDS or re.search(r"[|&;<>$`*\n]", text):
        return "for lines that a shell reads write `shell: |` and the lines below it, instead of `command`"
    return f"write [{', '.join(map(_as_yaml, words))}]"


def _as_yaml(word: str) -> str:
    is_plain = re.fullmatch(r"-{0,2}[A-Za-z./_][\w./=-]*", word, re.ASCII)
    is_word = word.lower() in ("yes", "no", "on", "off", "true", "false", "null")
    return word if is_plain and not is_word else json.dumps(word, ensure_ascii=False)


@dataclass(frozen=True)
class ShellText(Kind[str]):
    """Lines for a shell. `${word}` may be the shell's own, so any text may stand in the braces."""

    words = f"a text of up to {MOST_SHELL_CHARACTERS} characters: lines for bash"

    def schema(self) -> dict[str, Any]:
        line = rf"(?:[\t\n]|[^{CONTROL}])*"
        pattern = whole(rf"{line}[^\s{CONTROL}]{line}")
        return {"type": "string", "maxLength": MOST_SHELL_CHARACTERS, "pattern": pattern}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if not isinstance(value, str):
            return f"found {shown(value)}; {self.words} is allowed, as in `shell: |` with the lines below"
        if not value.strip():
            return f"is empty; {self.words} is allowed, as in `shell: |` with the lines below"
        if len(value) > MOST_SHELL_CHARACTERS:
            return (
                f"has {len(value)} characters; up to {MOST_SHELL_CHARACTERS} are allowed: put the lines into a file of "
                "program.source and run that (command: [bash, run.sh])"
            )
        if found := re.search(rf"(?![\t\n])[{CONTROL}]", value):
            line = value.count("\n", 0, found.start()) + 1
            allowed = "only tabs and line breaks are allowed"
            return f"holds the control character {shown(found[0])} in line {line}; {allowed}"
        return None


@dataclass(frozen=True, kw_only=True)
class Arguments(Entries[str | int | float | bool]):
    """What a program is given: options by name, or a list of words."""

    each: Kind[str | int | float | bool] = Argument()

    @property
    def words(self) -> str:
        return f"{super().words}; or {self._line.words}"

    @property
    def _line(self) -> CommandLine:
        return CommandLine(least=0, most=self.most)

    def schema(self) -> dict[str, Any]:
        line = {name: value for name, value in self._line.schema().items() if name != "type"}
        return super().schema() | line | {"type": ["object", "array"]}

    def problem(self, value: object) -> str | None:
        if isinstance(value, Mapping):
            return None
        return f"found {shown(value)}; a mapping of names to values, or a list of words, is allowed"

    def found(self, section: Section, key: str, default: Any) -> Any:
        if isinstance(section.values.get(key), list):
            return list(self._line.found(section, key, ()))
        return super().found(section, key, default)


@dataclass(frozen=True)
class Variable(Kind[str]):
    """The value of an environment variable."""

    words = f'a text (up to {MOST_ARG_CHARACTERS} characters, no control characters; quote numbers: "1")'

    def schema(self) -> dict[str, Any]:
        return _text_schema()

    def problem(self, value: object) -> str | None:
        if isinstance(value, bool | int | float):
            return f"found {shown(value)}; text is allowed: write it in quotes"
        if not isinstance(value, str):
            return f"found {shown(value)}; one text is allowed"
        return bare_word(value) if isinstance(value, BareWord) else _text_problem(value)


@dataclass(frozen=True, kw_only=True)
class Variables(Entries[str]):
    """Environment variables. `plain`: their values stand in the job file, so that none may be a secret."""

    plain: bool = True

    @property
    def words(self) -> str:
        secrets = f", and none that ends like a secret ({any_of(SECRETIVE)})" if self.plain else ""
        return f"{super().words}. Not {_ours()}{secrets}"

    def schema(self) -> dict[str, Any]:
        not_these = f"(?!(?:{'|'.join(OURS)})$|{'|'.join(OUR_PREFIXES)})"
        if self.plain:
            not_these += f"(?!(?:.*_)?(?:{'|'.join(SECRETIVE)})$)"
        return {**super().schema(), "propertyNames": {"pattern": whole(not_these + self.name)}}

    def name_problem(self, name: object) -> str | None:
        if isinstance(name, str) and (name in OURS or name.startswith(OUR_PREFIXES)):
            return f"is not a job's to set; Trainyard or the host sets {_ours()}"
        if self.plain and isinstance(name, str) and name.rpartition("_")[2] in SECRETIVE:
            return (
                "looks like a secret, whose value would stand in the bucket, the ledger and the execution for all to "
                f"read; keep it in Parameter Store ({store_secret('/YARD/secrets/NAME')}, with the yard's name for "
                f"YARD), and name it instead: program.secrets: {{{name}: NAME}}"
            )
        return super().name_problem(name)


def _text_problem(text: str) -> str | None:
    if len(text) > MOST_ARG_CHARACTERS:
        return f"has {len(text)} characters; up to {MOST_ARG_CHARACTERS} are allowed"
    if has_controls(text, LINES):
        return f"found {shown(text)}; text without control characters is allowed"
    return None


def _ours() -> str:
    return any_of([*OURS, *(f"{prefix}*" for prefix in OUR_PREFIXES)])


def _text_schema() -> dict[str, Any]:
    """With no `${` but such as a host may fill in."""
    words = rf"\$\{{(?:{'|'.join(WORDS)}|data\.[a-z][a-z0-9_]*)\}}"
    text = rf"(?:{words}|\$\$\{{|\$(?!\{{)|[^${TEXT_CONTROL}])*"
    return {"type": "string", "maxLength": MOST_ARG_CHARACTERS, "pattern": whole(text)}
