"""Clone a repository, and find the commit of a folder, with the git command."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

SECONDS, CLONE_SECONDS = 60, 1800
MOST_DIFF = 2**20
"""The most bytes of a diff that are kept."""
NONINTERACTIVE = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
"""The environment for git, without password prompts and without writing into repositories."""


@dataclass(frozen=True)
class Cloned:
    """A clone in a folder that is deleted with this object. `folder` is the requested part of it."""

    folder: Path
    top: Path
    ref: str | None
    repository: str

    def __post_init__(self) -> None:
        weakref.finalize(self, _remove, str(self.top))


@dataclass(frozen=True)
class NotCloned:
    """The reason why a repository could not be cloned, as git states it."""

    reason: str


@dataclass(frozen=True)
class Origin:
    """The commit of a source. `diff` has the uncommitted changes of files that git tracks."""

    commit: str
    repository: str | None = None
    ref: str | None = None
    is_dirty: bool = False
    diff: bytes = b""

    def as_document(self, diff_key: str | None) -> dict[str, Any]:
        """Return the job's section `origin`. `diff_key` is the key of the diff."""
        said: dict[str, Any] = {"commit": self.commit, "repository": self.repository, "ref": self.ref}
        said |= {"dirty": self.is_dirty, "diff": diff_key}
        return {key: value for key, value in said.items() if value is not None}


def clone(source: str) -> Cloned | NotCloned:
    """Clone `git+SCHEME://HOST/PATH@REF#subdirectory=FOLDER`: only the newest commit of REF if the server supports
    that, otherwise the whole history."""
    url, ref, below = parts_of(source)
    top = Path(tempfile.mkdtemp(prefix="trainyard-git-"))
    cloned = Cloned(top / below if below else top, top, ref, remove_secrets(url))
    problem = _fetch(url, ref, top)
    if problem:
        return NotCloned(problem)
    if not cloned.folder.is_dir() or not cloned.folder.resolve().is_relative_to(top.resolve()):
        return NotCloned(f"the repository has no folder {below}")
    _take_times(top)
    return cloned


def parts_of(source: str) -> tuple[str, str | None, str]:
    """Return address, ref and subdirectory."""
    found = urlsplit(source.removeprefix("git+"))
    path, at, ref = found.path.rpartition("@")
    path, ref = (path, ref) if at else (found.path, "")
    below = parse_qs(found.fragment).get("subdirectory", [""])[0].strip("/")
    return urlunsplit((found.scheme, found.netloc, path, found.query, "")), ref or None, below


def name_of(source: str) -> str:
    """Return the name of the source: the subdirectory's, or the repository's."""
    url, _, below = parts_of(source)
    return (below or urlsplit(url).path.removesuffix(".git")).rstrip("/").rpartition("/")[2]


def origin_of(folder: Path, cloned: Cloned | None = None) -> Origin | None:
    """Return the commit of this folder, or None outside of a work tree or without git."""
    commit = _git_text(folder, "rev-parse", "--verify", "HEAD^{commit}")
    if commit and cloned:
        return Origin(commit, cloned.repository, cloned.ref)
    if commit is None or not _git_text(folder, "ls-tree", "--name-only", "HEAD", "."):
        return None  # a folder that no commit contains, for example in a home folder kept in git
    changes = _git_text(folder, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    remote = _git_text(folder, "remote", "get-url", "origin")
    branch = _git_text(folder, "symbolic-ref", "--short", "HEAD")
    diff = _output(folder, "diff", "--no-ext-diff", "--no-textconv", "HEAD", "--", ".") if changes else None
    return Origin(
        commit,
        remove_secrets(remote) if remote else None,
        branch,
        is_dirty=bool(changes),
        diff=_cut(diff or b""),
    )


def remove_secrets(address: str) -> str:
    """Return the address without a user's name and password."""
    found = urlsplit(address)
    if found.scheme not in ("http", "https") or "@" not in found.netloc:
        return address
    return urlunsplit(
        (found.scheme, found.netloc.rpartition("@")[2], found.path, found.query, found.fragment)
    )


def _cut(diff: bytes) -> bytes:
    return diff if len(diff) <= MOST_DIFF else diff[:MOST_DIFF] + b"\n[cut: the diff is longer]\n"


def _fetch(url: str, ref: str | None, top: Path) -> str | None:
    """Return git's message if the repository could not be fetched."""
    allowed = {"GIT_ALLOW_PROTOCOL": "https:http:ssh:file"}
    shallow = (
        ("init", "--quiet"),
        ("remote", "add", "origin", url),
        ("fetch", "--quiet", "--depth=1", "--no-tags", "origin", ref or "HEAD"),
        ("checkout", "--quiet", "--detach", "FETCH_HEAD"),
    )
    whole = (
        ("fetch", "--quiet", "--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"),
        ("checkout", "--quiet", "--detach", f"origin/{ref}"),
    )
    said = _each(top, shallow, allowed)
    if said and ref and _each(top, whole[:1], allowed) is None:
        # Some servers return a commit only by its whole id, and some never do.
        if _each(top, whole[1:], allowed) and _each(
            top, (("checkout", "--quiet", "--detach", ref, "--"),), allowed
        ):
            return f"it has no branch, tag or commit {ref}"
        said = None
    return said or _each(
        top, (("submodule", "update", "--quiet", "--init", "--recursive", "--depth=1"),), allowed
    )


def _each(top: Path, commands: tuple[tuple[str, ...], ...], more: Mapping[str, str]) -> str | None:
    """Run the git commands in order, and return the message of the first failure."""
    for words in commands:
        try:
            done = _run(top, words, CLONE_SECONDS, more)
        except FileNotFoundError:
            return "this computer has no git command; install git"
        except subprocess.TimeoutExpired:
            return f"git {words[0]} took longer than {CLONE_SECONDS} s"
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            return " ".join(said[-3:]) or f"git {words[0]} ended with {done.returncode}"
    return None


def _take_times(top: Path) -> None:
    """Give every file the time of its commit, so that a second clone is the same."""
    at = _git_text(top, "log", "-1", "--format=%ct")
    for folder, below, names in os.walk(top):
        below[:] = [each for each in below if each != ".git"]
        for name in names:
            os.utime(Path(folder, name), (int(at or 0), int(at or 0)), follow_symlinks=False)


def _git_text(folder: Path, *words: str) -> str | None:
    found = _output(folder, *words)
    return None if found is None else found.decode(errors="replace").strip()


def _output(folder: Path, *words: str) -> bytes | None:
    """Return git's output, or None if git fails or is missing."""
    try:
        done = _run(folder, words, SECONDS, {})
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if done.returncode else done.stdout


def _run(
    folder: Path, words: tuple[str, ...], seconds: float, more: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["git", "-c", "core.fsmonitor=false", *words],
        cwd=folder,
        env={**os.environ, **NONINTERACTIVE, **more},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=seconds,
        check=False,
    )


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
