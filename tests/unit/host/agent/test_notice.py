from datetime import UTC, datetime, timedelta

import pytest

from training.host.agent.deadlines.drain import Drain, is_held, order_to_leave
from training.host.agent.deadlines.lease import Lease
from training.host.errors import HostTrouble
from training.host.metadata import InterruptionNotice
from trainyard.protocol.signals import StopReason

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOTICE = InterruptionNotice("terminate", NOW + timedelta(seconds=120))
LATER = NOW + timedelta(hours=1)
LONG, OVER = Lease(NOW + timedelta(hours=1), "later"), Lease(NOW, "the yard has not released this host")


@pytest.mark.parametrize(
    ("sentence", "notice", "going_down", "stop_ordered", "deadline", "lease", "why", "seconds"),
    [
        ("nobody asks", None, False, False, LATER, LONG, None, None),
        (
            "AWS takes the host: all but the last moments",
            NOTICE,
            False,
            False,
            LATER,
            LONG,
            "interrupted",
            100,
        ),
        ("AWS takes the host and an order comes too", NOTICE, True, True, LATER, OVER, "interrupted", 100),
        ("the machine goes down", None, True, True, LATER, LONG, "interrupted", 60),
        ("an order came", None, False, True, LATER, LONG, "asked", 90),
        ("the run's hours or dollars are used up", None, False, False, NOW, LONG, "limit", 90),
        ("an order comes at the same time", None, False, True, NOW, LONG, "asked", 90),
        ("the lease is over", None, False, False, LATER, OVER, "asked", 45),
    ],
)
def test_why_a_program_leaves_and_how_long_it_has(
    sentence: str,
    notice: InterruptionNotice | None,
    going_down: bool,
    stop_ordered: bool,
    deadline: datetime,
    lease: Lease,
    why: str | None,
    seconds: int | None,
) -> None:
    drain = order_to_leave(
        notice=notice,
        going_down=going_down,
        stop_ordered=stop_ordered,
        deadline=deadline,
        lease=lease,
        now=NOW,
    )
    if drain is None:
        assert why is None, sentence
    else:
        assert (drain.why, (drain.kill_at - NOW).total_seconds()) == (why, seconds), sentence
        assert (drain.trouble is not None) == (lease is OVER and not notice), sentence


@pytest.mark.parametrize(("notice", "program"), [(120, 100), (60, 40), (40, 20), (30, 15), (20, 10), (4, 2)])
def test_of_a_short_notice_program_and_agent_have_half_each(notice: int, program: int) -> None:
    short = InterruptionNotice("terminate", NOW + timedelta(seconds=notice))
    drain = order_to_leave(
        notice=short, going_down=False, stop_ordered=False, deadline=LATER, lease=LONG, now=NOW
    )
    assert drain
    assert drain.kill_at == NOW + timedelta(seconds=program)


def test_a_notice_that_is_late_gives_no_time_but_also_none_that_is_past() -> None:
    late = InterruptionNotice("terminate", NOW - timedelta(seconds=30))
    drain = order_to_leave(
        notice=late, going_down=False, stop_ordered=False, deadline=LATER, lease=LONG, now=NOW
    )
    assert drain
    assert drain.kill_at == NOW


ASKED = Drain(StopReason.ASKED, NOW + timedelta(seconds=90))
TROUBLED = Drain(StopReason.ASKED, NOW + timedelta(seconds=90), HostTrouble("the bucket is gone"))
HANGING = Drain(StopReason.HANGS, NOW + timedelta(seconds=90))
HELD: list[tuple[str, Drain, int, dict[str, bool], bool]] = [
    # name, reason to leave, seconds since then, state of the program, whether SIGTERM waits
    ("it has no handler, and saves now and then", ASKED, 0, {}, True),
    ("until it has saved again", ASKED, 30, {"has_saved_since": True}, False),
    ("which may come late", ASKED, 84, {}, True),
    ("and not at all", ASKED, 85, {}, False),
    ("a program with a handler decides itself", ASKED, 0, {"handles_sigterm": True}, False),
    ("a program that has never saved is not waited for", ASKED, 0, {"saves": False}, False),
    ("nor on other hosts when the chief has left", ASKED, 0, {"chief_has_left": True}, False),
    ("one that hangs will not save", HANGING, 0, {}, False),
    ("where the agent cannot bring it away nothing is won", TROUBLED, 0, {}, False),
]


@pytest.mark.parametrize(
    ("drain", "seconds", "known", "held"), [row[1:] for row in HELD], ids=[row[0] for row in HELD]
)
def test_sigterm_waits_for_the_next_checkpoint_of_a_program_without_a_handler(
    drain: Drain, seconds: int, known: dict[str, bool], held: bool
) -> None:
    facts = {
        "handles_sigterm": False,
        "saves": True,
        "has_saved_since": False,
        "chief_has_left": False,
    } | known
    assert is_held(drain, NOW + timedelta(seconds=seconds), **facts) is held
