"""Today's code reads rows of the last version (e013906f) without loss, and refuses bad rows with their class."""

import json
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from trainyard.cli import failures
from trainyard.client.errors import RowUnreadable
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.attempt import AttemptRow, TokenRow, WaitRow
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.launch_request import LaunchRequestRow
from trainyard.protocol.ledger.lookup import Owner
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.plan import Plan
from trainyard.protocol.timeline import Entry
from trainyard.values import serialization

LAST_VERSION = Path(__file__).parent / "last_version"
CLASSES = (RunRow, HostRow, AttemptRow, LaunchRequestRow, TokenRow, WaitRow, Owner, Plan, Entry)
KEY = ("pk", "sk", "world", "expires")
IN_LAST_LAUNCH = ("pool", "market", "gang", "price")
"""Keys of a run that are one key now, `last_launch`. Lists showed them while the run had hosts; hosts and bills keep
theirs."""
WRONG: tuple[object, ...] = ("never", -1.5, ["x"], {"x": 1}, True)
"""One value of each kind of JSON; for each field at least one does not fit."""


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (LAST_VERSION / "rows.jsonl").read_text().splitlines()]


def rows_of(model: type) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the stored rows of a class, each with the object that is read from it."""
    for row in rows():
        pk, sk = row["pk"].partition("#")[0], reading.kind_of(row)
        match pk, sk:
            case "run", "run" if model is RunRow:
                yield row, reading.run_of(row)
            case "run", "plan" if model is Plan:
                yield row, reading.read(Plan, row)
            case "run", kind if kind in reading.ROWS and reading.ROWS[kind][0] is model:
                yield row, reading.read_one(row)
            case "timeline", _ if model is Entry:
                yield row, reading.read(Entry, row)
            case (("instance" | "image" | "command"), _) if model is Owner:
                yield row, reading.read(Owner, row)


def under_todays_keys(model: type, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with today's names for keys that the last version named differently."""
    keys = serialization.keys(model)
    renamed = {each.formerly: each.key for each in keys}
    inside = {each.key: part for each in keys if (part := dataclass_in(each.hint))}
    found = {renamed.get(name, name): value for name, value in row.items()}
    return {
        name: under_todays_keys(inside[name], value) if name in inside and isinstance(value, dict) else value
        for name, value in found.items()
    }


def dataclass_in(hint: Any) -> type | None:
    """Return the dataclass of a field, which may also be None."""
    kinds = (hint, *typing.get_args(hint))
    return next((each for each in kinds if isinstance(each, type) and is_dataclass(each)), None)


@pytest.mark.parametrize("model", CLASSES)
def test_each_row_of_the_last_version_is_read_without_loss(model: type) -> None:
    found = list(rows_of(model))
    assert found
    for row, read in found:
        written = serialization.to_json(read)
        gone = (*KEY, *(IN_LAST_LAUNCH if model is RunRow else ()))
        old = {name: value for name, value in under_todays_keys(model, row).items() if name not in gone}
        assert old == without_new_keys(written, old)


def without_new_keys(written: Any, old: Any) -> Any:
    """Return what is written, with only the keys of the old row. A part of a row may have new keys, too."""
    if not (isinstance(written, dict) and isinstance(old, dict)):
        return written
    return {name: without_new_keys(value, old[name]) for name, value in written.items() if name in old}


@pytest.mark.parametrize("world", ["train", "elastic", "pool", "bake", "snapshot", "resumes"])
def test_the_rows_of_a_run_of_the_last_version_belong_together(world: str) -> None:
    mine = [row for row in rows() if row["world"] == world and row["pk"].startswith("run#")]
    for pk in {row["pk"] for row in mine}:
        found = reading.read_all(pk.removeprefix("run#"), [row for row in mine if row["pk"] == pk])
        assert found.run is not None
        if found.run.kind == "train" and found.run.outcome == "succeeded":
            last = found.attempts[found.run.attempt]
            assert set(last.hosts) <= set(found.hosts)
            assert found.run.dollars


def one(model: type) -> dict[str, Any]:
    """Return the serialized row of the class that has the longest text."""
    full = max(
        (read for _, read in rows_of(model)), key=lambda read: len(json.dumps(serialization.to_json(read)))
    )
    document: dict[str, Any] = serialization.to_json(full)
    return document


def read_or_refuse(model: type, document: Mapping[str, Any]) -> object | None:
    """Return the object read, or None for a row that is refused with its class. Any other error fails the test."""
    try:
        return reading.read(model, document)
    except reading.UnreadableRowError as error:
        return None if model.__name__ in str(error) else pytest.fail(f"without its class: {error}")


@pytest.mark.parametrize("model", CLASSES)
def test_a_row_of_a_newer_version_is_read_without_its_unknown_fields(model: type) -> None:
    assert reading.read(model, one(model) | {"of_tomorrow": {"x": 1}}) == reading.read(model, one(model))


@pytest.mark.parametrize("model", CLASSES)
def test_a_missing_field_has_its_default_or_is_named(model: type) -> None:
    required = {each.name for each in serialization.keys(model) if each.required}
    assert required
    for each in fields(model):
        document = {name: value for name, value in one(model).items() if name != each.name}
        if each.name not in required:
            assert read_or_refuse(model, document) is not None
            continue
        with pytest.raises(reading.UnreadableRowError, match=f"{each.name}: is missing"):
            reading.read(model, document)


@pytest.mark.parametrize("model", CLASSES)
@pytest.mark.parametrize("value", WRONG)
def test_a_field_of_a_wrong_type_is_read_or_refused_by_name(model: type, value: object) -> None:
    for each in fields(model):
        read_or_refuse(model, one(model) | {each.name: value})


@pytest.mark.parametrize(
    "row",
    [
        {"sk": "attempt#0001", "candidate": {}, "hosts": [], "launched": "yesterday"},
        {"sk": "attempt#one", "candidate": {}, "hosts": [], "launched": "2026-01-05T08:00:00.000Z"},
        {"sk": "launch-request#0001", "token": "t", "at": "2026-01-05T08:00:00.000Z"},
        {"sk": "host#i-1", "launched": "2026-01-05T08:00:00.000Z", "market": "auction"},
        {"sk": "token#0001#train", "token": "t"},
    ],
)
def test_a_bad_row_among_good_ones_is_refused_by_name(row: dict[str, Any]) -> None:
    with pytest.raises(reading.UnreadableRowError, match=row["sk"].partition("#")[0]):
        reading.read_all("r-1", [{"pk": "run#r-1", **row}])


def test_the_plan_document_of_the_last_version_is_a_plan() -> None:
    documents = map(json.loads, (LAST_VERSION / "documents.jsonl").read_text().splitlines())
    plans = [json.loads(each["text"]) for each in documents if each["key"].endswith("/plan.json")]
    assert plans
    for plan in plans:
        assert (
            serialization.to_json(reading.read(Plan, plan)).items()
            >= {k: v for k, v in under_todays_keys(Plan, plan).items() if k != "asked"}.items()
        )


def test_a_bad_row_is_an_error_with_advice_for_the_user() -> None:
    with pytest.raises(reading.UnreadableRowError) as bad:
        reading.run_of({"pk": "run#r-1", "sk": "run", "created": "yesterday"})
    told = failures._yard_error(bad.value)
    assert isinstance(told, RowUnreadable)
    assert "run#r-1" in told.what
    assert "created: found 'yesterday'" in told.what
