"""What the programs of a run have printed: lines of all hosts in the order of time, as they come."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainyard.client.bucket import Bucket

LINE = re.compile(r"(\S+) (\S+) (\S+) \| ?(.*)", re.DOTALL)
KEY = re.compile(r"attempts/(\d+)/logs/([^/]+)\.log$|logs/(builder)\.log$")
WHOLE = 32 * 2**20
"""A log's object grows to this size; from then on it holds beginning and end (docs/contracts/bucket.md)."""
END = 2**18
"""Bytes of the end of such a log that are looked at for what is new."""


@dataclass(frozen=True)
class LogLine:
    """A line of the program on one host (`worker-1`), of one attempt."""

    at: datetime
    host: str
    instance: str
    attempt: int
    text: str

    def __str__(self) -> str:
        return f"{self.host} | {self.text}"


@dataclass
class Tail:
    """One log that grows: what of it was read."""

    bucket: Bucket
    key: str
    attempt: int
    offset: int = 0
    last: datetime = field(default=datetime.min.replace(tzinfo=UTC))

    def more(self, size: int, *, whole: bool) -> list[LogLine]:
        """The lines since the last time; also the one that is under way where the log is `whole`."""
        if size >= WHOLE and self.offset:
            return self._newer(self.bucket.read_from(self.key, max(size - END, 0)))
        if size <= self.offset:
            return []
        text = self.bucket.read_from(self.key, self.offset)
        end = len(text) if whole else text.rfind(b"\n") + 1
        self.offset += end
        return self._lines(text[:end])

    def _newer(self, text: bytes) -> list[LogLine]:
        return self._lines(text.partition(b"\n")[2], after=self.last)

    def _lines(self, text: bytes, after: datetime | None = None) -> list[LogLine]:
        lines = [
            line
            for each in text.decode(errors="replace").split("\n")
            if each and (line := parse(each, self.attempt, self.last))
        ]
        lines = [line for line in lines if after is None or line.at > after]
        self.last = max([self.last, *(line.at for line in lines)])
        return lines


def parse(text: str, attempt: int, before: datetime) -> LogLine | None:
    """A line of a log; None where it has no stamp that can be read."""
    found = LINE.match(text)
    if not found:
        return None
    stamp, host, instance, said = found.groups()
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return LogLine(at if at.tzinfo else before, host, instance, attempt, said)


def read(bucket: Bucket, prefix: str, wanted: Callable[[int, str], bool]) -> Iterator[LogLine]:
    """The lines that there are, of the attempts and hosts that are wanted."""
    tails = tails_under(bucket, prefix, wanted, {})
    return heapq.merge(*(tail.more(size, whole=True) for tail, size in tails), key=lambda line: line.at)


def follow(
    bucket: Bucket,
    prefix: str,
    wanted: Callable[[int, str], bool],
    is_over: Callable[[], bool],
    every: float,
) -> Iterator[LogLine]:
    """The lines as they come, until the run is over."""
    known: dict[str, Tail] = {}
    while True:
        over = is_over()
        tails = tails_under(bucket, prefix, wanted, known)
        yield from heapq.merge(
            *(tail.more(size, whole=over) for tail, size in tails), key=lambda line: line.at
        )
        if over:
            return
        time.sleep(every)


def tails_under(
    bucket: Bucket, prefix: str, wanted: Callable[[int, str], bool], known: dict[str, Tail]
) -> list[tuple[Tail, int]]:
    """The logs that are wanted, with their sizes."""
    found = []
    for key, size in bucket.keys(prefix).items():
        named = KEY.search(key.removeprefix(prefix))
        if named and wanted(attempt := int(named[1] or 1), named[2] or named[3]):
            found.append((known.setdefault(key, Tail(bucket, key, attempt)), size))
    return found
