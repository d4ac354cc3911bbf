"""The shell lines that messages print: quoted, with the options by which the user chose a yard.

Functions and hosts print such lines, too. They name their yard unless it is the one that a command without options
means."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DEFAULT_YARD = "trainyard"
"""The yard of commands that name none, in lower case, as tags and environments have it."""
_given: tuple[str, ...] = ()
"""The options of this process. Every thread repeats them: the page and hosts make their lines in several."""


def command_line(*words: str | Path) -> str:
    """Return the line that runs `trainyard` with these words, as a shell reads it. The options of the command that runs
    now, such as `--yard Other`, are repeated."""
    return shlex.join(["trainyard", *_given, *map(_word, words)])


def chosen() -> tuple[str, ...]:
    """Return the options of the command that runs now, by which the user chose a yard."""
    return _given


def of_yard(name: str) -> tuple[str, ...]:
    """Return the options that make a command mean this yard."""
    return () if name.lower() == DEFAULT_YARD else ("--yard", name)


@contextmanager
def given(options: Sequence[str]) -> Iterator[None]:
    """Repeat these options in every line that is made inside the block."""
    global _given
    before, _given = _given, tuple(options)
    try:
        yield
    finally:
        _given = before


def _word(word: str | Path) -> str:
    """A path that begins with a dash would be read as an option."""
    if isinstance(word, Path) and str(word).startswith("-"):
        return f"./{word}"
    return str(word)
