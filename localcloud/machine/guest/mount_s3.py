"""`mount-s3` on a host: a read-only file system over objects of the local cloud's S3, with the caller's credentials.

It has the options, messages and log lines of Mountpoint for Amazon S3 1.23 that hosts use
(github.com/awslabs/mountpoint-s3: doc/CONFIGURATION.md, doc/LOGGING.md).
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TextIO

from localcloud.machine.guest.fuse import Entry, Refused, Server
from localcloud.machine.guest.mounting import MountRefused, request_mount
from localcloud.machine.guest.s3_reader import Item, Reader, S3Error

VERSION = "mount-s3 1.23.0"
PART_BYTES = 8 * 1024**2
PARTS_KEPT = 2
"""Parts in memory for each open file: the kernel reads ahead across the border of two."""
METRICS_SECONDS = 5.0
KEEP_SECONDS, KEEP_SECONDS_WITH_CACHE = 1.0, 60.0
"""How long names and sizes are kept (--metadata-ttl)."""
ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")


class Log:
    """The log file, in the format of Mountpoint."""

    def __init__(self, folder: str | None) -> None:
        self._file: TextIO | None = None
        self._lock = threading.Lock()
        if folder:
            Path(folder).mkdir(mode=0o750, parents=True, exist_ok=True)
            name = f"mountpoint-s3-{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}.{os.urandom(3).hex()}.log"
            self._file = Path(folder, name).open("a", buffering=1)  # noqa: SIM115 - open as long as the mount

    def write(self, level: str, line: str) -> None:
        if self._file:
            with self._lock:
                at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
                self._file.write(f"{at} {level:>5} ThreadId(01) {line}\n")


class Cache:
    """Parts of objects in a folder, up to a number of bytes. The part that was used longest ago gives way."""

    def __init__(self, folder: str, most: int) -> None:
        self._folder, self._most = Path(folder) / "mountpoint-cache", most
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        self.clear()
        self._folder.mkdir(mode=0o700, parents=True)

    def clear(self) -> None:
        for each in self._folder.glob("*"):
            each.unlink(missing_ok=True)
        if self._folder.is_dir():
            self._folder.rmdir()

    def read(self, item: Item, part: int) -> bytes | None:
        name = self._name(item, part)
        with self._lock:
            if name not in self._sizes:
                return None
            self._sizes[name] = self._sizes.pop(name)  # it is the newest now
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def keep(self, item: Item, part: int, data: bytes) -> None:
        name = self._name(item, part)
        with self._lock:
            (self._folder / name).write_bytes(data)
            self._sizes[name] = len(data)
            while sum(self._sizes.values()) > self._most:
                oldest = next(iter(self._sizes))
                del self._sizes[oldest]
                (self._folder / oldest).unlink(missing_ok=True)

    @staticmethod
    def _name(item: Item, part: int) -> str:
        return f"{hashlib.sha256(f'{item.key} {item.etag}'.encode()).hexdigest()}-{part}"


class Handle:
    """An open file."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.lock = threading.Lock()
        self.parts: dict[int, bytes] = {}


