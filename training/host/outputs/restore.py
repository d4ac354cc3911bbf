"""Prepare an attempt's working folder: the program's source, and outputs of earlier attempts."""

import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from training.host.account import Account
from training.host.bucket import Bucket
from training.host.disk import inside
from training.host.errors import Missing
from training.host.orders import write_whole
from training.host.outputs import index
from training.host.outputs.index import CHIEF, Index, Sent
from training.host.outputs.scan import Scan, Seen, scan

AT_ONCE = 8
BATCH = 1_000
"""Most files in the queue of downloads. Each takes a kilobyte of the agent's memory."""
HALF = ".trainyard-incoming-"
"""Prefix of a file during its download. A random part follows, because the real name may already have 255 bytes."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The working folder before the run's first program on this host. These files are not outputs, unless they
    change."""

    files: Mapping[str, Seen] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()

    @staticmethod
    def of(found: Scan) -> "Sources":
        return Sources(found.files, found.links, frozenset(found.folders))

    def to_json(self) -> str:
        return json.dumps({"files": self.files, "links": self.links, "folders": sorted(self.folders)})

    @staticmethod
    def from_json(text: str) -> "Sources":
        sources = json.loads(text)
        files = {path: Seen(*row) for path, row in sources["files"].items()}
        return Sources(files, sources["links"], frozenset(sources["folders"]))


@dataclass(frozen=True, slots=True)
class Begun:
    """The working folder at the program's start."""

    sources: Sources
    index: Index
    """The files that the bucket has."""
    restored: int = 0
    """The number of restored files."""
    lost: tuple[str, ...] = ()
    """Files that the bucket no longer has."""


def sources_of(folder: Path, noted: Path, account: Account) -> Sources:
    """Return the folder's content before the run's first program on this host. The file `noted` stores it."""
    if noted.exists():
        return Sources.from_json(noted.read_text())
    with account.act():
        found = Sources.of(scan(folder, ""))
    write_whole(noted, found.to_json())
    return found


def keep_on(bucket: Bucket, run: str, host: str, folder: Path, sources: Sources) -> Begun:
    """Leave the folder unchanged. Files of earlier attempts that it lacks stay in the bucket."""
    known = index.read(bucket, run, host) or Index()
    files = {path: sent for path, sent in known.files.items() if _read_state(folder / path) == sent.seen}
    return Begun(sources, _next_index(known, files))


def restore(bucket: Bucket, run: str, host: str, folder: Path, sources: Sources, *, of: str | None) -> Begun:
    """Leave only the sources and the previous attempt's outputs in the folder, from the last moment without a file
    being written. For a run that resumes another, add the outputs of the run `of` that have not changed since.

    Workers and parameter servers get the chief's outputs, too. The chief's file replaces a file of the same name, so
    that all hosts resume at the same step."""
    wanted: dict[str, tuple[str, Sent]] = {}
    links: dict[str, str] = {}
    folders: list[str] = []
    theirs: set[str] = set()
    own = Index()
    for each in (of, run) if of else (run,):
        own = index.read(bucket, each, host) or Index()
        wanted |= _find_wanted(own, index.prefix_of(each, host))
        theirs -= own.consistent.keys()
        chief = index.read(bucket, each, CHIEF) or Index() if _follows_chief(host) else Index()
        wanted |= _find_wanted(chief, index.prefix_of(each, CHIEF))
        theirs |= chief.consistent.keys()
        links |= {**own.consistent_links, **chief.consistent_links}
        folders += [*own.folders, *chief.folders]
    _clear(folder, sources, wanted)
    lost = _fetch_all(bucket, folder, wanted)
    _make_folders(folder, folders)
    _make_links(folder, links)
    there = {path: (seen, sent) for path, (_, sent) in wanted.items() if (seen := _read_state(folder / path))}
    shared = {path: seen for path, (seen, _) in there.items() if path in theirs}
    mine = {
        path: Sent(seen, sent.version)
        for path, (seen, sent) in there.items()
        if path in own.consistent and path not in theirs
    }
    begun = Sources({**sources.files, **shared}, {**sources.links, **chief.consistent_links}, sources.folders)
    files = {path: sent for path, sent in mine.items() if own.files.get(path, sent).version == sent.version}
    continued = _next_index(own, {path: sent for path, sent in files.items() if path in own.files})
    continued.snapshot, continued.snapshot_links = mine, own.consistent_links
    continued.inherits = bool(of)
    return Begun(begun, continued, len(there), lost)


def _find_wanted(known: Index, prefix: str) -> dict[str, tuple[str, Sent]]:
    """Return each file's key in the bucket and its state, by path."""
    return {path: (prefix + path, sent) for path, sent in known.consistent.items()}


def _follows_chief(host: str) -> bool:
    return host != CHIEF and not host.startswith("evaluator")


def _next_index(known: Index, files: dict[str, Sent]) -> Index:
    """Return the index with which the next attempt begins. `files` are the bucket's files that are on its disk."""
    gone = {path: sent for path, sent in known.files.items() if path not in files}
    return Index(files=files, earlier={**known.earlier, **gone}, attempt=known.attempt)


def _read_state(path: Path) -> Seen | None:
    try:
        return Seen.of(path.lstat())
    except OSError:
        return None


def _clear(folder: Path, sources: Sources, wanted: Iterable[str]) -> None:
    """Remove all files except the sources and the wanted files."""
    found, stay = scan(folder, ""), {*sources.files, *sources.links, *wanted}
    for path in (*found.files, *found.links):
        if path not in stay:
            with suppress(FileNotFoundError):
                (folder / path).unlink()


def _fetch_all(bucket: Bucket, folder: Path, wanted: Mapping[str, tuple[str, Sent]]) -> tuple[str, ...]:
    """Download the missing files. Return the files that the bucket no longer has."""
    lost: list[str] = []
    paths = list(wanted)
    with ThreadPoolExecutor(AT_ONCE, "restore") as pool:
        for start in range(0, len(paths), BATCH):
            waits = {
                path: pool.submit(_fetch, bucket, inside(folder, path), *wanted[path])
                for path in paths[start : start + BATCH]
            }
            lost += [path for path, wait in waits.items() if not wait.result()]
    return tuple(lost)


def _fetch(bucket: Bucket, target: Path, key: str, sent: Sent) -> bool:
    there = _read_state(target)
    if there and (there.size, there.mtime_ns) == (sent.seen.size, sent.seen.mtime_ns):
        return True
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"{HALF}{uuid4().hex}")
    try:
        _download(bucket, key, sent.version, half)
    except Missing:
        return False
    os.utime(half, ns=(sent.seen.mtime_ns, sent.seen.mtime_ns))
    half.replace(target)
    return True


def _download(bucket: Bucket, key: str, version: str, half: Path) -> None:
    """Fetch a version of an object, or the newest if a lifecycle rule has removed that version."""
    try:
        bucket.download_version(key, version, half)
    except Missing:
        if not version:
            raise
        bucket.download_version(key, "", half)


def _make_folders(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileExistsError, NotADirectoryError):  # a file of that name exists by now
            inside(folder, name).mkdir(parents=True, exist_ok=True)


def _make_links(folder: Path, links: Mapping[str, str]) -> None:
    for name, target in links.items():
        path = inside(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        with suppress(FileExistsError):  # a file of that name exists by now
            path.symlink_to(target)
