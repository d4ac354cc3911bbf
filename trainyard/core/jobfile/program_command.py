"""What a command line starts, as far as its words show it: a module, a file of the program's archive, or who knows."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from trainyard.core.model.program import MODULE, Program
from trainyard.values.lazy import dataclass

PYTHON = re.compile(r"python(3(\.\d+)?)?")
SHELLS = ("sh", "bash", "dash")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
"""Commands that start a Python script, which stands among their own options."""
LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
"""Modules that are these commands: `python -m torch.distributed.run train.py`."""
HARMLESS = ("set", "export", "echo", "printf", "date", "ulimit", "nvidia-smi", "mkdir", "pip", "trap")
"""Commands of a shell's lines that neither change the folder nor make the program's files."""
PREFIXES = ("exec", "time", "nohup")
"""Words that may stand before a command in a shell's line."""


@dataclass(frozen=True)
class Started:
    """`module`: what is run as by `python -m`; `file`: the path of a file in the program's folder, without `./`.
    Neither where nobody can tell."""

    module: str | None = None
    file: str | None = None


def started(program: Program) -> Started:
    """What the job's program starts."""
    if program.module is not None:
        return Started(module=program.module)
    if program.shell is not None:
        return _started_by_words(_first_command(program.shell))
    return _started_by_words([str(word) for word in program.command])


def _started_by_words(words: Sequence[str]) -> Started:
    if not words:
        return Started()
    first, rest = words[0], words[1:]
    if "/" in first:
        return Started(file=_file(first))
    if PYTHON.fullmatch(first) or first in SHELLS:
        return _interpreted(rest, has_modules=first not in SHELLS)
    return _launched(rest) if first in LAUNCHERS else Started()


def key_of_start(program: Program) -> str:
    """Return the key of the job file that says what starts."""
    if program.shell is not None:
        return "program.shell"
    return "program.command" if program.command else "program.module"


def launched_by(program: Program) -> str | None:
    """The command that makes ranks of the job's hosts, if it is one of those that are known."""
    first, *rest = map(str, program.command or ("",))
    if PYTHON.fullmatch(first) and "-m" in rest:
        return LAUNCHER_MODULES.get("".join(rest[rest.index("-m") + 1 :][:1]))
    return first if first in LAUNCHERS else None


def _first_command(text: str) -> list[str]:
    """Return the words of the first command in a shell's lines that does anything to the program's folder; none if the
    lines cannot be read with certainty."""
    for line in text.replace("\\\n", " ").splitlines():
        words = _first_words(line)
        if words is None:
            return []
        if words and words[0] not in HARMLESS:
            return words
    return []


def _first_words(line: str) -> list[str] | None:
    """Return the words of the line's first command without what stands before it; None for a line that more than one
    line makes up (an open quotation)."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return None
    end = next((index for index, word in enumerate(words) if set(word) <= set("|&;<>()")), len(words))
    command = words[:end]
    while command and (command[0] in PREFIXES or re.fullmatch(r"[A-Za-z_]\w*=.*", command[0])):
        command.pop(0)
    follows_harmless = end < len(words) and bool(command) and command[0] in HARMLESS
    return None if follows_harmless else command  # it may make a file, or another command may follow


def _interpreted(rest: Sequence[str], *, has_modules: bool) -> Started:
    """Up to the first word that is no option: `python -u train.py`."""
    for index, word in enumerate(rest):
        if has_modules and word == "-m":
            named = rest[index + 1 : index + 2]
            return _launched(rest[index + 2 :]) if named and named[0] in LAUNCHER_MODULES else _module(named)
        if not word.startswith("-"):
            return Started(file=_file(word))
        if not has_modules or not re.fullmatch(r"-[bBdEiIOPqsSuvx]+", word):
            return Started()  # an option that may take the next word, or the program itself (-c)
    return Started()


def _launched(rest: Sequence[str]) -> Started:
    """The first word that is a Python file: options before it may have values of any kind."""
    for index, word in enumerate(rest):
        if word in ("-m", "--module"):
            return _module(rest[index + 1 : index + 2])
        if word.endswith(".py") and not word.startswith("-"):
            return Started(file=_file(word))
    return Started()


def _module(named: Sequence[str]) -> Started:
    """Of a name that the hosts fill in nobody knows."""
    known = [name for name in named if re.fullmatch(MODULE, name)]
    return Started(module=known[0]) if known else Started()


def _file(word: str) -> str | None:
    """The path, if it is one of the program's folder: not absolute, nothing to fill in, and no way out."""
    path = PurePosixPath(word)
    is_inside = word and not path.is_absolute() and not set(word) & set("$~*?`") and ".." not in path.parts
    return str(path) if is_inside else None
