"""A lazy dataclass equals the standard library's, whichever attribute is used first."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from trainyard.values.lazy import dataclass


def fresh() -> tuple[Any, Any]:
    """Return a class and a subclass before their first use."""

    @dataclass(frozen=True, order=True)
    class Point:
        x: int
        y: int = 2
        names: tuple[str, ...] = field(default=(), metadata={"meaning": "what it is called"})

    @dataclass(frozen=True, kw_only=True)
    class Named(Point):
        title: str = ""

        def __post_init__(self) -> None:
            if self.title == "wrong":
                raise ValueError(self.title)

    return Point, Named


def test_made_and_compared() -> None:
    point, named = fresh()
    assert point(1) == point(1, 2) != point(1, 3)
    assert point(1) < point(2)
    assert repr(point(1)).endswith("Point(x=1, y=2, names=())")
    assert len({point(1), point(1)}) == 1
    assert named(1, title="a") == named(1, 2, title="a") != named(1, title="b")


def test_fields_are_there_before_an_instance_is() -> None:
    point, named = fresh()
    assert [each.name for each in dataclasses.fields(named)] == ["x", "y", "names", "title"]
    assert dataclasses.fields(point)[2].metadata["meaning"] == "what it is called"
    assert dataclasses.is_dataclass(fresh()[0])


def test_a_pattern_may_ask_first() -> None:
    point, named = fresh()
    match named(4, 5):
        case point(x, y):
            assert (x, y) == (4, 5)
        case _:
            raise AssertionError


def test_it_is_frozen_replaced_and_checked() -> None:
    point, named = fresh()
    one = named(1)
    with pytest.raises(FrozenInstanceError):
        one.x = 2
    assert replace(one, x=3).x == 3
    with pytest.raises(ValueError, match="wrong"):
        named(1, title="wrong")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        point()


def test_many_may_ask_at_once() -> None:
    _, named = fresh()
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: named(number), range(200)))
    assert [each.x for each in made] == list(range(200))
