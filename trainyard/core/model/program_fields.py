"""Kinds of values for the section `program` of a job file: words, variables and shell lines."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from trainyard.core.model import progress
from trainyard.core.model.job_fields import CONTROL
from trainyard.core.model.names import store_secret
from trainyard.values.fields import Kind, Several, whole
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Entries
from trainyard.values.text import has_controls
from trainyard.values.validation import BareWord, Section, any_of, bare_word, show_value

MOST_ARG_CHARACTERS = 1024
MOST_SHOWN_WORDS = 30
MOST_SHELL_CHARACTERS = 10_000
SMALLEST_ARG, LARGEST_ARG = 1e-100, 1e18
"""The limits of numbers. DynamoDB's numbers have 38 digits and end at 1e126."""
LINES = "\n\t"
"""The control characters that a text may contain, for several lines and columns."""
TEXT_CONTROL = r"\u0000-\u0008\u000b-\u001f\u007f-\u009f"
"""The other control characters."""
OURS = ("TF_CONFIG", "PYTHONPATH", "PATH", "HOME")
OUR_PREFIXES = ("TRAINYARD_", "AWS_", "LD_")
"""Environment variables that Trainyard or the host sets. A job that changed them would break its host."""
SECRETIVE = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
"""The names, or last words of names, of environment variables with a secret value."""
WORDS = (
    "role", "index", "run", "attempt", "checkpoints", "tensorboard", "model", "metrics", "workers",
    "job_name", "task_index", "worker_hosts", "ps_hosts", "chief_host",
    "rank", "hosts", "master_addr", "master_port",
)  # fmt: skip
"""The words that a host replaces as `${word}` in arguments and environment values, besides `${data.NAME}`."""


class ProgressPattern(Kind[str]):
    """A regular expression that finds the progress in the output of a program."""

    words = (
        f"a regular expression of up to {progress.MOST_CHARACTERS} characters with groups named "
        f"{any_of(progress.GROUPS)}, and others named as metrics"
    )

    def schema(self) -> dict[str, Any]:
        named = "|".join(progress.POSITIONS)
        has_one = whole(rf"[\s\S]*\(\?P<(?:{named})>[\s\S]*")
        return {"type": "string", "maxLength": progress.MOST_CHARACTERS, "pattern": has_one}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if not isinstance(value, str):
            return f"found {show_value(value)}; {self.words} is allowed"
        problem = progress.problem_with(value)
        return f"{show_value(value)} {problem}" if problem else None


class Argument(Kind[str | int | float | bool]):
    """One argument of a program."""

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
            return f"found {show_value(value)}; one text, number or boolean is allowed"
        if value and not SMALLEST_ARG <= abs(value) <= LARGEST_ARG:
            return f"found {show_value(value)}, which the ledger cannot hold as a number; write it in quotes"
        return None


class Word(Argument):
    """One word of a command line: an argument that is not a boolean, which each program spells differently."""

    words = f"a text (up to {MOST_ARG_CHARACTERS} characters, no control characters) or number"

    def schema(self) -> dict[str, Any]:
        return {"anyOf": super().schema()["anyOf"][:2]}

    def problem(self, value: object) -> str | None:
        if isinstance(value, bool):
            return f"found {show_value(value)}; {self.words} is allowed: write it in quotes, as the program expects it"
        return super().problem(value)


@dataclass(kw_only=True, repr=False, eq=False)
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
    """Return the correct form of a command line that is written as one text: a list, or shell lines if it needs a
    shell."""
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


class ShellText(Kind[str]):
    """Lines for a shell. Braces may contain any text, because `${word}` may be the shell's own."""

    words = f"a text of up to {MOST_SHELL_CHARACTERS} characters: lines for bash"

    def schema(self) -> dict[str, Any]:
        line = rf"(?:[\t\n]|[^{CONTROL}])*"
        pattern = whole(rf"{line}[^\s{CONTROL}]{line}")
        return {"type": "string", "maxLength": MOST_SHELL_CHARACTERS, "pattern": pattern}

    def problem(self, value: object) -> str | None:
        if isinstance(value, BareWord):
            return bare_word(value)
        if not isinstance(value, str):
            return (
                f"found {show_value(value)}; {self.words} is allowed, as in `shell: |` with the lines below"
            )
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
            return f"contains the control character {show_value(found[0])} in line {line}; {allowed}"
        return None


@dataclass(kw_only=True, repr=False, eq=False)
class Arguments(Entries[str | int | float | bool]):
    """The arguments of a program: options by name, or a list of words."""

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
        return f"found {show_value(value)}; a mapping of names to values, or a list of words, is allowed"

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        if isinstance(section.values.get(key), list):
            return list(self._line.read_present(section, key, ()))
        return super().read_present(section, key, default)


class Variable(Kind[str]):
    """The value of an environment variable."""

    words = f'a text (up to {MOST_ARG_CHARACTERS} characters, no control characters; quote numbers: "1")'

    def schema(self) -> dict[str, Any]:
        return _text_schema()

    def problem(self, value: object) -> str | None:
        if isinstance(value, bool | int | float):
            return f"found {show_value(value)}; text is allowed: write it in quotes"
        if not isinstance(value, str):
            return f"found {show_value(value)}; one text is allowed"
        return bare_word(value) if isinstance(value, BareWord) else _text_problem(value)


@dataclass(kw_only=True, repr=False, eq=False)
class Variables(Entries[str]):
    """Environment variables."""

    plain: bool = True
    """True if the values are written in the job file, so that secrets are refused."""

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
            return f"cannot be set by a job; Trainyard or the host sets {_ours()}"
        if self.plain and isinstance(name, str) and name.rpartition("_")[2] in SECRETIVE:
            return (
                "looks like a secret, whose value would be readable in the bucket, the ledger and the execution. Store "
                f"it in Parameter Store ({store_secret('/YARD/secrets/NAME')}, with the yard's name for YARD), and "
                f"refer to it: program.secrets: {{{name}: NAME}}"
            )
        return super().name_problem(name)


def _text_problem(text: str) -> str | None:
    if len(text) > MOST_ARG_CHARACTERS:
        return f"has {len(text)} characters; up to {MOST_ARG_CHARACTERS} are allowed"
    if has_controls(text, LINES):
        return f"found {show_value(text)}; text without control characters is allowed"
    return None


def _ours() -> str:
    return any_of([*OURS, *(f"{prefix}*" for prefix in OUR_PREFIXES)])


def _text_schema() -> dict[str, Any]:
    """Return the schema of a text whose `${...}` are all words that a host replaces."""
    words = rf"\$\{{(?:{'|'.join(WORDS)}|data\.[a-z][a-z0-9_]*)\}}"
    text = rf"(?:{words}|\$\$\{{|\$(?!\{{)|[^${TEXT_CONTROL}])*"
    return {"type": "string", "maxLength": MOST_ARG_CHARACTERS, "pattern": whole(text)}
