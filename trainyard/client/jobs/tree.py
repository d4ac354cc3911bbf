"""The files of a local folder for a job: the uploaded files, the files that stay behind with the reasons, and faults.

This module does not read files; `package.py` does. Links to targets inside the folder stay links. A link to another
target is replaced by its target.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainyard.archives import MOST_BYTES, MOST_MEMBERS
from trainyard.client.jobs import ignores
from trainyard.client.jobs.contents import File, LeftOut, Link, Tree
from trainyard.client.jobs.ignores import GIT_IGNORE, OWN_IGNORE, Ignore, made_by_tools
from trainyard.client.jobs.path_names import (
    ignore_file,
    is_plain,
    name_problem,
    plain_name,
    shell_word,
    shown_path,
)
from trainyard.values.quantities import format_bytes, format_count

VIRTUAL = ("/proc", "/sys", "/dev/fd")
"""Virtual folders of the kernel."""
MOST_COUNTED = 1000
"""The most files whose sizes are summed in a folder that stays behind."""


def tree_of_file(source: Path, shown: str, *, name: str | None = None) -> Tree:
    """Return the tree of one file."""
    problem = _problem_with_file(source, shown)
    if problem:
        return Tree(source.parent, shown, (), faults=(problem,))
    return Tree(source.parent, shown, (_file(name or source.name, source, source.stat()),))


def tree_of_folder(root: Path, shown: str, *, is_program: bool) -> Tree:
    """Return the tree of a folder. A program follows `.gitignore`, keeps links and empty folders, and has limits. Data
    has one object for each file, so links are replaced by files."""
    walk = _Walk(root, shown, is_program)
    try:
        walk.run()
    except _TooMuchError:
        walk.faults.append(
            f"{shown} has more than {_limit()}; put data under `data` of the job file, or name what stays behind in "
            f"{shown}/{OWN_IGNORE}"
        )
    return walk.tree()


@dataclass(frozen=True)
class _Mount:
    """A real folder, and the path in the package (with a slash at its end) of its content."""

    real: str
    path: str


@dataclass(frozen=True)
class _Above:
    """The context of a folder's entries: the rules of ignore files above, the folders of the walk, and the reason if
    the folder itself stays behind."""

    git: tuple[Ignore, ...]
    own: tuple[Ignore, ...]
    mounts: tuple[_Mount, ...]
    ignored: LeftOut | None = None


class _TooMuchError(Exception):
    """A program has more files or bytes than hosts unpack."""


@dataclass
class _Walk:
    root: Path
    shown: str
    is_program: bool
    files: list[File] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    inner: list[tuple[str, str, Path]] = field(default_factory=list)
    """Links to targets inside the folder: path, path of the target, and location of the link."""
    empty: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    tracked: tuple[str, ...] = ()
    bytes: int = 0

    def run(self) -> None:
        rules = ignores.read_parent_rules(self.root) if self.is_program else ()
        if self.is_program and ignores.work_tree(self.root):
            self.tracked = tuple(ignores.list_tracked(self.root))
        self._folder(self.root, "", _Above(rules, (), (_Mount(os.path.realpath(self.root), ""),)))
        self._settle_links()

    def tree(self) -> Tree:
        return Tree(
            self.root,
            self.shown,
            tuple(sorted(self.files, key=lambda file: file.path.split("/"))),
            tuple(self.links),
            tuple(sorted(self.empty)),
            tuple(self.left_out),
            tuple(self.faults),
        )

    def _folder(self, folder: Path, path: str, above: _Above) -> None:
        """Add a folder; `path` ends in a slash. From an ignored folder, only files that a rule includes again are
        added."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except PermissionError:
            self._fault(path, "is a folder that you may not read", f"chmod u+rx {shell_word(self._at(path))}")
            return
        except OSError as error:
            self._fault(path, f"cannot be read ({error.strerror})", "run the command again")
            return
        names = {entry.name for entry in entries}
        if self.is_program and GIT_IGNORE in names:
            more = filter(None, [ignores.read(folder / GIT_IGNORE, path)])
            above = replace(above, git=(*above.git, *more))
        if OWN_IGNORE in names:
            more = filter(None, [ignores.read(folder / OWN_IGNORE, path)])
            above = replace(above, own=(*above.own, *more))
        before = len(self.files), len(self.inner), len(self.empty), len(self.faults)
        for entry in entries:
            self._entry(entry, path, names, above)
        after = len(self.files), len(self.inner), len(self.empty), len(self.faults)
        if before == after and path and not above.ignored and self.is_program:
            self.empty.append(path.rstrip("/"))

    def _entry(self, entry: os.DirEntry[str], inside: str, names: set[str], above: _Above) -> None:
        path = f"{inside}{entry.name}"
        try:
            mode = entry.stat().st_mode
        except FileNotFoundError:
            mode = 0
        except OSError as error:
            mode = 0
            if not entry.is_symlink():
                self._fault(path, f"cannot be read ({error.strerror})", self._leave_out(path))
                return
        is_folder = stat.S_ISDIR(mode)
        asked = f"{path}/" if is_folder else path
        reason = self._find_reason(entry, asked, names, above)
        if reason and is_folder and self._may_take_back(asked, reason, above.own):
            self._deeper(entry, path, replace(above, ignored=reason))
        elif reason:
            if not above.ignored:
                self.left_out.append(self._with_size(reason, entry))
        elif entry.is_symlink():
            self._link(entry, path, mode, replace(above, ignored=None))
        elif problem := name_problem(path):
            self._odd(path, problem)
        elif is_folder:
            self._deeper(entry, path, replace(above, ignored=None))
        else:
            self._take(entry, path, mode)

    def _deeper(self, entry: os.DirEntry[str], path: str, above: _Above) -> None:
        self._folder(Path(entry.path), f"{path}/", above)
        if above.ignored:
            self.left_out.append(self._with_size(above.ignored, entry))

    # --- files that stay behind
    def _find_reason(
        self, entry: os.DirEntry[str], path: str, names: set[str], above: _Above
    ) -> LeftOut | None:
        """Return why an entry stays behind, or None."""
        chosen = ignores.decision(above.own, path)
        if chosen is not None:
            return LeftOut(path, f"named in {OWN_IGNORE}", OWN_IGNORE) if chosen else None
        if why := made_by_tools(entry, path, names):
            return LeftOut(path, why)
        if path in self.tracked:
            return None
        if ignores.decision(above.git, path):
            return LeftOut(path, f"named in {GIT_IGNORE}", GIT_IGNORE)
        return above.ignored

    def _may_take_back(self, folder: str, reason: LeftOut, own: tuple[Ignore, ...]) -> bool:
        """Return True if a file below a folder that stays behind may be included."""
        if folder in (".git/",) or (not reason.by and folder.count("/") > 1):
            return False
        is_tracked = reason.by == GIT_IGNORE and any(each.startswith(folder) for each in self.tracked)
        return is_tracked or any(rule.may_take_back(folder) for rule in own)

    def _with_size(self, reason: LeftOut, entry: os.DirEntry[str]) -> LeftOut:
        """Return the entry with its size, if the user may miss it."""
        if reason.by != GIT_IGNORE or entry.is_symlink():
            return reason
        size, count = 0, 0
        for each in _files_below(entry):
            size, count = size + each, count + 1
            if count >= MOST_COUNTED:
                return LeftOut(reason.path, reason.why, reason.by, size, is_more=True)
        return LeftOut(reason.path, reason.why, reason.by, size)

    # --- uploaded files
    def _take(self, entry: os.DirEntry[str], path: str, mode: int) -> None:
        source = Path(entry.path)
        problem = _problem_with_mode(mode)
        if problem:
            self._fault(path, problem, f"remove it, or {self._leave_out(path)}")
        elif not os.access(source, os.R_OK):
            self._fault(
                path,
                "is a file that you may not read",
                f"chmod u+r {shell_word(self._at(path))}, or {self._leave_out(path)}",
            )
        else:
            self._add(path, source)

    def _add(self, path: str, source: Path) -> None:
        try:
            found = source.stat()
        except OSError as error:
            self._fault(path, f"cannot be read any more ({error.strerror})", "run the command again")
            return
        self.files.append(_file(path, source, found))
        self.bytes += found.st_size
        if self.is_program and (len(self.files) + len(self.inner) > MOST_MEMBERS or self.bytes > MOST_BYTES):
            raise _TooMuchError

    def _link(self, entry: os.DirEntry[str], path: str, mode: int, above: _Above) -> None:
        target, here = os.path.realpath(entry.path), os.path.realpath(Path(entry.path).parent)
        if problem := name_problem(path):
            self._odd(path, problem)
        elif not mode:
            why = (
                "a link that leads back to itself"
                if _is_circular(entry.path)
                else "a link that leads nowhere"
            )
            self.left_out.append(LeftOut(path, why))
        elif self.is_program and (inside := _inside(target, above.mounts)) is not None:
            self.inner.append((path, inside, Path(entry.path)))
        elif not stat.S_ISDIR(mode):
            self._take(entry, path, mode)
        elif any(_holds(each, target) for each in VIRTUAL) or (
            target != above.mounts[0].real and _holds(target, above.mounts[0].real)
        ):
            what = f"is a link to {shown_path(target)}, which cannot be uploaded as a whole"
            self._fault(path, what, f"remove the link, or {self._leave_out(path)}")
        elif _holds(target, here) or target in [each.real for each in above.mounts]:
            self.left_out.append(LeftOut(path, "a link that leads back to a folder that it lies in"))
        else:
            self._follow(entry, path, target, above)

    def _follow(self, entry: os.DirEntry[str], path: str, target: str, above: _Above) -> None:
        """Add the folder that a link leads to. If it is too large, a fault names the link."""
        lists: tuple[list[Any], ...] = (self.files, self.inner, self.empty, self.left_out, self.faults)
        counts, size = [len(each) for each in lists], self.bytes
        try:
            mounts = (*above.mounts, _Mount(target, f"{path}/"))
            self._folder(Path(entry.path), f"{path}/", replace(above, mounts=mounts))
        except _TooMuchError:
            files = format_count(len(self.files) - counts[0], "file")
            held = f"{files} and {format_bytes(self.bytes - size)} were counted"
            for each, count in zip(lists, counts, strict=True):
                del each[count:]
            self.bytes = size
            self._fault(
                path,
                f"is a link to {shown_path(target)}, which is too large for a program ({held}; {_limit()} are allowed)",
                f"put it under `data` of the job file, or {self._leave_out(path)}",
            )

    def _settle_links(self) -> None:
        """Keep the links to uploaded files. A link to a file that stays behind is replaced by the file."""
        there = {file.path for file in self.files} | {link for link, _, _ in self.inner}
        there |= {folder for path in [*there, *self.empty] for folder in _with_parents(path)}
        for path, target, source in self.inner:
            parent = path.rpartition("/")[0] or "."
            if target in there or target == ".":
                self.links.append(Link(path, os.path.relpath(target, parent)))
            elif source.is_dir():
                self.left_out.append(LeftOut(path, f"a link to {shown_path(target)}, which stays behind"))
            else:
                self._add(path, source)

    # --- faults
    def _fault(self, path: str, problem: str, step: str) -> None:
        self.faults.append(f"{shown_path(self._at(path))} {problem}; {step}")

    def _odd(self, path: str, problem: str) -> None:
        at = self._at(path)
        parent, _, name = at.rpartition("/")
        better = f"{parent}/{plain_name(name)}"
        step = "give it a shorter one" if better == at else f"mv {shell_word(at)} {shell_word(better)}"
        self._fault(path, problem, f"{step}, or {self._leave_out(path)}")

    def _leave_out(self, path: str) -> str:
        pattern = "".join(each if is_plain(each) else "?" for each in path)
        line = shlex.quote("/" + "".join(f"\\{each}" if each in "*[\\" else each for each in pattern))
        return f"leave it out: echo {line} >> {ignore_file(self.shown)}"

    def _at(self, path: str) -> str:
        return f"{self.shown}/{path}".rstrip("/")


