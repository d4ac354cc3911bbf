"""Download objects of the bucket into a folder. Files are compared by content and written completely, and downloads
from another run do not mix with them."""

from __future__ import annotations

import filecmp
import hashlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Self
from uuid import uuid4

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from trainyard.client.errors import FileUnreadable
from trainyard.client.fetch_record import (
    HALF,
    RECORD,
    FetchedFile,
    Record,
    changed_by_user,
    remove_others,
    remove_replaced,
)

OnProgress = Callable[[str, int, int], None]
"""Called with a key, its transferred bytes, and its size."""
MOST_NAME_BYTES = 255
LARGE = 64 * 2**20
"""The smallest size in bytes of an object that several connections download together."""
AT_ONCE = 8
MD5 = re.compile(r"[0-9a-f]{32}")
MISSING = ("NoSuchKey", "404")


@dataclass(frozen=True)
class Stored:
    """An object of the bucket; `name` is its key without the prefix."""

    name: str
    key: str
    size: int
    etag: str
    modified: datetime

    @classmethod
    def of(cls, listed: Mapping[str, Any], prefix: str) -> Self:
        """Read an item of ListObjectsV2."""
        key = str(listed["Key"])
        return cls(
            name=key.removeprefix(prefix),
            key=key,
            size=int(listed["Size"]),
            etag=str(listed["ETag"]).strip('"'),
            modified=listed["LastModified"],
        )


@dataclass
class Tree:
    """The parts of a folder beside the contents of its files, by their names below the folder."""

    times: dict[str, int] = field(default_factory=dict)
    """The times of files in ns."""
    links: dict[str, str] = field(default_factory=dict)
    """The targets of links."""
    folders: list[str] = field(default_factory=list)
    """The empty folders."""

    def add(self, said: Any, below: str) -> None:
        """Add a host's list of outputs (docs/contracts/bucket.md). A list that a program has replaced is ignored."""
        try:
            times = {f"{below}{name}": int(row[1]) for name, row in said["files"].items()}
            links = {f"{below}{name}": str(to) for name, to in said["links"].items()}
            folders = [f"{below}{name}" for name in said["folders"]]
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return
        self.times |= times
        self.links |= links
        self.folders += folders


@dataclass(frozen=True)
class Fetched:
    """The result of a download."""

    files: int = 0
    """The number of files of the run that the folder has now."""
    new: int = 0
    """The number of files that were downloaded."""
    left_out: tuple[str, ...] = ()
    """A sentence for each object that was left out."""
    removed: tuple[str, ...] = ()
    """The removed files of another run."""
    replaced: tuple[str, ...] = ()
    """The replaced files that the user had put there or changed."""


def fetch(
    client: Any,
    bucket: str,
    prefix: str,
    folder: Path,
    on_progress: OnProgress,
    *,
    owner: str,
    wanted: Callable[[str], bool] = lambda _: True,
    names: Mapping[str, Collection[str]] | None = None,
    tree: Tree | None = None,
) -> Fetched:
    """Download the objects under the prefix into the folder, unless the folder has them with the same content.

    `wanted` selects objects by their name below the prefix. `names`, if given, has the selected names with the files
    that each becomes. `tree` has links, folders and times. Files from another `owner` are removed unless the user has
    changed them. Raise FileUnreadable, or AWS's error; complete files stay.
    """
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    listed = [Stored.of(each, prefix) for page in pages for each in page.get("Contents", [])]
    if names is not None:
        listed = [replace(each, name=name) for each in listed for name in names.get(each.name, ())]
    if not (objects := [each for each in listed if wanted(each.name)]):
        return Fetched()
    check_folder(folder)
    reasons = dict(_unusable(folder, [each.name for each in objects]))
    files = [each for each in objects if each.name not in reasons and not each.name.endswith("/")]
    before, tree = Record.read(folder), tree or Tree()
    is_mine = before.owner == owner
    record = Record(owner, {**before.files} if is_mine else {}, {**before.links} if is_mine else {})
    folder.mkdir(parents=True, exist_ok=True)
    removed = () if is_mine else remove_others(folder, before, {each.name for each in files})
    if is_mine:
        remove_replaced(folder, record, _folders_of(each.name for each in files))
    reasons |= dict(_find_blocked(folder, [each.name for each in files]))
    files = [each for each in files if each.name not in reasons]
    there = {each.name: each for each in files if _is_there(folder / each.name, each, before)}
    missing = [each for each in files if each.name not in there]
    replaced = changed_by_user(folder, before, [each.name for each in missing])
    record.files |= {name: FetchedFile.of(folder / name, each.etag) for name, each in there.items()}
    try:
        vanished = _download_all(client, bucket, folder, missing, record, on_progress, tree.times)
        no_links = dict(_make_links(folder, tree, record))
    except BaseException:
        with suppress(OSError):  # The disk may be full. Without a record, files are compared by content.
            record.write(folder)
        raise
    record.write(folder)
    gone = [f"{name}: it was removed from the bucket while it was fetched" for name in vanished]
    left_out = [f"{_show_name(name)}: {reason}" for name, reason in (reasons | no_links).items()] + gone
    whole, new = len(files) - len(vanished), len(missing) - len(vanished)
    return Fetched(whole, new, tuple(left_out), removed, replaced)


