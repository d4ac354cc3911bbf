import random
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
        ("the last drawing of a redrawn line stays", [b"10%\r20%", b"\r30%\n"], ["30%"], ""),
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
        ("a terminal's title is not text", [b"\x1b]0;me@host: ~\x07step 1\n"], ["step 1"], ""),
        ("nor one that ends as ECMA-48 has it", [b"\x1b]2;title\x1b\\step 1\n"], ["step 1"], ""),
        (
            "of a link its text stays",
            [b"see \x1b]8;;https://x.y/z\x1b\\the run\x1b]8;;\x1b\\ now\n"],
            ["see the run now"],
            "",
        ),
        ("a title cut in two is none", [b"\x1b]0;me@", b"host\x07step 1\n"], ["step 1"], ""),
        (
            "pictures and other control strings are no text",
            [b"\x1bPq#0;2;0;0;0#0!10@\x1b\\a\x1b_Gf=100;AAAA\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d\n"],
            ["abcd"],
            "",
        ),
        ("eight-bit introducers count too", ["\x9d0;title\x9cone \x9b1mtwo\n".encode()], ["one two"], ""),
        (
            "a title without an end hides no text",
            [b"\x1b]0;title and more\nnext\n"],
            ["0;title and more", "next"],
            "",
        ),
        ("character sets and modes are no text", [b"\x1b(B\x1b[m\x1b[?25la\x1b=\x1b7b\x1b8\n"], ["ab"], ""),
        ("a row that is erased is drawn again", [b"\x1b[2K\x1b[1G10%\x1b[2K\x1b[1G20%\n"], ["20%"], ""),
        ("a number is written over its old one", [b"done 10%\x08\x08\x08", b"25%\n"], ["done 25%"], ""),
        ("a spinner is one character", [b"work |\x08/\x08-\x08\\\x08", b" ok\n"], ["work  ok"], ""),
        ("a letter struck twice is one", [b"N\x08NA\x08A_\x08x\n"], ["NAx"], ""),
        (
            "two bars that were drawn again and again are two lines",
            [
                b"\router 0/2\n\rinner 0/9\x1b[A",
                b"\n\rinner 5/9\x1b[A\router 1/2\n\rinner 9/9\x1b[A",
                b"\n\ndone\n",
            ],
            ["outer 0/2", "outer 1/2", "inner 9/9", "done"],
            "",
        ),
        (
            "a bar that is wiped inside another leaves no line for each of its passes",
            [
                b"\router 0/2\n",
                *([b"\rinner 9/9\x1b[A\n\r         \x1b[A\n"] * 50),
                b"\x1b[A\router 2/2\n\nend\n",
            ],
            ["outer 0/2", "outer 2/2", "inner 9/9", "end"],
            "",
        ),
        (
            "three bars below each other",
            [b"\ra 0\n\n\rc 1\x1b[A\x1b[A\n\rb 1\x1b[A\ra 1\n\n\rc 2\x1b[A\x1b[A", b"\n\n\n\n\n\nend\n"],
            ["a 0", "", "a 1", "b 1", "c 2", "", "", "", "end"],
            "",
        ),
        (
            "what is drawn above two lines that stand already is a line again",
            [b"1 of 2\nwait\n\x1b[2A\r2 of 2\x1b[2B\nend\n\n"],
            ["1 of 2", "wait", "2 of 2", "", "end", ""],
            "",
        ),
        (
            "a line of the agent is separate from bars",
            [b"\router 0/2\n\rinner 3/9\x1b[A\n[trainyard] the program ended\n"],
            ["outer 0/2", "inner 3/9", "[trainyard] the program ended"],
            "",
        ),
    ],
)
def test_lines(sentence: str, pieces: list[bytes], lines: list[str], open_line: str) -> None:
    whole, bytewise = Splitter(), Splitter()
    assert [line for piece in pieces for line in whole.take(piece)] == lines, sentence
    assert whole.open == open_line, sentence
    assert [line for byte in b"".join(pieces) for line in bytewise.take(bytes([byte]))] == lines, sentence
    assert bytewise.open == open_line, sentence


