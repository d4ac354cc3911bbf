"""Fetch the job's data to this host's disk: each entry whole, or this worker's share of its files."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from training.host.account import remove_tree
from training.host.bucket import Bucket, Object
from training.host.data.journal import Journal
from training.host.data.sharding import All, Nothing, Share, due, shares
from training.host.data.transfer import clear_staging, download_all, make_sure_they_fit, never
from training.host.disk import fresh, inside
from training.host.errors import HostTrouble, Missing
from training.host.paths import Paths
from trainyard.core.jobfile.data_files import NamesMeetError, files_of
from trainyard.core.model.job import Job
from trainyard.core.model.program import Data, Sharding
from trainyard.protocol.cluster import Assignment, Cluster

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataEntry:
    """An entry of the job's section `data`."""

    name: str
    source: str
    sharding: Sharding

    @property
    def is_shared_out(self) -> bool:
        return self.sharding is Sharding.FILE


def entries_of(job: Job) -> list[DataEntry]:
    """Return the entries that are copied to the disk."""
    return [
        DataEntry(name, data.source, data.sharding)
        for name, data in sorted(job.data.items())
        if not data.is_mounted
    ]


def mounted_entries(job: Job) -> list[DataEntry]:
    """Return the entries that are mounted."""
    return [
        DataEntry(name, data.source, data.sharding)
        for name, data in sorted(job.data.items())
        if data.is_mounted
    ]


def path_of(name: str, data: Data, paths: Paths) -> Path:
    """Return the folder of a data entry for its program. A share of a mounted entry is a folder of links."""
    is_whole = data.sharding is Sharding.NONE
    return paths.mount(name) if data.is_mounted and is_whole else paths.data / name


def link_shares(bucket: Bucket, cluster: Cluster, assignment: Assignment, job: Job, paths: Paths) -> None:
    """Link this host's share of every mounted entry that is shared out by file."""
    for entry in mounted_entries(job):
        if not entry.is_shared_out:
            continue
        folder = paths.data / entry.name
        fresh(folder)
        files = _due(bucket, entry, cluster, assignment)
        for name in named_files(entry, files, bucket) if files else ():
            link = inside(folder, name)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(paths.mount(entry.name) / name)


def fetch_whole(bucket: Bucket, job: Job, paths: Paths, *, given_up: Callable[[], bool] = never) -> None:
    """Fetch every entry that all hosts need whole. Raises HostTrouble if a shared entry has too few files."""
    found = {entry: look(bucket, entry) for entry in entries_of(job)}
    for entry, files in found.items():
        if entry.is_shared_out:
            make_sure_all_get_some(entry, files, workers=job.cluster.least_workers)
    _fetch_missing(
        bucket, {entry: files for entry, files in found.items() if not entry.is_shared_out}, paths, given_up
    )


def fetch_shares(
    bucket: Bucket,
    cluster: Cluster,
    assignment: Assignment,
    job: Job,
    paths: Paths,
    *,
    given_up: Callable[[], bool] = never,
) -> None:
    """Fetch this host's share of every entry that is shared out by file (sharding.py)."""
    shared_out = [entry for entry in entries_of(job) if entry.is_shared_out]
    _fetch_missing(
        bucket, {entry: _due(bucket, entry, cluster, assignment) for entry in shared_out}, paths, given_up
    )


def look(bucket: Bucket, entry: DataEntry) -> list[Object]:
    """Return the objects of an entry: one, or all under a prefix. Raises Missing if no object exists, or all are
    empty."""
    holder, key = bucket.of(entry.source)
    found = [
        item for item in holder.list(key) if item.key == key or item.key.startswith(key.rstrip("/") + "/")
    ]
    if not found:
        raise Missing(
            f"data.{entry.name}: there is no object at {entry.source}; upload the data and start again"
        )
    if sum(item.size for item in found) == 0:
        raise Missing(
            f"data.{entry.name}: every object at {entry.source} is empty; upload the data and start again"
        )
    return found


