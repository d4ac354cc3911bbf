"""A server of a read-only file system over /dev/fuse, with the standard library only (fuse(4)).

The kernel's messages are in include/uapi/linux/fuse.h. The protocol is 7.31, which every kernel since 5.4 has.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

HEAD, ANSWER = struct.Struct("=IIQQIIIHH"), struct.Struct("=IiQ")
ATTRIBUTES = struct.Struct("=QQQQQQIIIIIIIIII")
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT = 25, 26, 27, 28, 29, 34, 36
DESTROY, BATCH_FORGET = 38, 42
WITHOUT_ANSWER = (FORGET, BATCH_FORGET, INTERRUPT)
MAX_PAGES_FLAG, ASYNC_READ, PARALLEL_DIROPS = 1 << 22, 1, 1 << 18
MOST_PAGES, MOST_BYTES = 256, 1 << 20
MESSAGE_BYTES = MOST_BYTES + 4096
ROOT = 1
THREADS = 8
BLOCK = 512


@dataclass(frozen=True)
class Entry:
    """A file or folder."""

    path: str
    """The path in the file system, without a slash at either end; empty for its root."""
    is_folder: bool
    size: int = 0
    changed: float = 0.0
    """Seconds since 1970."""


class Refused(Exception):  # noqa: N818 - `raise Refused(errno)` is the answer
    """The request fails with this number."""

    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.number = number


class Files(Protocol):
    """The content of a file system. Every method may raise Refused. Threads call them."""

    def find(self, path: str) -> Entry:
        """Return the entry at a path."""

    def list(self, path: str) -> Iterable[Entry]:
        """Return the entries of a folder."""

    def open(self, path: str) -> object:
        """Return a handle for `read`."""

    def read(self, handle: object, offset: int, size: int) -> bytes:
        """Return bytes of an open file, fewer at its end."""


class Server:
    """Serves `files` through the descriptor of /dev/fuse, with several threads. Nodes are never forgotten."""

    def __init__(self, descriptor: int, files: Files, *, keep_seconds: float) -> None:
        self._descriptor, self._files, self._keep = descriptor, files, keep_seconds
        self._lock = threading.Lock()
        self._paths = {ROOT: ""}
        self._nodes = {"": ROOT}
        self._handles: dict[int, object] = {}
        self._count = 0

    def run(self) -> None:
        """Serve until the file system is unmounted."""
        others = [threading.Thread(target=self._serve, daemon=True) for _ in range(THREADS - 1)]
        for each in others:
            each.start()
        self._serve()

    def _serve(self) -> None:
        while True:
            try:
                message = os.read(self._descriptor, MESSAGE_BYTES)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                    continue
                return  # ENODEV: unmounted
            _, code, unique, node, *_ = HEAD.unpack_from(message)
            if code in WITHOUT_ANSWER:
                continue
            try:
                self._answer(unique, 0, self._handle(code, node, message[HEAD.size :]))
            except Refused as refused:
                self._answer(unique, refused.number, b"")
            if code == DESTROY:
                return

    def _answer(self, unique: int, number: int, body: bytes) -> None:
        try:
            os.write(self._descriptor, ANSWER.pack(ANSWER.size + len(body), -number, unique) + body)
        except OSError as error:
            if error.errno not in (
                errno.ENOENT,
                errno.ENODEV,
            ):  # the reader was interrupted, or it is unmounted
                raise

    def _handle(self, code: int, node: int, body: bytes) -> bytes:
        match code:
            case _ if code == INIT:
                return _welcome(body)
            case _ if code == LOOKUP:
                parent = self._paths[node]
                name = os.fsdecode(body.rstrip(b"\0"))
                return self._entry(self._files.find(f"{parent}/{name}" if parent else name))
            case _ if code == GETATTR:
                entry = self._files.find(self._paths[node]) if node != ROOT else Entry("", is_folder=True)
                return self._keeps() + self._attributes(entry, node)
            case _ if code in (OPEN, OPENDIR):
                path = self._paths[node]
                handle = self._files.open(path) if code == OPEN else list(self._files.list(path))
                with self._lock:
                    self._count += 1
                    self._handles[self._count] = handle
                    return struct.pack("=QII", self._count, 0, 0)
            case _ if code in (READ, READDIR):
                number, offset, size = struct.unpack_from("=QQI", body)
                handle = self._handles[number]
                if code == READ:
                    return self._files.read(handle, offset, size)
                assert isinstance(handle, list)
                return self._names(handle, offset, size)
            case _ if code in (RELEASE, RELEASEDIR):
                self._handles.pop(struct.unpack_from("=Q", body)[0], None)
                return b""
            case _ if code == STATFS:
                return struct.pack("=QQQQQIIII24x", 1 << 40, 0, 0, 1 << 30, 0, BLOCK, 255, BLOCK, 0)
            case _ if code in (FLUSH, ACCESS, DESTROY):
                return b""
        raise Refused(errno.ENOSYS)

    def _node(self, path: str) -> int:
        with self._lock:
            node = self._nodes.setdefault(path, len(self._nodes) + 1)
            self._paths[node] = path
            return node

    def _entry(self, entry: Entry) -> bytes:
        node, seconds = self._node(entry.path), int(self._keep)
        head = struct.pack("=QQQQII", node, 0, seconds, seconds, 0, 0)
        return head + self._attributes(entry, node)

    def _keeps(self) -> bytes:
        return struct.pack("=QII", int(self._keep), 0, 0)

    @staticmethod
    def _attributes(entry: Entry, node: int) -> bytes:
        mode = stat.S_IFDIR | 0o755 if entry.is_folder else stat.S_IFREG | 0o644
        at, blocks = int(entry.changed), -(-entry.size // BLOCK)
        return ATTRIBUTES.pack(node, entry.size, blocks, at, at, at, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _names(self, entries: list[Entry], offset: int, size: int) -> bytes:
        found = b""
        for number, entry in enumerate(entries[offset:], offset + 1):
            name = os.fsencode(entry.path.rpartition("/")[2])
            kind = (stat.S_IFDIR if entry.is_folder else stat.S_IFREG) >> 12
            line = struct.pack("=QQII", self._node(entry.path), number, len(name), kind) + name
            line += bytes(-len(line) % 8)
            if len(found) + len(line) > size:
                break
            found += line
        return found


def _welcome(body: bytes) -> bytes:
    _, _, readahead, offered = struct.unpack_from("=IIII", body)
    flags = offered & (MAX_PAGES_FLAG | ASYNC_READ | PARALLEL_DIROPS)
    head = struct.pack("=IIIIHHI", 7, 31, readahead, flags, 16, 12, 4096)
    return head + struct.pack("=IHHII24x", 1, MOST_PAGES, 0, 0, 0)
