"""Enough of S3 to measure clients by: ListObjectsV2, HeadObject and GetObject (with Range) over the files of a folder.

The local cloud's own S3 is one Python process and slower than any client; this one sends files straight from the page
cache, from several processes. `python -m benchmarks.objects FOLDER PORT`: a folder below FOLDER is a bucket.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PROCESSES = 2
LISTING = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<Name>{bucket}</Name><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>{items}</ListBucketResult>"
)
ITEM = (
    "<Contents><Key>{key}</Key><LastModified>{changed}</LastModified><ETag>&quot;{etag}&quot;</ETag>"
    "<Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
)


@dataclass(frozen=True)
class Served:
    """One file. `name` is `bucket/key`."""

    name: str
    path: Path
    size: int
    etag: str
    changed: datetime

    @staticmethod
    def of(path: Path, root: Path) -> Served:
        stat = path.stat()
        with path.open("rb") as file:
            etag = hashlib.file_digest(file, "md5").hexdigest()
        changed = datetime.fromtimestamp(int(stat.st_mtime), UTC)
        return Served(str(path.relative_to(root)), path, stat.st_size, etag, changed)


class Objects:
    """Answers one request after the other on a connection."""

    def __init__(self, root: Path) -> None:
        self._served = {
            one.name: one
            for one in (Served.of(path, root) for path in sorted(root.rglob("*")) if path.is_file())
        }

    def converse(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                heard = b""
                while True:
                    while b"\r\n\r\n" not in heard:
                        more = connection.recv(65536)
                        if not more:
                            return
                        heard += more
                    head, _, heard = heard.partition(b"\r\n\r\n")
                    self._answer(connection, head.decode())
            except ConnectionError:
                return

    def _answer(self, connection: socket.socket, head: str) -> None:
        method, target, _ = head.split(" ", 2)
        url = urlsplit(target)
        name = unquote(url.path).lstrip("/")
        if one := self._served.get(name):
            self._send_file(connection, one, asked_range(head), with_body=method == "GET")
            return
        asked = parse_qs(url.query)
        status, body = "404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>"
        if "list-type" in asked:
            status, body = "200 OK", self._listing(name.partition("/")[0], asked.get("prefix", [""])[0])
        lines = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(lines.encode() + (body if method == "GET" else b""))

    def _listing(self, bucket: str, prefix: str) -> bytes:
        found = [one for one in self._served.values() if one.name.startswith(f"{bucket}/{prefix}")]
        items = "".join(
            ITEM.format(
                key=escape(one.name.partition("/")[2]),
                changed=f"{one.changed:%Y-%m-%dT%H:%M:%S.000Z}",
                etag=one.etag,
                size=one.size,
            )
            for one in found
        )
        return LISTING.format(bucket=bucket, count=len(found), items=items).encode()

    @staticmethod
    def _send_file(
        connection: socket.socket, one: Served, part: tuple[int, int] | None, *, with_body: bool
    ) -> None:
        start, end = part or (0, one.size - 1)
        end = min(end, one.size - 1)
        left = end - start + 1
        said = [
            "HTTP/1.1 206 Partial Content" if part else "HTTP/1.1 200 OK",
            f'ETag: "{one.etag}"',
            f"Last-Modified: {format_datetime(one.changed, usegmt=True)}",
            "Accept-Ranges: bytes",
            "Content-Type: binary/octet-stream",
            f"Content-Length: {left}",
            *([f"Content-Range: bytes {start}-{end}/{one.size}"] if part else []),
        ]
        connection.sendall(("\r\n".join(said) + "\r\n\r\n").encode())
        if with_body:
            with one.path.open("rb") as file:
                while left:
                    sent = os.sendfile(connection.fileno(), file.fileno(), start, left)
                    start, left = start + sent, left - sent


def asked_range(head: str) -> tuple[int, int] | None:
    """First and last byte of a request with a Range; None for one that asks for everything."""
    found = re.search(r"^range: bytes=(\d+)-(\d*)", head, re.IGNORECASE | re.MULTILINE)
    return (int(found[1]), int(found[2]) if found[2] else sys.maxsize) if found else None


def main(folder: str, port: str) -> None:
    objects = Objects(Path(folder))
    with socket.create_server(("127.0.0.1", int(port)), backlog=1024) as server:
        for _ in range(PROCESSES - 1):
            if os.fork() == 0:
                break
        while True:
            connection, _ = server.accept()
            threading.Thread(target=objects.converse, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
