"""The shell lines that messages print: quoted, with the options that select the user's yard.

Functions and hosts print such lines, too. The lines name a yard unless it is the default one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DEFAULT_YARD = "trainyard"
"""The yard of commands without `--yard`, in lower case, as in tags and environments."""
_given: tuple[str, ...] = ()
"""The options of this process. All threads share them, because the page and hosts make lines in several threads."""


def command_line(*words: str | Path) -> str:
    """Return a shell line that runs `trainyard` with these words.

    The line repeats the options of the running command, such as `--yard Other`.
    """
    return shlex.join(["trainyard", *_given, *map(_word, words)])


def chosen_options() -> tuple[str, ...]:
    """Return the options of the running command that select a yard."""
    return _given


def yard_options(name: str) -> tuple[str, ...]:
    """Return the options that select a yard."""
    return () if name.lower() == DEFAULT_YARD else ("--yard", name)


@contextmanager
def repeat_options(options: Sequence[str]) -> Iterator[None]:
    """Repeat these options in every line that is made inside the block."""
    global _given
    before, _given = _given, tuple(options)
    try:
        yield
    finally:
        _given = before


def _word(word: str | Path) -> str:
    """Prefix a path that begins with a dash with `./`, so that it is not read as an option."""
    if isinstance(word, Path) and str(word).startswith("-"):
        return f"./{word}"
    return str(word)
