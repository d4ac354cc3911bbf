"""The upload of a log. The bucket is a dictionary here, and S3 in tests/contract/agent."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from training.host.bucket import Bucket, Object
from training.host.errors import HostTrouble
from training.host.reporting import chunks
from training.host.reporting.chunks import LogUpload
from training.host.reporting.logs import StampedLog

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
PREFIX = "runs/r/attempts/1/logs/chief-0/"
STAMP = len("2026-11-20T12:00:00.000Z chief-0 i-1 | ")


class Objects(Bucket):
    """A bucket in memory that lists its writes."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: list[str] = []
        self.is_away = False

    def write(self, key: str, body: bytes) -> None:
        if self.is_away:
            raise HostTrouble("the network is away")
        self.objects[key] = body
        self.written.append(key.removeprefix(PREFIX))

    def read(self, key: str) -> bytes:
        return self.objects[key]

    def list(self, prefix: str) -> Iterator[Object]:
        return (
            Object(key, len(body), "", "") for key, body in self.objects.items() if key.startswith(prefix)
        )


class Printed:
    """A program that prints, and consecutive agents that upload its log in chunks of about three lines, up to `most`
    bytes."""

    def __init__(self, folder: Path, most: int = chunks.MOST_BYTES) -> None:
        self.folder, self.most, self.now, self.bucket = folder, most, 0.0, Objects()
        self.start_agent()

    @property
    def names(self) -> list[str]:
        return [key.removeprefix(PREFIX) for key in sorted(self.bucket.objects)]

    @property
    def said(self) -> list[str]:
        """Return the lines of all chunks, without time and host."""
        return [line.partition(" | ")[2] for line in self.text.splitlines()]

    @property
    def text(self) -> str:
        return b"".join(self.bucket.objects[key] for key in sorted(self.bucket.objects)).decode()

    def start_agent(self) -> None:
        self.log = StampedLog(self.folder / "raw", self.folder / "stamped", "chief-0 i-1")
        self.upload = LogUpload(self.bucket, self.log, PREFIX, chunk=3 * (STAMP + 10), most=self.most)

    def print(self, *lines: str, end: str = "\n") -> None:
        with (self.folder / "raw").open("a") as raw:
            raw.write("\n".join(lines) + end)

    def send(self, *, last: bool = False) -> None:
        """Upload an hour later, so that all new lines are due."""
        self.now += 3600
        self.log.stamp(NOON + timedelta(seconds=self.now))
        self.upload.send(self.now, last=last)


def numbered(first: int, last: int) -> list[str]:
    return [f"line {number:04d}" for number in range(first, last)]


def test_chunks_are_of_whole_lines_and_together_they_are_the_log(tmp_path: Path) -> None:
    program = Printed(tmp_path)
    program.print(*numbered(0, 8))
    program.send()
    assert program.names == ["00000001.log", "00000002.log", "00000003.log"]
    assert all(body.endswith(b"\n") for body in program.bucket.objects.values())
    assert program.text == (tmp_path / "stamped").read_text()


def test_a_full_chunk_is_never_written_again(tmp_path: Path) -> None:
    program = Printed(tmp_path)
    for number in range(100):
        program.print(f"line {number:04d}")
        program.send()
    assert program.said == numbered(0, 100)
    last_writes = {name: index for index, name in enumerate(program.bucket.written)}
    first_writes = {name: program.bucket.written.index(name) for name in last_writes}
    assert all(last_writes[earlier] < first_writes[later] for earlier, later in pairwise(program.names))


def test_however_often_it_is_sent_the_chunks_are_the_same(tmp_path: Path) -> None:
    often, at_once = Printed(tmp_path / "a"), Printed(tmp_path / "b")
    for program in (often, at_once):
        program.folder.mkdir()
    for line in numbered(0, 50):
        often.print(line)
        often.send()
    at_once.print(*numbered(0, 50))
    at_once.send()
    sizes = [
        [len(program.bucket.objects[PREFIX + name]) for name in program.names] for program in (often, at_once)
    ]
    assert sizes[0] == sizes[1]


def test_the_line_under_way_is_the_end_of_the_last_chunk_until_it_is_whole(tmp_path: Path) -> None:
    program = Printed(tmp_path)
    program.print("one", "1/9", end="")
    program.send()
    assert program.bucket.objects[PREFIX + "00000001.log"].endswith(b"chief-0 i-1 | 1/9")
    program.print("\r9/9")
    program.send()
    assert program.said == ["one", "9/9"]


@pytest.mark.parametrize("printed", [1, 3, 4, 50])
def test_an_agent_that_was_restarted_sends_only_the_last_chunk_again(tmp_path: Path, printed: int) -> None:
    program = Printed(tmp_path)
    program.print(*numbered(0, printed))
    program.send()
    before = dict(program.bucket.objects)
    program.bucket.written.clear()
    program.start_agent()
    program.print(*numbered(printed, printed + 2))
    program.send()
    assert program.said == numbered(0, printed + 2)
    assert program.bucket.written[0] == sorted(before)[-1].removeprefix(PREFIX)
    assert all(program.bucket.objects[key] == before[key] for key in sorted(before)[:-1])
    assert program.text.startswith(b"".join(before[key] for key in sorted(before)).decode())


def test_what_the_network_did_not_take_is_sent_when_it_is_back(tmp_path: Path) -> None:
    program = Printed(tmp_path)
    program.print(*numbered(0, 4))
    program.send()
    program.bucket.is_away = True
    program.print(*numbered(4, 20))
    with pytest.raises(HostTrouble):
        program.send()
    program.bucket.is_away = False
    program.send()
    assert program.said == numbered(0, 20)


def test_nothing_is_sent_where_nothing_is_new_or_due(tmp_path: Path) -> None:
    program = Printed(tmp_path)
    program.send(last=True)
    assert program.bucket.written == []
    program.print("one")
    program.send()
    program.print("two")
    program.log.stamp(NOON)
    program.upload.send(program.now + 1)
    assert program.bucket.written == ["00000001.log"]
    program.upload.send(program.now + 1, last=True)
    assert program.said == ["one", "two"]


def test_a_small_chunk_is_sent_every_two_seconds_and_a_full_one_within_ten() -> None:
    assert chunks.due_after(100_000) == 2
    assert chunks.due_after(chunks.CHUNK_BYTES) < 10


def test_of_a_log_that_is_too_long_the_last_lines_of_each_minute_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "THIN_BYTES", 3 * (STAMP + 10))
    program = Printed(tmp_path, most=6 * (STAMP + 10))
    program.print(*numbered(0, 8))
    program.send()
    program.print(*numbered(8, 100))
    program.send()
    kept = program.said
    assert kept[:6] == numbered(0, 6)
    assert kept[-2:] == numbered(98, 100)
    assert len(kept) < 15
    assert kept.count(chunks.THINNED) == 2
    program.start_agent()
    program.print("the end")
    program.send(last=True)
    assert program.said == [*kept, chunks.THINNED, "the end"]
    stamps = [line.partition(" ")[0] for line in program.text.splitlines()]
    assert stamps == sorted(stamps)
