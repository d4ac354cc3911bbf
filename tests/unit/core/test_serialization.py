"""A model is read completely, or refused with every wrong key."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest

from lambdas.steps.entry_point import parse
from trainyard.core.model.errors import Misconfigured
from trainyard.values import serialization


class Word(StrEnum):
    ONE = "one"
    TWO = "two"


@dataclass(frozen=True, kw_only=True)
class Inner:
    count: int
    share: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Given:
    run: str
    at: datetime
    inner: Inner
    word: Word = Word.ONE
    lost: tuple[str, ...] = ()
    instance: str | None = field(default=None, metadata={"json_key": "instance-id"})
    sure: bool = False


GOOD: dict[str, Any] = {"run": "r", "at": "2026-11-20T12:00:00.000Z", "inner": {"count": 1}}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    # name, changed keys, message
    ("no text", {"run": 5}, "run: found 5, expected str"),
    ("no instant", {"at": "noon"}, "at: found 'noon', expected datetime"),
    ("no mapping", {"inner": "x"}, "inner: found 'x', expected a mapping"),
    ("a key within is missing", {"inner": {}}, "inner.count: is missing, expected int"),
    ("a flag is no count", {"inner": {"count": True}}, "inner.count: found True, expected int"),
    ("half a count", {"inner": {"count": 1.5}}, "inner.count: found 1.5, expected int"),
    ("an infinite count", {"inner": {"count": float("inf")}}, "inner.count: found inf"),
    ("a share in words", {"inner": {"count": 1, "share": "x"}}, "inner.share: found 'x', expected float"),
    ("an unknown word", {"word": "three"}, "word: found 'three', expected one of one, two"),
    ("one of a list", {"lost": ["i-1", 2]}, "lost[1]: found 2, expected str"),
    ("no list", {"lost": "i-1"}, "lost: found 'i-1', expected tuple"),
    ("a key that is not a Python name", {"instance-id": 7}, "instance-id: found 7, expected str"),
    ("a count is no flag", {"sure": 1}, "sure: found 1, expected bool"),
]


def test_what_fits_is_read() -> None:
    found = parse(Given, GOOD | {"instance-id": "i-1", "lost": ["i-2"], "more": 1}, of="train.admit")
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert found == Given(run="r", at=noon, inner=Inner(count=1), instance="i-1", lost=("i-2",))
    assert serialization.from_json(Given, serialization.to_json(found)) == found


@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_does_not_fit_is_refused(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(Misconfigured) as wrong:
        parse(Given, GOOD | change, of="train.admit")
    assert wrong.value.reason.startswith("train.admit received an input that does not fit (")
    assert expected in wrong.value.reason


def test_every_fault_is_named() -> None:
    with pytest.raises(Misconfigured, match=r"run: is missing.*; at: is missing.*; inner: is missing"):
        parse(Given, {}, of="train.admit")
