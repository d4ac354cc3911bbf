"""The output of a run's programs: lines of all hosts in the order of time, as they arrive.

A log is a folder of chunks (docs/contracts/bucket.md). A full chunk never changes, and complete lines of the last chunk
keep their positions. So a look costs one or two lists, and a part of an object for each log that has grown.
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from trainyard.protocol import keys

if TYPE_CHECKING:
    from trainyard.client.bucket import Bucket

LINE = re.compile(r"(\S+) (\S+) (\S+) \| ?(.*)", re.DOTALL)
BUILDER = "builder"
OF_BAKE = 0
"""The attempt number of a bake's log, because bakes have no attempts."""
ROLES = ("chief", "worker", "ps", "evaluator", BUILDER)
ROLE = re.compile(rf"({'|'.join(ROLES)})([:-]\d+)?")
NEVER = datetime.min.replace(tzinfo=UTC)
LISTED_AT_ONCE = 1000
"""The most keys that one call lists."""


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


def parse(text: str, attempt: int, before: datetime) -> LogLine | None:
    """Parse a line of a log. Return None without a readable time."""
    found = LINE.match(text)
    if not found:
        return None
    stamp, host, instance, said = found.groups()
    try:
        at = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return LogLine(at if at.tzinfo else before, host, instance, attempt, said)


@dataclass
class HostLog:
    """The log of one host in one attempt, with the position of the reader. Chunks are ETags by key, in order."""

    bucket: Bucket
    attempt: int
    key: str = ""
    _etag: str = ""
    _offset: int = 0
    _open: str = ""
    _last: datetime = NEVER

    def more(self, chunks: Mapping[str, str]) -> Iterator[LogLine]:
        """Yield the complete lines since the last look."""
        for key, etag in chunks.items():
            if key > self.key or (key == self.key and etag != self._etag):
                yield from self._read(key, etag)

    def last(self, chunks: Mapping[str, str], count: int) -> list[LogLine]:
        """Return at most `count` of the last complete lines. Earlier lines count as read."""
        newest, *earlier = reversed(list(chunks.items()))
        found = list(self._read(*newest))
        for chunk in earlier:
            if len(found) >= count:
                break
            found = [*HostLog(self.bucket, self.attempt).more(dict([chunk])), *found]
        return found[-count:]

    @property
    def incomplete_line(self) -> list[LogLine]:
        """Return the line that was incomplete at the last look."""
        line = parse(self._open, self.attempt, self._last)
        return [line] if line else []

    def _read(self, key: str, etag: str) -> Iterator[LogLine]:
        if key != self.key:
            self.key, self._offset = key, 0
        text = self.bucket.read_from(key, self._offset)
        whole, newline, rest = text.rpartition(b"\n")
        self._etag, self._offset = etag, self._offset + len(whole) + len(newline)
        self._open = rest.decode(errors="replace")
        for each in whole.decode(errors="replace").split("\n"):
            line = parse(each, self.attempt, self._last)
            if line:
                self._last = line.at
                yield line