class Objects:
    """The objects below a prefix as files."""

    def __init__(self, reader: Reader, prefix: str, cache: Cache | None, log: Log, keep: float) -> None:
        self._reader, self._prefix, self._cache, self._log, self._keep = reader, prefix, cache, log, keep
        self._found: dict[str, tuple[float, Entry, Item | None]] = {}

    def find(self, path: str) -> Entry:
        return self._look_up(path)[0]

    def list(self, path: str) -> Iterator[Entry]:
        for entry, _ in self._entries(path):
            yield entry

    def open(self, path: str) -> Handle:
        _, item = self._look_up(path)
        if item is None:
            raise Refused(errno.EISDIR)
        if item.storage in ARCHIVES:
            self._log.write(
                "WARN", f'open{{name="{item.name}"}}: {WORDS}: open failed with errno 1: flexible storage'
            )
            raise Refused(errno.EPERM)
        return Handle(item)

    def read(self, handle: object, offset: int, size: int) -> bytes:
        assert isinstance(handle, Handle)
        end = min(offset + size, handle.item.size)
        pieces = []
        while offset < end:
            part = offset // PART_BYTES
            data = self._part(handle, part)
            begin = offset - part * PART_BYTES
            piece = data[begin : begin + end - offset]
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)

    def _part(self, handle: Handle, part: int) -> bytes:
        with handle.lock:
            if part in handle.parts:
                return handle.parts[part]
            item = handle.item
            data = self._cache.read(item, part) if self._cache else None
            if data is None:
                begin = part * PART_BYTES
                try:
                    data = self._reader.get(item, begin, min(PART_BYTES, item.size - begin))
                except S3Error as error:
                    raise self._refused(error, item) from error
                if self._cache:
                    self._cache.keep(item, part, data)
            handle.parts[part] = data
            while len(handle.parts) > PARTS_KEPT:
                del handle.parts[next(iter(handle.parts))]
            return data

    def _refused(self, error: S3Error, item: Item) -> Refused:
        changed = error.status == 412
        number, why = (
            (errno.ESTALE, "object was mutated remotely")
            if changed
            else (
                errno.EIO,
                f"get request failed: {error}",
            )
        )
        self._log.write(
            "WARN", f'read{{name="{item.name}"}}: {WORDS}: read failed with errno {number}: {why}'
        )
        return Refused(number)

    def _look_up(self, path: str) -> tuple[Entry, Item | None]:
        kept = self._found.get(path)
        if kept and time.monotonic() - kept[0] < self._keep:
            return kept[1], kept[2]
        self._found.pop(path, None)
        name = self._prefix + path
        try:
            found = {each if isinstance(each, str) else each.key: each for each in self._reader.list(name)}
        except S3Error as error:
            raise Refused(errno.EIO) from error
        for key in (f"{name}/", name):
            if key in found:
                return self._note(found[key])
        raise Refused(errno.ENOENT)

    def _entries(self, path: str) -> Iterator[tuple[Entry, Item | None]]:
        folder = f"{self._prefix}{path}/" if path else self._prefix
        try:
            for each in self._reader.list(folder):
                if (each if isinstance(each, str) else each.key) != folder:
                    yield self._note(each)
        except S3Error as error:
            raise Refused(errno.EIO) from error

    def _note(self, found: Item | str) -> tuple[Entry, Item | None]:
        key = found if isinstance(found, str) else found.key
        path = key[len(self._prefix) :].rstrip("/")
        if isinstance(found, str):
            entry, item = Entry(path, is_folder=True), None
        else:
            entry, item = Entry(path, is_folder=False, size=found.size, changed=found.changed), found
        self._found[path] = (time.monotonic(), entry, item)
        return entry, item


WORDS = "mountpoint_s3_fs::fuse"


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mount-s3", allow_abbrev=False)
    parser.add_argument("bucket")
    parser.add_argument("directory")
    for flag in ("--read-only", "--allow-other", "--log-metrics", "--force-path-style"):
        parser.add_argument(flag, action="store_true")
    for option in ("--prefix", "--region", "--endpoint-url", "--log-directory", "--cache"):
        parser.add_argument(option)
    parser.add_argument("--max-cache-size", type=int)
    parser.add_argument("--version", action="version", version=VERSION)
    return parser.parse_args(words)


def main() -> None:
    """Entry point. sys.argv holds the command's name and arguments."""
    given = _arguments(sys.argv[2:])
    if not given.read_only:
        _fail("the local cloud mounts buckets with --read-only only")
    endpoint = given.endpoint_url or os.environ.get("AWS_ENDPOINT_URL") or ""
    region = given.region or os.environ.get("AWS_REGION") or "us-east-1"
    prefix = given.prefix or ""
    reader, log = Reader(given.bucket, region=region, endpoint=endpoint), Log(given.log_directory)
    log.write("INFO", f"mountpoint_s3: {VERSION}")
    if not Path(given.directory).is_dir():
        _fail(f"mount point {given.directory} does not exist")
    try:
        list(reader.list(prefix, most=1))
    except S3Error as error:
        _fail(f"initial ListObjectsV2 failed for bucket {given.bucket} in region {region}: {error}")
    try:
        descriptor = request_mount("fuse", given.directory)
    except MountRefused as refused:
        _fail(f"Failed to create FUSE session: {refused}")
    assert descriptor is not None, "the server answers a mount of fuse with a descriptor"
    most = (given.max_cache_size or 1 << 20) << 20
    if os.fork() == 0:
        _detach()
        cache = Cache(given.cache, most) if given.cache else None
        keep = KEEP_SECONDS_WITH_CACHE if cache else KEEP_SECONDS
        _serve(descriptor, reader, Objects(reader, prefix, cache, log, keep), log, keep)
        if cache:
            cache.clear()
        os._exit(0)
    print(f"bucket {given.bucket} is mounted at {given.directory}")


def _serve(descriptor: int, reader: Reader, objects: Objects, log: Log, keep: float) -> None:
    ended = threading.Event()

    def log_counts() -> None:
        for name, count in reader.take_counts().items():
            if count:
                log.write("INFO", f"mountpoint_s3_fs::metrics: s3.request_count[s3_request={name}]: {count}")

    def repeat() -> None:
        while not ended.wait(METRICS_SECONDS):
            log_counts()

    threading.Thread(target=repeat, daemon=True).start()
    Server(descriptor, objects, keep_seconds=keep).run()
    ended.set()
    log_counts()


def _detach() -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


def _fail(why: str) -> NoReturn:
    print(f"Error: {why}", file=sys.stderr)
    sys.exit(1)