def _inside(target: str, mounts: tuple[_Mount, ...]) -> str | None:
    """Return the path in the package of a link's target, or None if no uploaded folder contains the target."""
    for mount in reversed(mounts):
        if _holds(mount.real, target):
            return os.path.normpath(mount.path + os.path.relpath(target, mount.real))
    return None


def _holds(folder: str, path: str) -> bool:
    """Return True if the path is this folder or is inside it."""
    return folder == "/" or f"{path}/".startswith(f"{folder}/")


def _with_parents(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]


def _files_below(entry: os.DirEntry[str]) -> Iterator[int]:
    """Yield the size of each file in readable folders."""
    if not entry.is_dir(follow_symlinks=False):
        yield entry.stat(follow_symlinks=False).st_size
        return
    for folder, _, names in os.walk(entry.path):
        for name in names:
            try:
                yield Path(folder, name).lstat().st_size
            except OSError:  # deleted meanwhile
                continue


def _file(path: str, source: Path, found: os.stat_result) -> File:
    return File(path, source, found.st_size, found.st_mtime_ns, bool(found.st_mode & 0o100))


def _problem_with_file(source: Path, shown: str) -> str | None:
    mode = source.stat().st_mode
    if problem := _problem_with_mode(mode):
        return f"{shown} {problem}; name a file or a folder"
    return (
        None
        if os.access(source, os.R_OK)
        else f"{shown} is a file that you may not read; chmod u+r {shell_word(shown)}"
    )


def _problem_with_mode(mode: int) -> str | None:
    kinds = {
        stat.S_IFSOCK: "a socket",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    kind = kinds.get(stat.S_IFMT(mode))
    return f"is {kind}, which has no content to send" if kind else None


def _is_circular(path: str) -> bool:
    """Return True for a link that leads to itself."""
    try:
        Path(path).stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _limit() -> str:
    return f"{MOST_MEMBERS:,} files or {format_bytes(MOST_BYTES)}"
