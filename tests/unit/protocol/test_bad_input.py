"""Every class of the protocol reads bad input with defaults or refuses it by name, and never raises another error.

CONTRACTS has a row for every class of trainyard/protocol: classes with a reader of their own first, then all others.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from importlib import import_module
from pkgutil import walk_packages
from types import NoneType
from typing import Any, cast, get_args, get_origin, is_typeddict

import pytest

from trainyard import protocol
from trainyard.protocol import (
    cluster,
    containers,
    image_reference,
    orders,
    requests,
    signals,
    summary,
    tags,
    verdicts,
)
from trainyard.protocol.cluster import Cluster
from trainyard.protocol.ledger import reading as ledger
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.plan import Plan
from trainyard.protocol.timeline import Entry
from trainyard.values import serialization

AT = "2026-11-20T00:00:00.000Z"


@dataclasses.dataclass(frozen=True)
class Contract:
    """A class of the protocol with a document that it reads."""

    model: type
    good: Mapping[str, Any]
    read: Callable[[Mapping[str, Any]], object]
    """A function that returns the model, or an object that contains it. For a bad document, it returns a text or raises
    ValueError."""


def read_signal(word: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda document: signals.decode(word, document)


def read_request(word: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda document: requests.decode(word, document)


def read_order(document: Mapping[str, Any]) -> object:
    return orders.decode(json.dumps(document))


ORIGIN = {"run": "r-1", "attempt": 1, "instance": "i-1", "at": AT}
ASKED: dict[str, Any] = {"run": "dev-mine-1", "name": "mine", "want": "up", "request": {}}
ASKED |= {"part": 2, "trials": 4, "dollars": 2.5, "hours": 1.5, "point": "0" * 16, "values": {"args.lr": 0.1}}
MODEL = {"request": "model-digits-20261129T120000-abcdef", "act": "move", "model": "digits"}
CHIEF = {"instance": "i-1", "role": "chief", "index": 0, "address": "10.0.1.5"}
CLUSTER = {"run": "r-1", "attempt": 1, "strategy": "single", "hosts": [CHIEF], "deadline": AT}
GIVEN: dict[type, dict[str, Any]] = {signals.Hold: {"until": AT}, signals.Streamed: {"gets": 1}}
MODULES = list(walk_packages(protocol.__path__, f"{protocol.__name__}."))
CONTRACTS = [
    *(
        Contract(kind, ORIGIN | GIVEN.get(kind, {}), read_signal(word))
        for word, kind in signals.SIGNALS.items()
    ),
    Contract(signals.Origin, ORIGIN, read_signal("ready")),
    Contract(orders.Order, {"kind": "stop", "run": "r-1", "attempt": 1, "hosts": ["i-1"]}, read_order),
    Contract(Cluster, CLUSTER, lambda document: cluster.read(json.dumps(document))),
    *(
        Contract(
            kind,
            MODEL
            if kind is requests.ModelRequest
            else {"schedule": "nightly", "act": "pause"}
            if kind is requests.ScheduleRequest
            else {each.key: ASKED[each.key] for each in serialization.keys(cast(type, kind))},
            read_request(word),
        )
        for word, kind in requests.REQUESTS.items()
    ),
]
FOUND = [import_module(each.name) for each in MODULES]
NOT_READ = {signals.Sent, ledger.RunRows}
"""Classes that other classes' readers create."""


def least(model: type) -> dict[str, Any]:
    """Return the smallest document of a class: a value for each key that it requires."""
    return {each.key: least_of(each.hint) for each in serialization.keys(model) if each.required}


def least_of(hint: Any) -> Any:
    kind = get_origin(hint) or hint
    if NoneType in get_args(hint):
        return None
    if kind in (tuple, list, Mapping, dict):
        return [] if kind in (tuple, list) else {}
    if is_typeddict(kind):
        return least(kind)
    if issubclass(kind, Enum):
        return next(iter(kind)).value
    if dataclasses.is_dataclass(kind):
        return least(cast(type, kind))
    samples: dict[type, object] = {bool: True, str: "x", int: 1, float: 1.0, datetime: AT}
    return next(value for known, value in samples.items() if issubclass(kind, known))


def reader(model: type) -> Callable[[Mapping[str, Any]], object]:
    read = summary.read if is_typeddict(model) else ledger.read
    return lambda document: read(model, document)


NO_DOCUMENTS = {
    containers.ImageReference,
    image_reference.NotAReferenceError,
    image_reference.Reference,
    ledger.UnreadableRowError,
    summary.UnreadableSummaryError,
    tags.Tag,
    verdicts.Word,
}
"""Classes of the protocol that no document has: names of tags, texts, a kind of values, errors."""
CLASSES = {
    each
    for module in FOUND
    for each in vars(module).values()
    if isinstance(each, type)
    and each.__module__ == module.__name__
    and not issubclass(each, (Enum, Exception))
} - NO_DOCUMENTS
WITH_READERS = {each.model for each in CONTRACTS} | NOT_READ
CONTRACTS += [
    Contract(each, least(each), reader(each))
    for each in sorted(CLASSES - WITH_READERS, key=lambda each: each.__name__)
]
WRONG = [None, True, 5, -1, 1e300, float("nan"), "", "text", [], ["text"], [5], {}, {"step": "x"}]
"""Values for every key. Each key refuses at least one."""


def is_read_as(model: type, found: object) -> bool:
    return isinstance(found, dict if is_typeddict(model) else model)


def refusal(contract: Contract, document: Mapping[str, Any]) -> str | None:
    """Return why the document is refused; None if it is read."""
    try:
        found = contract.read(document)
    except ValueError as error:
        return str(error)
    return found if isinstance(found, str) else None


KEYS = [
    pytest.param(contract, key, id=f"{contract.model.__name__}.{key.key}")
    for contract in CONTRACTS
    for key in serialization.keys(contract.model)
]


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.model.__name__)
def test_a_good_document_is_read(contract: Contract) -> None:
    assert refusal(contract, contract.good) is None


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.model.__name__)
def test_a_key_of_a_newer_version_changes_nothing(contract: Contract) -> None:
    newer = contract.read({**contract.good, "mood": {"of": ["a", "newer", "version"]}})
    assert newer == contract.read(contract.good)


@pytest.mark.parametrize(("contract", "key"), KEYS)
def test_a_missing_key_has_a_default_or_is_named(contract: Contract, key: serialization.Key) -> None:
    without = {name: value for name, value in contract.good.items() if name != key.key}
    told = refusal(contract, without)
    assert (told is not None) is key.required
    assert told is None or key.key in told


@pytest.mark.parametrize(("contract", "key"), KEYS)
def test_a_wrong_value_is_refused_by_name_or_left_out_or_read_as_its_type(
    contract: Contract, key: serialization.Key
) -> None:
    for value in WRONG:
        document = {**contract.good, key.key: value}
        if told := refusal(contract, document):
            assert key.key in told
        elif is_read_as(contract.model, found := contract.read(document)):
            assert serialization.faults(contract.model, serialization.to_json(found)) == []


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.model.__name__)
def test_an_empty_document_is_refused_if_a_key_is_required(contract: Contract) -> None:
    assert (refusal(contract, {}) is not None) is bool(contract.good)


def test_every_class_of_the_protocol_is_in_the_table() -> None:
    in_table = {contract.model for contract in CONTRACTS}
    assert in_table >= {
        *signals.SIGNALS.values(),
        *requests.REQUESTS.values(),
        RunRow,
        HostRow,
        Cluster,
        Plan,
        Entry,
    }
    assert CLASSES - in_table == NOT_READ
