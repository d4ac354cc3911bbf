"""The module or file that a command line starts, as far as its words show it."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from trainyard.core.model.program import MODULE, Program
from trainyard.values.lazy import dataclass

PYTHON = re.compile(r"python(3(\.\d+)?)?")
SHELLS = ("sh", "bash", "dash")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed")
"""Commands that start a Python script, whose path is among their options."""
LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
"""Modules that are equivalent to these commands, as in `python -m torch.distributed.run train.py`."""
HARMLESS = ("set", "export", "echo", "printf", "date", "ulimit", "nvidia-smi", "mkdir", "pip", "trap")
"""Shell commands that neither change the folder nor create files of the program."""
PREFIXES = ("exec", "time", "nohup")
"""Words that may precede a command in a shell's line."""


@dataclass(frozen=True)
class Started:
    """The start of a program: a module of `python -m`, or a file in the program's folder, or neither if it is
    unclear."""

    module: str | None = None
    file: str | None = None


def find_start(program: Program) -> Started:
    """Return the module or file that the job's program starts."""
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
        return _find_after_interpreter(rest, has_modules=first not in SHELLS)
    return _find_python_file(rest) if first in LAUNCHERS else Started()


def key_of_start(program: Program) -> str:
    """Return the key of the job file that selects the start."""
    if program.shell is not None:
        return "program.shell"
    return "program.command" if program.command else "program.module"


def launched_by(program: Program) -> str | None:
    """Return the command that creates ranks from the job's hosts, if it is a known one."""
    first, *rest = map(str, program.command or ("",))
    if PYTHON.fullmatch(first) and "-m" in rest:
        return LAUNCHER_MODULES.get("".join(rest[rest.index("-m") + 1 :][:1]))
    return first if first in LAUNCHERS else None


def _first_command(text: str) -> list[str]:
    """Return the words of the first command in a shell's lines that is not harmless. Return no words if the lines are
    ambiguous."""
    for line in text.replace("\\\n", " ").splitlines():
        words = _first_words(line)
        if words is None:
            return []
        if words and words[0] not in HARMLESS:
            return words
    return []


def _first_words(line: str) -> list[str] | None:
    """Return the words of the line's first command without its prefixes. Return None for a line that is incomplete
    because of an open quotation."""
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


def _find_after_interpreter(rest: Sequence[str], *, has_modules: bool) -> Started:
    """Find the start among the arguments of an interpreter: the first word that is not an option, as in `python -u
    train.py`."""
    for index, word in enumerate(rest):
        if has_modules and word == "-m":
            named = rest[index + 1 : index + 2]
            return (
                _find_python_file(rest[index + 2 :])
                if named and named[0] in LAUNCHER_MODULES
                else _module(named)
            )
        if not word.startswith("-"):
            return Started(file=_file(word))
        if not has_modules or not re.fullmatch(r"-[bBdEiIOPqsSuvx]+", word):
            return Started()  # an option that may take the next word, or the program itself (-c)
    return Started()


def _find_python_file(rest: Sequence[str]) -> Started:
    """Find the first word that is a Python file. Options before it may have values of any kind."""
    for index, word in enumerate(rest):
        if word in ("-m", "--module"):
            return _module(rest[index + 1 : index + 2])
        if word.endswith(".py") and not word.startswith("-"):
            return Started(file=_file(word))
    return Started()


def _module(named: Sequence[str]) -> Started:
    """Return the module, or no start for a name that hosts fill in."""
    known = [name for name in named if re.fullmatch(MODULE, name)]
    return Started(module=known[0]) if known else Started()


def _file(word: str) -> str | None:
    """Return the path if it is in the program's folder: relative, without variables, and without `..`."""
    path = PurePosixPath(word)
    is_inside = word and not path.is_absolute() and not set(word) & set("$~*?`") and ".." not in path.parts
    return str(path) if is_inside else None
