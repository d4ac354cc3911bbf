"""Retain fetched data and installed packages of one run for the next run of a warm host, and no other files.

The program's account owns these files, so a program could have changed them. Therefore root notes each file after it
has arrived and before a program runs: its inode, and the time of its last change (ctime), which no program can set.
When the host is wiped, a file that was replaced, changed, linked, or given other permissions is not retained.

Data are noted only for jobs without packages: pip may run code of packages while data are fetched. Packages are
retained only if their list names nothing but packages of the index, so that any run with the same list would install
the same. The list is read before pip runs.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from training.host.account import Account
from training.host.data.fetch import DataEntry, entries_of
from training.host.disk import walk
from training.host.paths import Paths
from trainyard.core.model.job import Job

DATA, PACKAGES = "data", "packages"
MOST_NOTED = 200_000
"""Limit of files. For more files, the notes take longer than fetching again."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileNote:
    """The state of one file or link."""

    device: int
    inode: int
    changed: int
    size: int
    mode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileNote":
        return cls(status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)


@dataclass(frozen=True, slots=True)
class Tree:
    """A retained folder."""

    kind: str
    """DATA or PACKAGES."""
    source: str
    """The data's URI, or the hash of the list of packages."""
    folder: str
    """Its path below the program's home."""
    files: Mapping[str, FileNote]
    journal: tuple[str, ...] = ()
    """The lines of the data entry's journal (data/journal.py)."""

    @property
    def name(self) -> str:
        """The name of its folder among the retained ones."""
        return f"{self.kind}-{hashlib.sha256(self.source.encode()).hexdigest()[:32]}"


# ------------------------------------------------------------------------------------- while the first run has the host


def note(job: Job, packages: str | None, paths: Paths) -> None:
    """Note all files. Call this when everything is fetched and no program of the run has started yet."""
    trees: list[Tree] = []
    if not job.program.requirements:
        trees = [_data(entry, paths) for entry in entries_of(job) if not entry.is_shared_out]
    elif packages:
        trees = [Tree(PACKAGES, packages, "venv", dict(_look(paths.venv)))]
    if sum(len(tree.files) for tree in trees) > MOST_NOTED:
        trees = []
    text = json.dumps([asdict(tree) for tree in trees])
    paths.notes.write_text(text)
    paths.notes.chmod(0o600)


def _data(entry: DataEntry, paths: Paths) -> Tree:
    journal = paths.journals / f"{entry.name}.jsonl"
    lines = tuple(journal.read_text().splitlines()) if journal.is_file() else ()
    return Tree(DATA, entry.source, f"data/{entry.name}", dict(_look(paths.data / entry.name)), lines)


def _look(folder: Path) -> Iterator[tuple[str, FileNote]]:
    """Yield every file and link below a folder, by its path there."""
    for entry in walk(folder):
        path = Path(entry.path)
        yield str(path.relative_to(folder)), FileNote.of(path.lstat())


# ------------------------------------------------------------------------------------------------- when it is wiped


def take(paths: Paths) -> None:
    """Move the unchanged files to a folder that only root can read. Call this while no process of the account runs."""
    try:
        trees = [_tree(each) for each in json.loads(paths.notes.read_text())]
    except FileNotFoundError:
        return
    paths.retained.mkdir(mode=0o700, parents=True, exist_ok=True)
    for tree in trees:
        there = paths.retained / tree.name
        shutil.rmtree(there, ignore_errors=True)
        same = _same(paths.home / tree.folder, tree.files)
        if tree.kind == PACKAGES and len(same) < len(tree.files):
            logger.info("the packages have changed and are not retained")
            continue
        for name in same:
            target = there / "files" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (paths.home / tree.folder / name).rename(target)
        (there / "files").mkdir(parents=True, exist_ok=True)
        (there / "tree.json").write_text(json.dumps(asdict(tree)))
        logger.info("%s: %d of %d files are retained", tree.name, len(same), len(tree.files))


def _same(folder: Path, noted: Mapping[str, FileNote]) -> list[str]:
    """Return the paths that still lead to the noted file, in the noted state."""
    return [name for name, before in noted.items() if _now(folder / name) == before]


def _now(path: Path) -> FileNote | None:
    try:
        return FileNote.of(path.lstat())
    except OSError:
        return None


def _tree(fields: Mapping[str, Any]) -> Tree:
    files = {name: FileNote(**noted) for name, noted in fields["files"].items()}
    return Tree(fields["kind"], fields["source"], fields["folder"], files, tuple(fields["journal"]))


# ---------------------------------------------------------------------------------------------- when another run has it


def give(job: Job, paths: Paths, account: Account) -> None:
    """Move retained files to the paths where the run fetches to, and remove the rest. The fetch then compares them with
    the bucket, with the run's own credentials."""
    wanted = {entry.source: entry for entry in entries_of(job) if not entry.is_shared_out}
    for there in sorted(paths.retained.glob("*")) if paths.retained.is_dir() else ():
        try:
            tree = _tree(json.loads((there / "tree.json").read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # incomplete, because the agent was killed meanwhile
        if tree.kind == PACKAGES:
            _move(there / "files", paths.spare / tree.source, account)
        elif tree.source in wanted:
            entry = wanted[tree.source]
            _move(there / "files", paths.data / entry.name, account)
            _write_journal(paths, entry, tree.journal, account)
    forget(paths)


def forget(paths: Paths) -> None:
    """Remove all retained files."""
    shutil.rmtree(paths.retained, ignore_errors=True)


def _move(files: Path, to: Path, account: Account) -> None:
    """Move the files of a tree, and give its folders back to the account."""
    to.parent.mkdir(parents=True, exist_ok=True)
    account.give(to.parent)
    shutil.rmtree(to, ignore_errors=True)
    files.rename(to)
    account.give(to)
    for place, folders, _ in os.walk(to):
        for name in folders:
            path = Path(place, name)
            if S_ISDIR(path.lstat().st_mode):
                account.give(path)


def _write_journal(paths: Paths, entry: DataEntry, lines: tuple[str, ...], account: Account) -> None:
    paths.journals.mkdir(exist_ok=True)
    account.give(paths.journals)
    journal = paths.journals / f"{entry.name}.jsonl"
    journal.write_text("".join(f"{line}\n" for line in lines))
    account.give(journal)
