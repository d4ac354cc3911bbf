"""Things that go wrong so many times."""

from localcloud.base.injected import Upcoming


def test_what_is_said_happens_so_many_times_and_no_more() -> None:
    faults: Upcoming[str] = Upcoming()
    faults.say("made", "no disk", 2)
    assert faults.standing() == {"made": ("no disk", 2)}
    assert [faults.happen("made") for _ in range(3)] == ["no disk", "no disk", None]
    assert faults.standing() == {}


def test_without_a_number_it_happens_until_it_is_taken_back() -> None:
    faults: Upcoming[str] = Upcoming()
    faults.say("lost", "yes", None)
    assert [faults.happen("lost") for _ in range(5)] == ["yes"] * 5
    faults.say("lost", "yes", 0)
    assert faults.happen("lost") is None


def test_one_thing_says_nothing_of_another() -> None:
    faults: Upcoming[str] = Upcoming()
    faults.say("made", "no disk", 1)
    assert faults.happen("gone") is None
    faults.clear()
    assert faults.happen("made") is None
