"""A bucket that answers each request after a region's latency: PUT, copy, GET and ListObjectsV2, in memory.

It shows what a user of AWS gets, where the wait for an answer costs more than the bytes. `python -m benchmarks.far PORT
SECONDS`: SECONDS is the latency of each answer. `GET /counts` returns the requests and the bytes that were received.
"""

from __future__ import annotations

import asyncio
import json
import sys
from bisect import bisect_right
from collections import Counter
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 1000
"""Keys of one page of a listing, as S3 has it."""


class Bucket:
    """The objects of all buckets, and what was asked for."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._counts: Counter[str] = Counter()

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Carry out a request."""
        url = urlsplit(target)
        name = unquote(url.path).lstrip("/")
        if name == "counts":
            return 200, json.dumps(self._counts).encode()
        copied = headers.get("x-amz-copy-source")
        self._counts["copies" if copied else method] += 1
        self._counts["bytes"] += len(body)
        if method == "PUT":
            self._objects[name] = self._objects[unquote(copied).lstrip("/")] if copied else body
            return 200, b"<CopyObjectResult/>" if copied else b""
        query = parse_qs(url.query)
        if "list-type" in query:
            return 200, self._listing(name, query)
        found = self._objects.get(name)
        return (404, b"<Error><Code>NoSuchKey</Code></Error>") if found is None else (200, found)

    def _listing(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        begin = f"{bucket.rstrip('/')}/"
        keys = sorted(
            key
            for each in self._objects
            if (key := each.removeprefix(begin)) != each and key.startswith(prefix)
        )
        page = keys[bisect_right(keys, after) :][:PAGE]
        more = bool(page) and page[-1] != keys[-1]
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self._objects[begin + key])}</Size></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        return f"<ListBucketResult>{truncated}{items}</ListBucketResult>".encode()


async def serve(port: int, latency: float) -> None:
    """Answer until the process is ended."""
    bucket = Bucket()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for line in lines
                    if line
                    for name, _, value in [line.partition(":")]
                }
                if headers.get("expect"):
                    await asyncio.sleep(latency)
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, target, _ = first.split(" ", 2)
                await asyncio.sleep(latency)
                status, answer = bucket.answer(method, target, headers, body)
                writer.write(
                    f"HTTP/1.1 {status} -\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", port, backlog=256)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
