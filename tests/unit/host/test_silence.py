"""Whether a program that says nothing still goes on."""

import pytest

from training.host.program.silence import Silence

HANGS = [
    # sentence, what the looks find minute by minute, the minute at which it is known to hang
    ("it goes on", [*range(60)], None),
    ("it hangs from the beginning", [1] * 30, 15),
    ("it hung for a while, and does again", [1] * 15 + [2] * 30, 30),
    ("it is slow", ([1] * 15 + [2] * 15 + [3] * 15)[:45], None),
]


@pytest.mark.parametrize(("found", "minute"), [row[1:] for row in HANGS], ids=[row[0] for row in HANGS])
def test_a_program_hangs_that_shows_nothing_new_for_fifteen_minutes(
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
