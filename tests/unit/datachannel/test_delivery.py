"""Retransmission, and the order of received messages."""

from uuid import UUID

import pytest

from trainyard.datachannel import message
from trainyard.datachannel.delivery import LONGEST_TIMEOUT, MOST_EARLY, Incoming, Outgoing
from trainyard.datachannel.message import Message


def numbered(sequence: int) -> Message:
    return Message(message.OUTPUT, sequence, UUID(int=sequence + 1), 1, b"%d" % sequence)


def test_only_the_oldest_is_sent_again_and_each_time_later() -> None:
    out = Outgoing()
    out.add(0, b"a", 0.0)
    out.add(1, b"b", 0.0)
    assert out.next_due(0.2) is None
    assert out.next_due(0.21) == b"a"
    assert out.next_due(0.3) is None
    assert out.next_due(0.5) == b"a"
    assert out.acknowledge(0, 0.6)
    assert out.next_due(0.6) == b"b"


def test_what_nobody_waits_for_may_be_acknowledged() -> None:
    out = Outgoing()
    out.add(0, b"abc", 0.0)
    assert out.size == 3
    assert out.acknowledge(0, 0.1)
    assert not out.acknowledge(0, 0.1)
    assert (out.size, out.next_due(9.0)) == (0, None)


def test_a_slow_way_is_given_more_time_but_a_second_at_most() -> None:
    out = Outgoing()
    for number in range(100):
        out.add(number, b"x", 0.0)
        out.acknowledge(number, 5.0)
    assert out.timeout == LONGEST_TIMEOUT


def test_a_fast_way_is_sent_again_soon() -> None:
    out = Outgoing()
    for number in range(200):
        out.add(number, b"x", 0.0)
        out.acknowledge(number, 0.001)
    assert out.timeout == pytest.approx(0.011, abs=0.002)


def test_what_was_sent_twice_says_nothing_of_the_way() -> None:
    out = Outgoing()
    out.add(0, b"x", 0.0)
    out.next_due(1.0)
    before = out.timeout
    out.acknowledge(0, 60.0)
    assert out.timeout == before


def test_over_a_new_connection_all_is_sent_again_in_order() -> None:
    out = Outgoing()
    for number, data in enumerate((b"a", b"b", b"c")):
        out.add(number, data, 0.0)
    out.acknowledge(1, 0.1)
    assert list(out.repeat_all(5.0)) == [b"a", b"c"]
    assert out.next_due(5.1) is None


def test_what_comes_in_order_is_handled_at_once() -> None:
    come = Incoming()
    assert come.take(numbered(0)) == (True, [numbered(0)])
    assert come.take(numbered(1)) == (True, [numbered(1)])


def test_what_comes_early_waits_for_its_turn() -> None:
    come = Incoming()
    assert come.take(numbered(2)) == (True, [])
    assert come.take(numbered(1)) == (True, [])
    assert come.take(numbered(0)) == (True, [numbered(0), numbered(1), numbered(2)])
    assert come.early == {}


def test_what_came_before_is_acknowledged_again_and_not_handled() -> None:
    come = Incoming()
    come.take(numbered(0))
    assert come.take(numbered(0)) == (True, [])


def test_too_much_that_is_early_is_not_acknowledged() -> None:
    come = Incoming()
    for number in range(1, MOST_EARLY + 1):
        assert come.take(numbered(number)) == (True, [])
    assert come.take(numbered(MOST_EARLY + 1)) == (False, [])
    assert len(come.take(numbered(0))[1]) == MOST_EARLY + 1
