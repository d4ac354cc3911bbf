"""Every class of the protocol reads bad input with defaults or refuses it by name, and never raises another error.

A class that a function, a host or the client reads has one row in CONTRACTS.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from trainyard.protocol import orders, requests, signals
from trainyard.values import wire

AT = "2026-11-20T00:00:00.000Z"


@dataclasses.dataclass(frozen=True)
class Contract:
    """A class of the protocol with a document that it reads."""

    noun: type
    good: Mapping[str, Any]
    read: Callable[[Mapping[str, Any]], object]
    """Returns the noun or what holds it; returns a text, or raises ValueError, for a document that is refused."""


def read_signal(word: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda document: signals.decode(word, document)


def read_request(word: str) -> Callable[[Mapping[str, Any]], object]:
    return lambda document: requests.decode(word, document)


def read_order(document: Mapping[str, Any]) -> object:
    return orders.decode(json.dumps(document))


ORIGIN = {"run": "r-1", "attempt": 1, "instance": "i-1", "at": AT}
ASKED = {"run": "dev-mine-1", "name": "mine", "want": "up", "asked": {}}
CONTRACTS = [
    *(
        Contract(kind, ORIGIN | ({"until": AT} if kind is signals.Hold else {}), read_signal(word))
        for word, kind in signals.SIGNALS.items()
    ),
    Contract(signals.Origin, ORIGIN, read_signal("ready")),
    Contract(orders.Order, {"word": "stop", "run": "r-1", "attempt": 1, "hosts": ["i-1"]}, read_order),
    *(
        Contract(
            kind, {each.key: ASKED[each.key] for each in wire.keys(cast(type, kind))}, read_request(word)
        )
        for word, kind in requests.REQUESTS.items()
    ),
]
WRONG = [None, True, 5, -1, 1e300, float("nan"), "", "text", [], ["text"], [5], {}, {"step": "x"}]
"""Values of which each key refuses some."""


def refusal(contract: Contract, document: Mapping[str, Any]) -> str | None:
    """Return why the document is refused; None if it is read."""
    try:
        found = contract.read(document)
    except ValueError as error:
        return str(error)
    return found if isinstance(found, str) else None


KEYS = [
    pytest.param(contract, key, id=f"{contract.noun.__name__}.{key.key}")
    for contract in CONTRACTS
    for key in wire.keys(contract.noun)
]


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.noun.__name__)
def test_a_good_document_is_read(contract: Contract) -> None:
    assert refusal(contract, contract.good) is None


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.noun.__name__)
def test_a_key_of_a_newer_version_changes_nothing(contract: Contract) -> None:
    newer = contract.read({**contract.good, "mood": {"of": ["a", "newer", "version"]}})
    assert newer == contract.read(contract.good)


@pytest.mark.parametrize(("contract", "key"), KEYS)
def test_a_missing_key_has_a_default_or_is_named(contract: Contract, key: wire.Key) -> None:
    without = {name: value for name, value in contract.good.items() if name != key.key}
    told = refusal(contract, without)
    assert (told is not None) is key.required
    assert told is None or key.key in told


@pytest.mark.parametrize(("contract", "key"), KEYS)
def test_a_wrong_value_is_left_out_or_named(contract: Contract, key: wire.Key) -> None:
    refused = [told for value in WRONG if (told := refusal(contract, {**contract.good, key.key: value}))]
    assert all(key.key in told for told in refused)
    assert refused or not key.required


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda each: each.noun.__name__)
@pytest.mark.parametrize("document", [{}, {"run": None}, {"run": [1]}])
def test_a_document_of_another_kind_is_refused(contract: Contract, document: Mapping[str, Any]) -> None:
    assert refusal(contract, document)


def test_every_class_of_the_protocol_that_is_read_is_in_the_table() -> None:
    read = {contract.noun for contract in CONTRACTS}
    assert read >= {*signals.SIGNALS.values(), *requests.REQUESTS.values()}
