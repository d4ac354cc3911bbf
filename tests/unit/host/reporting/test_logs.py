import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from training.host.reporting import logs
from training.host.reporting.lines import MOST_BYTES, Splitter, plain
from training.host.reporting.logs import StampedLog

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WHO = "worker-1 i-2"


@pytest.mark.parametrize(
    ("sentence", "pieces", "lines", "open_line"),
    [
        ("a line is whole with its end", [b"one\ntw", b"o\n"], ["one", "two"], ""),
        ("what has no end yet is under way", [b"one\ntwo"], ["one"], "two"),
        ("empty lines stay", [b"\n\n"], ["", ""], ""),
        ("of a line drawn anew the last drawing stays", [b"10%\r20%", b"\r30%\n"], ["30%"], ""),
        ("also when the return comes after it", [b"10%\r20%\r"], [], "20%"),
        ("and when it is wiped at the end", [b"99%\r   \r\n"], ["99%"], ""),
        ("a Windows end is an end", [b"one\r\n"], ["one"], ""),
        ("backspaces are no text", [b"a 1/9\x08\x08\x08\x08\x08\ra 9/9\n"], ["a 9/9"], ""),
        ("colours are no text", [b"\x1b[1m9/9\x1b[0m \x1b[32mok\x1b[0m\n"], ["9/9 ok"], ""),
        (
            "a character cut in two is one again",
            ["für".encode()[:2], "für".encode()[2:] + b"\n"],
            ["für"],
            "",
        ),
        ("bytes of another encoding are shown", ["für\n".encode("latin-1")], ["f\\xfcr"], ""),
    ],
)
def test_lines(sentence: str, pieces: list[bytes], lines: list[str], open_line: str) -> None:
    splitter = Splitter()
    assert [line for piece in pieces for line in splitter.take(piece)] == lines, sentence
    assert splitter.open == open_line, sentence


def test_a_line_without_an_end_takes_no_more_than_its_share() -> None:
    splitter = Splitter()
    for _ in range(100):
        assert splitter.take(b"x" * MOST_BYTES) == []
    assert splitter.open == "x" * MOST_BYTES + " ... (the line goes on)"
    assert splitter.take(b"\nnext\n") == ["x" * MOST_BYTES + " ... (the line goes on)", "next"]


def test_the_end_of_a_log_is_plain_text() -> None:
    assert plain(b"1%\r2%\nValueError: no\n") == "2%\nValueError: no\n"


def stamped(tmp_path: Path) -> StampedLog:
    return StampedLog(tmp_path / "raw", tmp_path / "stamped", WHO)


def test_each_line_has_the_time_at_which_it_was_seen(tmp_path: Path) -> None:
    log = stamped(tmp_path)
    (tmp_path / "raw").write_text("one\ntwo\nthr")
    log.stamp(NOON)
    log.stamp(NOON + timedelta(seconds=1))
    with (tmp_path / "raw").open("a") as raw:
        raw.write("ee\n")
    log.stamp(NOON + timedelta(seconds=2))
    assert (tmp_path / "stamped").read_text() == (
        "2026-11-20T12:00:00.000Z worker-1 i-2 | one\n"
        "2026-11-20T12:00:00.000Z worker-1 i-2 | two\n"
        "2026-11-20T12:00:02.000Z worker-1 i-2 | three\n"
    )


def test_the_line_under_way_is_shown_with_its_latest_state(tmp_path: Path) -> None:
    log = stamped(tmp_path)
    (tmp_path / "raw").write_text("Epoch 1\n 1/9\r 2/9")
    log.stamp(NOON)
    log.stamp(NOON + timedelta(seconds=1))
    assert log.open == "2026-11-20T12:00:00.000Z worker-1 i-2 |  2/9"


def test_an_agent_that_was_restarted_goes_on_where_the_one_before_it_stopped(tmp_path: Path) -> None:
    raw, path = tmp_path / "raw", tmp_path / "stamped"
    raw.write_text("one\n1%\r2%\nthr")
    stamped(tmp_path).stamp(NOON)
    before = path.read_text()
    with path.open("a") as half_written:
        half_written.write("2026-11-20T12:00:00.0")
    with raw.open("a") as log:
        log.write("ee\nfour\n")
    stamped(tmp_path).stamp(NOON + timedelta(minutes=1))
    assert path.read_text() == before + (
        "2026-11-20T12:01:00.000Z worker-1 i-2 | three\n2026-11-20T12:01:00.000Z worker-1 i-2 | four\n"
    )


FULL_DISK = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from training.host.disk import Disk
from training.host.reporting.logs import StampedLog

here, now = Path(sys.argv[1]), datetime(2026, 11, 20, 12, tzinfo=UTC)
raw, log = here / "raw", StampedLog(here / "raw", here / "stamped", "worker-1 i-2")
with raw.open("w") as lines:
    lines.write("".join(f"line {number}\\n" for number in range(3000)))
log.stamp(now)
before = (here / "stamped").read_bytes()
with raw.open("a") as lines:
    lines.write("".join(f"line {number}\\n" for number in range(3000, 4000)))
with (here / "ballast").open("wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(b"x" * 4096)
    except OSError:
        pass
assert Disk(here / "reserve").room().is_full
try:
    log.stamp(now)
except OSError as error:
    trouble = Disk(here / "reserve").trouble(error)
    assert trouble.final and trouble.reason.startswith("the disk of this host is full (0 MB of"), trouble.reason
else:
    raise SystemExit("the disk was not full")
assert (here / "stamped").read_bytes() == before
(here / "ballast").unlink()
log.stamp(now)
said = [line.partition(" | ")[2] for line in (here / "stamped").read_text().splitlines()]
assert said == [f"line {number}" for number in range(4000)]
"""


def test_lines_that_a_full_disk_did_not_take_come_when_there_is_room(tmp_path: Path) -> None:
    """On a disk of half a megabyte, mounted where only this test's child sees it."""
    mounted = 'mount -t tmpfs -o size=512k none "$1" && exec "$2" -c "$3" "$1"'
    arguments = [str(tmp_path), sys.executable, FULL_DISK]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh", *arguments],
        cwd=Path(__file__).resolve().parents[4], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_agents_own_lines_stand_alone(tmp_path: Path) -> None:
    raw = tmp_path / "log" / "raw"
    logs.note(raw, "a fresh start")
    with raw.open("a") as log:
        log.write("half a li")
    logs.note(raw, "the program ended")
    assert raw.read_text() == "[trainyard] a fresh start\nhalf a li\n[trainyard] the program ended\n"
