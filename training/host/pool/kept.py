"""What the next run finds of the last one's: data that were fetched, and packages that were installed. Nothing else.

The files are the account's, whose program could have changed them. So root notes each of them when it has come and no
program has run yet: the inode, and the times of its last change, which nobody can set (ctime). When the host is wiped,
a file that is another one now, or was changed, linked or given other rights since, is left out.

Data are noted only of a job that installs no packages: what pip builds is code, which runs beside the fetching.
Packages are kept only by a list that names nothing but packages of the index, by which whoever has the same list would
install the same; the list is read before pip runs.
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
"""Files: noting more takes longer than fetching is worth."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Noted:
    """One file, or one link, as it was."""

    device: int
    inode: int
    changed: int
    size: int
    mode: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Noted":
        return cls(status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size, status.st_mode)


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder: `kind` and `source` say what it is of, `folder` where it is below the program's home. `journal` are the
    lines by which a data entry knows which objects its files are (data/journal.py)."""

    kind: str
    source: str
    folder: str
    files: Mapping[str, Noted]
    journal: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """In the folder of what is kept."""
        return f"{self.kind}-{hashlib.sha256(self.source.encode()).hexdigest()[:32]}"


# ------------------------------------------------------------------------------------- while the first run has the host


def note(job: Job, packages: str | None, paths: Paths) -> None:
    """Write down what is there. To be called when all is fetched, and before any program of the run has started."""
    trees: list[Tree] = []
    if not job.program.requirements:
        trees = [_data(entry, paths) for entry in entries_of(job) if not entry.is_shared_out]
    elif packages:
        trees = [Tree(PACKAGES, packages, "venv", dict(_look(paths.venv)))]
    if sum(len(tree.files) for tree in trees) > MOST_NOTED:
        trees = []
    text = json.dumps([asdict(tree) for tree in trees])
    paths.noted.write_text(text)
    paths.noted.chmod(0o600)


def _data(entry: DataEntry, paths: Paths) -> Tree:
    journal = paths.journals / f"{entry.name}.jsonl"
    lines = tuple(journal.read_text().splitlines()) if journal.is_file() else ()
    return Tree(DATA, entry.source, f"data/{entry.name}", dict(_look(paths.data / entry.name)), lines)


def _look(folder: Path) -> Iterator[tuple[str, Noted]]:
    """Every file and link below it, by its path there."""
    for entry in walk(folder):
        path = Path(entry.path)
        yield str(path.relative_to(folder)), Noted.of(path.lstat())


# ------------------------------------------------------------------------------------------------- when it is wiped


def take(paths: Paths) -> None:
    """Bring what is as it was noted to where root alone comes. To be called while no process of the account's runs."""
    try:
        trees = [_tree(each) for each in json.loads(paths.noted.read_text())]
    except FileNotFoundError:
        return
    paths.kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    for tree in trees:
        there = paths.kept / tree.name
        shutil.rmtree(there, ignore_errors=True)
        same = _same(paths.home / tree.folder, tree.files)
        if tree.kind == PACKAGES and len(same) < len(tree.files):
            logger.info("packages were changed, and are not kept")
            continue
        for name in same:
            target = there / "files" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (paths.home / tree.folder / name).rename(target)
        (there / "files").mkdir(parents=True, exist_ok=True)
        (there / "tree.json").write_text(json.dumps(asdict(tree)))
        logger.info("%s: %d of %d files are kept", tree.name, len(same), len(tree.files))


def _same(folder: Path, noted: Mapping[str, Noted]) -> list[str]:
    """Whatever folders lead to it: what is found there is the very file that was noted."""
    return [name for name, before in noted.items() if _now(folder / name) == before]


def _now(path: Path) -> Noted | None:
    try:
        return Noted.of(path.lstat())
    except OSError:
        return None


def _tree(fields: Mapping[str, Any]) -> Tree:
    files = {name: Noted(**noted) for name, noted in fields["files"].items()}
    return Tree(fields["kind"], fields["source"], fields["folder"], files, tuple(fields["journal"]))


# ---------------------------------------------------------------------------------------------- when another run has it


def give(job: Job, paths: Paths, account: Account) -> None:
    """Put what is kept where the run's fetching finds it, and remove the rest. Whether an object of the bucket is still
    what it was, fetching sees, with the credentials of the run that names it."""
    wanted = {entry.source: entry for entry in entries_of(job) if not entry.is_shared_out}
    for there in sorted(paths.kept.glob("*")) if paths.kept.is_dir() else ():
        try:
            tree = _tree(json.loads((there / "tree.json").read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # half of what an agent that was killed has kept
        if tree.kind == PACKAGES:
            _move(there / "files", paths.spare / tree.source, account)
        elif tree.source in wanted:
            entry = wanted[tree.source]
            _move(there / "files", paths.data / entry.name, account)
            _write_journal(paths, entry, tree.journal, account)
    forget(paths)


def forget(paths: Paths) -> None:
    """Nothing is kept any more."""
    shutil.rmtree(paths.kept, ignore_errors=True)


def _move(files: Path, to: Path, account: Account) -> None:
    """All that is kept of a tree, its folders the account's again."""
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
