"""Rules that exclude files of a folder: `.gitignore`, `.trainyardignore`, and names that programs do not need."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GIT_IGNORE, OWN_IGNORE = ".gitignore", ".trainyardignore"
MADE_BY_TOOLS = frozenset(
    """__pycache__ .git .hg .svn .tox .nox .mypy_cache .pytest_cache .ruff_cache .ipynb_checkpoints .hypothesis
    .terraform .DS_Store .eggs node_modules __MACOSX .direnv .pixi""".split()  # noqa: SIM905 - as a page of strings
)
"""Names of files and folders that tools create again."""
ENVIRONMENTS = {"pyvenv.cfg": "a virtual environment", "conda-meta": "a conda environment"}
"""The kind of a folder, by the name of a file or folder in it."""
GIT_SECONDS = 60


@dataclass(frozen=True)
class Ignore:
    """One file of patterns, which are relative to the folder of the file.

    `below` is the path of that folder in the tree, `above` the path from that folder down to the root of the tree.
    """

    spec: GitIgnoreSpec
    below: str = ""
    above: str = ""

    def decide(self, path: str) -> bool | None:
        """Return True if the file excludes the path, False if it includes the path again, None if no pattern matches.
        The path of a folder ends in a slash."""
        return self.spec.check_file(self.above + path.removeprefix(self.below)).include

    def may_take_back(self, folder: str) -> bool:
        """Return True if a pattern with `!` may match something below this folder."""
        below = self.above + folder.removeprefix(self.below)
        for pattern in self.spec.patterns:
            text = str(pattern.pattern)
            if pattern.include is False and text.startswith("!"):
                literal = text[1:].lstrip("/").split("*")[0].split("?")[0].split("[")[0]
                if literal.startswith(below) or below.startswith(literal):
                    return True
        return False


def decision(rules: tuple[Ignore, ...], path: str) -> bool | None:
    """Return the decision of the nearest rule, the last of `rules`, as git does."""
    return next((found for rule in reversed(rules) if (found := rule.decide(path)) is not None), None)


def read(file: Path, below: str = "", above: str = "") -> Ignore | None:
    """Return the rules of an ignore file, or None if it cannot be read. Invalid lines are skipped, as git does."""
    try:
        lines = file.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return None
    from pathspec import GitIgnoreSpec  # Slow to import, and needed only for folders with such a file.

    sound = [line for line in lines if line.strip() and not line.startswith("#")]
    try:
        return Ignore(GitIgnoreSpec.from_lines(sound, backend="simple"), below, above)
    except ValueError:
        return Ignore(GitIgnoreSpec.from_lines(filter(_is_pattern, sound), backend="simple"), below, above)


def read_parent_rules(root: Path) -> tuple[Ignore, ...]:
    """Return the rules of the git work tree above `root`, the outermost first. Return none if they exclude `root`
    itself, because a folder that a job names is wanted."""
    top = work_tree(root)
    if top is None:
        return ()
    folders = [top, *reversed([each for each in root.parents if top in each.parents])] if top != root else []
    found = []
    for folder in folders:
        above = f"{root.relative_to(folder).as_posix()}/"
        rule = read(folder / GIT_IGNORE, above=above)
        found += [rule] if rule else []
    return () if decision(tuple(found), "") else tuple(found)


def work_tree(folder: Path) -> Path | None:
    """Return the top folder of the git work tree that this folder is in."""
    return next((each for each in (folder, *folder.parents) if is_there(each / ".git")), None)


def is_there(path: Path) -> bool:
    """Return True if the path exists. Return False in a folder that may not be read."""
    try:
        return path.exists()
    except OSError:
        return False


def list_tracked(root: Path) -> Iterator[str]:
    """Yield the paths below `root` that match an ignore pattern but are tracked by git."""
    try:
        listed = subprocess.run(
            [
                "git",
                "-c",
                "core.fsmonitor=false",
                "ls-files",
                "-z",
                "--cached",
                "--ignored",
                "--exclude-standard",
            ],
            cwd=root,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if listed.returncode == 0:
        yield from filter(None, os.fsdecode(listed.stdout).split("\0"))


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


SECRETS = (".env",)
"""Files that usually contain passwords and keys, with any ending (`.env.local`)."""
SECRETS_SHOWN = (".example", ".sample", ".template", ".dist")
"""Endings of `.env` files that contain no secrets."""


def made_by_tools(entry: os.DirEntry[str], path: str, names: set[str]) -> str:
    """Return the reason if programs never need the entry, otherwise an empty text."""
    if entry.name in MADE_BY_TOOLS:
        return "made by tools"
    if entry.name.endswith(".pyc") and f"{entry.name[:-4]}.py" in names:
        return "made by tools"
    is_secret = entry.name in SECRETS or entry.name.startswith(tuple(f"{each}." for each in SECRETS))
    if is_secret and not path.endswith("/") and not entry.name.endswith(SECRETS_SHOWN):
        return "secrets"
    if path.endswith("/"):
        for mark, what in ENVIRONMENTS.items():
            if is_there(Path(entry.path, mark)):
                return what
    return ""