def move_into(files: Path, folder: Path, *, owner: str) -> Fetched:
    """Move the files and links below `files`, on the same disk, into the folder, with the rules of `fetch`."""
    found = [each for each in sorted(files.rglob("*")) if each.is_symlink() or not each.is_dir()]
    by_name = {each.relative_to(files).as_posix(): each for each in found}
    reasons = dict(_unusable(folder, by_name))
    links = {name: str(each.readlink()) for name, each in by_name.items() if each.is_symlink()}
    wanted = {name: each for name, each in by_name.items() if name not in links and name not in reasons}
    before = Record.read(folder)
    record = before if before.owner == owner else Record(owner)
    is_mine = before.owner == owner
    removed = () if is_mine else remove_others(folder, before, wanted)
    if is_mine:
        remove_replaced(folder, record, _folders_of(wanted))
    reasons |= dict(_find_blocked(folder, wanted))
    wanted = {name: each for name, each in wanted.items() if name not in reasons}
    missing = [name for name, each in wanted.items() if not _is_same(each, folder / name)]
    replaced = changed_by_user(folder, before, missing)
    for name in missing:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        wanted[name].replace(folder / name)
    record.files |= {name: FetchedFile.of(folder / name) for name in wanted}
    no_links = dict(_make_links(folder, Tree(links=links), record))
    record.write(folder)
    left_out = tuple(f"{_show_name(name)}: {reason}" for name, reason in (reasons | no_links).items())
    return Fetched(len(wanted), len(missing), left_out, removed, replaced)


def _is_same(new: Path, there: Path) -> bool:
    return not there.is_symlink() and there.is_file() and filecmp.cmp(new, there, shallow=False)


def check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise FileUnreadable(
            f"{folder} is a file", "what is fetched goes into a folder; nothing was fetched", "name a folder"
        )


