"""Detection of a hang in a program without output."""

import pytest

from training.host.program.silence import Effort, NewLines, Silence

HANGS = [
    # name, findings of each minute, the minute of the detected hang
    ("it continues", [*range(60)], None),
    ("it hangs from the beginning", [1] * 30, 12),
    ("it hung for a while, and does again", [1] * 12 + [2] * 30, 24),
    ("it is slow: a step in ten minutes", [step // 10 for step in range(60)], None),
]


@pytest.mark.parametrize(("found", "minute"), [row[1:] for row in HANGS], ids=[row[0] for row in HANGS])
def test_a_program_hangs_that_shows_nothing_new_for_twelve_minutes(
    found: list[int], minute: int | None
) -> None:
    silence = Silence()
    verdicts = [silence.hangs(60.0 * at, lambda at=at: found[at]) for at in range(len(found))]  # type: ignore[misc]
    assert (verdicts.index(True) if True in verdicts else None) == minute


def test_one_look_a_minute_is_enough() -> None:
    looks: list[int] = []
    silence = Silence()
    for tenth in range(1250):
        silence.hangs(tenth / 10, lambda: looks.append(1))
    assert len(looks) == 3


def test_a_host_that_stood_still_itself_blames_no_program_for_it() -> None:
    silence = Silence()
    assert not silence.hangs(0, lambda: "7")
    assert not silence.hangs(3600, lambda: "7")


WORKS = [
    # name, processor seconds used in each minute, number of minutes that count as work
    ("it trains", [55.0, 60.0, 240.0], 3),
    ("gRPC polls: seen of gangs that hung", [0.06, 0.06, 0.06], 0),
    ("a loop that looks ten times a second whether there is something", [0.6, 0.6, 0.6], 0),
    ("it computes one minute in three", [0.1, 12.0, 0.1], 1),
    ("it feeds a GPU", [4.0, 4.0, 4.0], 3),
    ("a process of it has ended, with what it had used", [30.0, -90.0, 30.0], 2),
]


@pytest.mark.parametrize(("used", "works"), [row[1:] for row in WORKS], ids=[row[0] for row in WORKS])
def test_a_real_share_of_a_processor_is_work_and_polling_is_none(used: list[float], works: int) -> None:
    effort, seconds = Effort(), 100.0
    effort.look(0.0, seconds)
    for minute, each in enumerate(used, 1):
        seconds += each
        effort.look(60.0 * minute, seconds)
    assert effort.looks == works


WAITS = (
    "I tensorflow/core/master.cc:260] CreateSession still waiting for response from worker: /job:ps/replica:0"
)
SAYS = [
    # name, output, number of new lines
    ("steps", ["step 1", "step 2", "step 3"], 3),
    ("a bar that is drawn", ["1/3 [==>   ]", "2/3 [====> ]"], 2),
    (
        "TensorFlow 1 waits for a server that does not exist",
        [
            f"2026-11-22 06:00:00.123456: {WAITS}",
            f"2026-11-22 06:00:10.654321: {WAITS}",
        ],
        1,
    ),
    ("its Supervisor counts no steps", ["INFO:tensorflow:global_step/sec: 0"] * 3, 1),
    (
        "absl's lines, and others' times",
        ["I1122 06:00:01.123456  4711 x.py:1] waits", "I1122 06:00:31.123456  4711 x.py:1] waits"],
        1,
    ),
    ("only the time of day", ["06:00:01,123 INFO waiting", "06:00:31,456 INFO waiting"], 1),
    ("two lines in turn", ["waiting for chief", "still waiting"] * 5, 2),
]


@pytest.mark.parametrize(("lines", "new"), [row[1:] for row in SAYS], ids=[row[0] for row in SAYS])
def test_what_is_said_again_and_again_is_no_work(lines: list[str], new: int) -> None:
    heard = NewLines()
    for line in lines:
        heard.add(line)
    assert heard.count == new