@pytest.mark.parametrize("letter", ["ü", "界", "🚂"])
@pytest.mark.parametrize("before", range(4))
def test_a_long_line_is_cut_behind_a_whole_character(letter: str, before: int) -> None:
    line = "x" * before + letter * MOST_BYTES
    (cut,) = Splitter().take(line.encode() + b"\n")
    assert cut.endswith(" ... (the line continues)")
    kept = cut.removesuffix(" ... (the line continues)")
    assert line.startswith(kept)
    assert MOST_BYTES - 4 < len(kept.encode()) <= MOST_BYTES


def test_the_bar_that_moves_is_the_line_under_way() -> None:
    splitter = Splitter()
    splitter.take(b"\router 0/2\n\rinner 3/9\x1b[A")
    assert splitter.open == "inner 3/9"
    splitter.take(b"\router 1/2")
    assert splitter.open == "outer 1/2"


def test_a_program_that_only_moves_up_keeps_few_rows() -> None:
    splitter = Splitter()
    for _ in range(1000):
        splitter.take(b"\x1b[99999999999A" + b"x" * MOST_BYTES + b"\n" * 60)
    assert len(splitter.finish()) < 100


def test_a_line_without_an_end_takes_no_more_than_its_share() -> None:
    splitter = Splitter()
    for _ in range(100):
        assert splitter.take(b"x" * MOST_BYTES) == []
    assert splitter.open == "x" * MOST_BYTES + " ... (the line continues)"
    assert splitter.take(b"\nnext\n") == ["x" * MOST_BYTES + " ... (the line continues)", "next"]


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


def test_an_agent_that_was_restarted_among_nested_bars_repeats_no_line(tmp_path: Path) -> None:
    raw, path = tmp_path / "raw", tmp_path / "stamped"
    first = b"one\n\router 0/2\n\rinner 0/9\x1b[A\n\rinner 9/9\x1b[A\r    \rinner 9/9\n"
    then = b"\router 1/2\n\rinner 1/9\x1b[A\router 2/2\n\n\nend\n"
    raw.write_bytes(first)
    stamped(tmp_path).stamp(NOON)
    before = path.read_text()
    with raw.open("ab") as log:
        log.write(then)
    stamped(tmp_path).stamp(NOON + timedelta(minutes=1))
    splitter = Splitter()
    assert path.read_text().startswith(before)
    assert [line.partition(" | ")[2] for line in path.read_text().splitlines()] == splitter.take(first + then)


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
assert Disk(here / "reserve", here / "home").room().is_full
try:
    log.stamp(now)
except OSError as error:
    trouble = Disk(here / "reserve", here / "home").trouble(error)
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
    """The disk has half a megabyte, and is mounted for the child process only."""
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


PIECES = [
    b"\n", b"\r", b"\x08", b"\x1b[A", b"\x1b[2A", b"\x1b[B", b"\x1b[K", b"\x1b[2K", b"\x1b[3D", b"\x1b[1G",
    b"\x1b]0;t\x07",
    b"\x1b]8;;u\x1b\\", b"\x1b", b"\x1b[", b"\xc3", b"\xbc", b"\xe7\x95\x8c", b"abc", b" ", b"[trainyard] note\n",
    b"\x1b[9999999999999999999A", b"\x9b", b"\xc2\x9b1m", b"step 3 loss 0.5",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_lines_follow_from_the_bytes_alone_however_they_are_cut(seed: int) -> None:
    """A restarted agent relies on this."""
    chance = random.Random(seed)
    for _ in range(50):
        text = b"".join(chance.choices(PIECES, k=chance.randint(1, 60)))
        whole, cut = Splitter(), Splitter()
        lines, at = [], 0
        while at < len(text):
            size = chance.randint(1, 9)
            lines += cut.take(text[at : at + size])
            at += size
        assert whole.take(text) == lines, text
        assert whole.finish() == cut.finish(), text
