"""Faults that happen a number of times."""

from localcloud.base.injected import Injected


def test_what_is_said_happens_so_many_times_and_no_more() -> None:
    faults: Injected[str] = Injected()
    faults.set("made", "no disk", 2)
    assert faults.active() == {"made": ("no disk", 2)}
    assert [faults.take("made") for _ in range(3)] == ["no disk", "no disk", None]
    assert faults.active() == {}


def test_without_a_number_it_happens_until_it_is_taken_back() -> None:
    faults: Injected[str] = Injected()
    faults.set("lost", "yes", None)
    assert [faults.take("lost") for _ in range(5)] == ["yes"] * 5
    faults.set("lost", "yes", 0)
    assert faults.take("lost") is None


def test_one_thing_says_nothing_of_another() -> None:
    faults: Injected[str] = Injected()
    faults.set("made", "no disk", 1)
    assert faults.take("gone") is None
    faults.clear()
    assert faults.take("made") is None


def test_what_has_an_end_goes_well_again() -> None:
    faults: Injected[str] = Injected()
    faults.set("made", "no disk", None, seconds=3600)
    assert [faults.take("made") for _ in range(3)] == ["no disk"] * 3
    assert faults.until("made")
    faults.set("made", "no disk", None, seconds=0)
    assert faults.active() == {}
    assert faults.take("made") is None
    assert faults.until("made") is None