def _unusable(folder: Path, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that cannot be a file of the folder, with the reason."""
    folders = _folders_of(names)
    root = folder.resolve()
    for name in names:
        parts = name.removesuffix("/").split("/")
        if name == "":
            continue
        if ".." in parts or name.startswith("/"):
            yield name, "its name leads out of the folder"
        elif "" in parts or "." in parts or "\0" in name:
            yield name, "its name is not a valid path of a file"
        elif any(len(os.fsencode(part)) > MOST_NAME_BYTES for part in parts):
            yield name, f"its name is longer than the {MOST_NAME_BYTES} bytes, the longest name of a file"
        elif name in (RECORD, *map(str, PurePosixPath(RECORD).parents)) or name.startswith(f"{RECORD}/"):
            yield name, "its name is reserved for the record of the download"
        elif name in folders:
            yield name, "other objects need its name for their folder"
        elif not (folder / name).parent.resolve().is_relative_to(root):
            yield name, "a link leads out of the folder there"


def _folders_of(names: Iterable[str]) -> set[str]:
    """Return the folders of these files."""
    return {str(above) for name in names for above in PurePosixPath(name).parents}


def _find_blocked(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that a file or folder of the user blocks, with the reason."""
    for name in names:
        above = [each for each in PurePosixPath(name).parents if (folder / each).is_file()]
        if above:
            yield (
                name,
                f"{_show_name(str(above[0]))} is a file in the folder already, and would have to be a folder",
            )
        elif (folder / name).is_dir():
            yield name, "a folder of that name is in the folder already"


def _make_links(folder: Path, tree: Tree, record: Record) -> Iterator[tuple[str, str]]:
    """Make the links and the empty folders. Yield each link that is not made, with the reason."""
    reasons = dict(_unusable(folder, [*tree.links, *tree.folders]))
    for name in tree.folders:
        if name not in reasons:
            (folder / name).mkdir(parents=True, exist_ok=True)
    for name, to in tree.links.items():
        link, inside = folder / name, os.path.normpath(PurePosixPath(name).parent / to)
        if name in reasons:
            yield name, reasons[name]
        elif inside.startswith(("/", "..")) or "\0" in to:
            yield name, f"it is a link that leads out of the folder, to {_show_name(to)}"
        elif (link.is_symlink() and link.readlink() != Path(to) and name not in record.links) or (
            link.exists() and not link.is_symlink()
        ):
            yield name, "something else of that name is in the folder already"
        else:
            link.unlink(missing_ok=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(to)
            record.links[name] = to


def _is_there(target: Path, stored: Stored, before: Record) -> bool:
    """Return True if the file has the content of the object."""
    if target.is_symlink() or not target.is_file() or target.stat().st_size != stored.size:
        return False
    if before.is_untouched(stored.name, target):
        return before.files[stored.name].etag == stored.etag
    if not MD5.fullmatch(stored.etag):
        return False
    with target.open("rb") as content:
        return (
            hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
            == stored.etag
        )


def _download_all(
    client: Any,
    bucket: str,
    folder: Path,
    missing: Iterable[Stored],
    record: Record,
    on_progress: OnProgress,
    times: Mapping[str, int],
) -> list[str]:
    """Download small objects in parallel, and large ones one after another with several connections each. Return the
    names of objects that have vanished from the bucket."""
    stop, vanished = threading.Event(), []

    def one(stored: Stored) -> None:
        at = times.get(stored.name, int(stored.modified.timestamp()) * 10**9)
        if _download(client, bucket, folder / stored.name, stored, at, _count(stored, stop, on_progress)):
            record.files[stored.name] = FetchedFile.of(folder / stored.name, stored.etag)
        else:
            vanished.append(stored.name)

    small = [stored for stored in missing if stored.size < LARGE]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for done in as_completed([pool.submit(one, stored) for stored in small]):
                done.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for stored in missing:
        if stored.size >= LARGE:
            one(stored)
    return vanished


class _Stopped(Exception):  # noqa: N818 - never leaves this module
    """Another download failed, or the user has interrupted."""


def _count(stored: Stored, stop: threading.Event, on_progress: OnProgress) -> Callable[[int], None]:
    done = 0

    def more(count: int) -> None:
        nonlocal done
        if stop.is_set():
            raise _Stopped
        done += count
        on_progress(stored.key, done, stored.size)

    return more


def _download(
    client: Any, bucket: str, target: Path, stored: Stored, mtime_ns: int, more: Callable[[int], None]
) -> bool:
    """Write the file completely, with the time. Return False if the object no longer exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"{HALF}{uuid4().hex}")
    config = TransferConfig(use_threads=stored.size >= LARGE, max_concurrency=AT_ONCE)
    try:
        client.download_file(bucket, stored.key, str(half), Callback=more, Config=config)
        os.utime(half, ns=(mtime_ns, mtime_ns))
        half.replace(target)
    except ClientError as error:
        if error.response["Error"]["Code"] in MISSING:
            return False
        raise
    except OSError as error:
        if error.filename and HALF not in str(error.filename):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error  # with the name of the target
    finally:
        half.unlink(missing_ok=True)
    return True


def _show_name(name: str) -> str:
    return name.encode("unicode_escape").decode("ascii") if not name.isprintable() else name