@dataclass
class AttemptLogs:
    """The logs of one attempt under `folder`. `wanted` selects hosts by name."""

    bucket: Bucket
    folder: str
    attempt: int
    wanted: Callable[[str], bool]
    _hosts: dict[str, HostLog] = field(default_factory=dict)
    _is_long: bool = False

    def look(self) -> list[tuple[HostLog, dict[str, str]]]:
        """Return each log with its chunks. Long logs are listed from the last chunk that was read."""
        found = self._host_by_host() if self._is_long else self._merge_hosts()
        return [(self._host(name), chunks) for name, chunks in found.items() if chunks]

    @property
    def incomplete_lines(self) -> Iterator[LogLine]:
        """Yield the incomplete lines."""
        for host in self._hosts.values():
            yield from host.incomplete_line

    def _merge_hosts(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        listed = self.bucket.etags(self.folder)
        self._is_long = len(listed) >= LISTED_AT_ONCE
        for key, etag in listed.items():
            name = key.removeprefix(self.folder).partition("/")[0]
            if self.wanted(name):
                found.setdefault(name, {})[key] = etag
        return found

    def _host_by_host(self) -> dict[str, dict[str, str]]:
        names = [name for name in self.bucket.folders(self.folder) if self.wanted(name)]
        return {
            name: self.bucket.etags(f"{self.folder}{name}/", after=self._host(name).key[:-1])
            for name in names
        }

    def _host(self, name: str) -> HostLog:
        return self._hosts.setdefault(name, HostLog(self.bucket, self.attempt))


@dataclass
class RunLogs:
    """The logs of a run: of attempt `first` and, with `later`, of the attempts after it.

    `hosts` are names (`worker-1`) or roles (`worker`); empty for all. `builder` is the log of a bake.
    """

    bucket: Bucket
    run: str
    first: int
    hosts: Collection[str] = ()
    later: bool = False
    _attempts: dict[int, AttemptLogs] = field(default_factory=dict)

    def read(self, tail: int | None = None) -> Iterator[LogLine]:
        """Yield the existing lines, including the incomplete one of each host. `tail` limits them to the last ones."""
        yield from self.new(tail)
        yield from self.incomplete_lines()

    def follow(self, is_over: Callable[[], bool], every: float, tail: int | None = None) -> Iterator[LogLine]:
        """Yield the existing and new lines until the run has ended and all is read. Look every `every` seconds."""
        over = is_over()
        while True:
            is_quiet = True
            for line in self.new(tail):
                is_quiet = False
                yield line
            tail = None
            if over and is_quiet:
                yield from self.incomplete_lines()
                return
            over = over or (is_quiet and is_over())
            if not over:
                time.sleep(every)

    def new(self, tail: int | None = None) -> Iterator[LogLine]:
        """Yield the complete lines since the last look, in the order of time as far as it is known. `tail` limits them
        to the last ones."""
        looks = [look for logs in self._look_at() for look in logs.look()]
        if tail is None:
            return heapq.merge(*(host.more(chunks) for host, chunks in looks), key=attrgetter("at"))
        lines = [line for host, chunks in looks for line in host.last(chunks, max(tail, 1))]
        return iter(sorted(lines, key=attrgetter("at"))[-tail:] if tail else [])

    def incomplete_lines(self) -> list[LogLine]:
        """Return the lines that were incomplete at the last look."""
        lines = [line for logs in self._attempts.values() for line in logs.incomplete_lines]
        return sorted(lines, key=attrgetter("at"))

    def _look_at(self) -> list[AttemptLogs]:
        """Return the logs of the last two attempts, because the last lines of an attempt arrive while the next one
        begins."""
        if BUILDER in self.hosts:
            return [self._logs_of(1, keys.bake_logs(self.run))]
        numbers = [self.first]
        if self.later:
            begun = attempts_in(self.bucket, self.run)
            numbers += [number for number in begun if number > self.first]
        return [self._logs_of(number, keys.logs(self.run, number)) for number in numbers[-2:]]

    def _logs_of(self, attempt: int, folder: str) -> AttemptLogs:
        made = AttemptLogs(self.bucket, folder, attempt, self._wants)
        return self._attempts.setdefault(attempt, made)

    def _wants(self, name: str) -> bool:
        return matches(name, self.hosts)


@dataclass(frozen=True)
class Chosen:
    """The hosts and the attempt that a user selects: `worker`, `worker:1`, or None for all."""

    role: str | None = None
    attempt: int | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts' name or role as it is written in the bucket."""
        return (self.role.replace(":", "-"),) if self.role else ()

    @property
    def is_mistyped(self) -> bool:
        """Return True if no host of any run has such a role."""
        return bool(self.role) and not ROLE.fullmatch(self.role or "")

    def missing(self, sent: Mapping[int, Collection[str]]) -> tuple[str, str] | None:
        """Return the missing log and the existing logs in words, or None if the selected log exists. `sent` has the
        hosts by attempt."""
        with_logs = [number for number, hosts in sent.items() if hosts]
        known = f"attempts with a log: {', '.join(map(str, with_logs))}"
        if self.is_mistyped:
            return (
                f"{self.role} is not a role",
                f"roles are {', '.join(ROLES)}, and one host is like worker:1",
            )
        if not with_logs:
            return "no log was sent", "none of its programs has printed a line yet, or none has started"
        if self.attempt and self.attempt not in with_logs:
            there = "sent no log" if self.attempt in sent else "does not exist"
            return f"attempt {self.attempt} {there}", known
        number = self.attempt or with_logs[-1]
        if self.role and not any(matches(host, self.hosts) for host in sent[number]):
            return f"attempt {number} has no log of {self.role}", f"there are {', '.join(sent[number])}"
        return None


def sent_in(bucket: Bucket, run: str) -> dict[int, list[str]]:
    """Return the hosts that have sent a log, by attempt in order. A bake's builder is under attempt 0."""
    numbers = attempts_in(bucket, run)
    sent = {number: bucket.folders(keys.logs(run, number)) for number in numbers}
    builder = bucket.folders(keys.bake_logs(run))
    return {OF_BAKE: builder} | sent if builder else sent


def matches(host: str, wanted: Collection[str]) -> bool:
    """Return True if `wanted` has the host's name (`worker-1`) or role (`worker`), or is empty."""
    return not wanted or host in wanted or host.rpartition("-")[0] in wanted


def attempts_in(bucket: Bucket, run: str) -> list[int]:
    """Return the numbers of the attempts that have begun, in order."""
    return sorted(int(name) for name in bucket.folders(keys.attempts(run)) if name.isdigit())


def text_of(bucket: Bucket, folder: str) -> str:
    """Return a whole log as it is in the bucket; empty if it is missing."""
    return b"".join(bucket.read_from(key) for key in bucket.etags(folder)).decode(errors="replace")