def make_sure_all_get_some(entry: DataEntry, files: list[Object], *, workers: int) -> None:
    """Raise HostTrouble if there are fewer files than workers. Empty files such as `_SUCCESS` do not count."""
    filled = sum(1 for item in files if item.size)
    if filled < workers:
        raise HostTrouble(
            f"data.{entry.name}: {workers} workers share {filled} files at {entry.source} (sharding: file), but each "
            f"worker needs a file of its own; write the data as {workers} files or more, or let every host have all "
            "files (sharding: none)",
            final=True,
        )


def _due(bucket: Bucket, entry: DataEntry, cluster: Cluster, assignment: Assignment) -> list[Object]:
    match due(cluster, assignment):
        case All():
            return look(bucket, entry)
        case Nothing():
            return []
        case Share(worker, workers):
            files = look(bucket, entry)
            make_sure_all_get_some(entry, files, workers=workers)
            share = shares(files, workers)[worker]
            logger.info(
                "data.%s: %d of %d files are worker %d's of %d",
                *(entry.name, len(share), len(files), worker, workers),
            )
            return share


def _fetch_missing(
    bucket: Bucket, wanted: Mapping[DataEntry, list[Object]], paths: Paths, given_up: Callable[[], bool]
) -> None:
    """Fetch the missing files of each entry, and remove all other files from its folder."""
    paths.data.mkdir(parents=True, exist_ok=True)
    clear_staging(paths.data)
    folders = [_Folder(entry, paths, files, bucket.of(entry.source)[0]) for entry, files in wanted.items()]
    for folder in folders:
        folder.clear()
    missing = {folder: folder.missing() for folder in folders}
    sizes = {folder.label: sum(item.size for item in files.values()) for folder, files in missing.items()}
    make_sure_they_fit(sizes, paths.data)
    for folder, files in missing.items():
        if len(files) < len(folder.files):
            logger.info(
                "%s: this host already has %d of %d files",
                *(folder.label, len(folder.files) - len(files), len(folder.files)),
            )
        download_all(folder.bucket, files, what=folder.label, arrived=folder.note, given_up=given_up)


def named_files(entry: DataEntry, files: list[Object], bucket: Bucket) -> dict[str, Object]:
    """Return the files by their path in the entry's folder, or by `.` if the entry is a single object."""
    key = bucket.of(entry.source)[1]
    if [item.key for item in files] == [key]:
        return {".": files[0]}
    by_key = {item.key: item for item in files}
    try:
        named = files_of(entry.source, by_key)
    except NamesMeetError as error:
        raise HostTrouble(f"data.{entry.name}: {error}", final=True) from error
    return {name: by_key[key] for name, key in named.items()}


class _Folder:
    """An entry on the disk, with the journal that maps its files to objects."""

    def __init__(self, entry: DataEntry, paths: Paths, files: list[Object], bucket: Bucket) -> None:
        named = named_files(entry, files, bucket)
        self.label = f"data.{entry.name}"
        self.bucket = bucket
        self._root = paths.data / entry.name
        self.files = {self._path(self._root, relative): item for relative, item in named.items()}
        self._journal = Journal(paths.journals / f"{entry.name}.jsonl")

    def clear(self) -> None:
        """Remove all files and folders that do not belong to the entry."""
        if self._root in self.files:
            if _is_folder(self._root):
                remove_tree(self._root)
            return
        if not _is_folder(self._root):
            self._root.unlink(missing_ok=True)
        self._root.mkdir(parents=True, exist_ok=True)
        folders = {parent for path in self.files for parent in path.parents}
        waiting = [self._root]
        while waiting:
            for path in waiting.pop().iterdir():
                if _is_folder(path) and path in folders:
                    waiting.append(path)
                elif _is_folder(path) or path not in self.files:
                    remove_tree(path)

    def missing(self) -> dict[Path, Object]:
        return {
            path: item
            for path, item in self.files.items()
            if not self._journal.holds(self._name(path), item, path)
        }

    def note(self, path: Path, item: Object) -> None:
        self._journal.note(self._name(path), item, path)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._root))

    @staticmethod
    def _path(root: Path, relative: str) -> Path:
        return root if relative == "." else inside(root, relative)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
