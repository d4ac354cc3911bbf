"""The source of a price, its description for users, and the reading of AWS's price list."""

import json
from datetime import timedelta
from typing import Any

import pytest

from lambdas.core.capacity import prices
from lambdas.core.capacity.prices import Prices
from tests.unit.core.builders import NOON, listed
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.storage import Storage
from trainyard.values import serialization

EU = "eu-central-1"
CATALOGUES = "prices of us-east-1, 2026-07-20"
OWN = "prices of eu-central-1, 2026-11-20"
NONE = "the price list of eu-central-1 has none in dollars"
SILENT = PriceList(requested=NOON, trouble="the price list was not read: no")


def eu(**changes: Any) -> PriceList:
    return listed(on_demand={"g5.xlarge": 1.258}, storage={"disk": 0.0952, "snapshot": 0.054}, **changes)


@pytest.mark.parametrize(
    ("found", "types", "storage", "said"),
    [
        (None, [], [], f"{CATALOGUES}: patrol has not read the price list of eu-central-1 yet"),
        (SILENT, [], [], f"{CATALOGUES}: the price list was not read: no"),
        (eu(), ["g5.xlarge"], [Storage.DISK], OWN),
        (eu(), ["g6.xlarge", "g5.xlarge"], [Storage.DISK], f"{OWN}; of us-east-1, 2026-07-20, for g6.xlarge: {NONE}"),
        (eu(), [], [Storage.LOGS], f"{OWN}; of us-east-1, 2026-07-20, for GiB of logs: {NONE}"),
        (
            eu(),
            ["g6.xlarge", "g6.2xlarge", "g4dn.xlarge", "c7i.large", "m7i.large", "p5e.48xlarge", "x9.unheard"],
            [],
            f"{OWN}; of us-east-1, 2026-07-20, for c7i.large, g4dn.xlarge, g6.2xlarge, 2 other types: {NONE}",
        ),
        (eu(trouble="too fast"), ["g5.xlarge"], [], f"{OWN} (not since: too fast)"),
    ],
)  # fmt: skip
def test_it_is_said_whose_prices_they_are(
    found: PriceList | None, types: list[str], storage: list[Storage], said: str
) -> None:
    asked = Prices(EU, found)
    assert asked.describe_source(types, storage) == said
    own = said.startswith(OWN) and "us-east-1" not in said
    assert asked.caveat(types, storage) == ("" if own else f" ({said})")


@pytest.mark.parametrize(
    ("found", "name", "dollars"),
    [
        (None, "g5.xlarge", 1.006),
        (SILENT, "g5.xlarge", 1.006),
        (eu(), "g5.xlarge", 1.258),
        (eu(), "g6.xlarge", 0.805),
        (eu(), "p5e.48xlarge", None),  # no price list has it
        (listed(on_demand={"p5e.48xlarge": 50.0}), "p5e.48xlarge", 50.0),
        (eu(), "x9.unheard", None),
    ],
)
def test_a_type_costs_what_its_region_asks_else_what_the_catalogue_knows(
    found: PriceList | None, name: str, dollars: float | None
) -> None:
    assert Prices(EU, found).on_demand(name) == dollars


@pytest.mark.parametrize(("found", "dollars"), [(None, 0.08), (SILENT, 0.08), (eu(), 0.0952)])
def test_so_does_a_gib(found: PriceList | None, dollars: float) -> None:
    assert Prices(EU, found).gib_month(Storage.DISK) == dollars
    assert Prices(EU, found).gib_month(Storage.BUCKET) == 0.023


@pytest.mark.parametrize(
    ("found", "hours", "due"),
    [
        (None, 0, True),
        (listed(), 23.9, False),
        (listed(), 24, True),
        (SILENT, 0.9, False),
        (SILENT, 1, True),
        (eu(trouble="too fast"), 1, True),
    ],
)
def test_the_list_is_asked_for_once_a_day_and_every_hour_until_it_answers(
    found: PriceList | None, hours: float, due: bool
) -> None:
    assert prices.is_due(found, NOON + timedelta(hours=hours)) is due


def product(*dollars: Any, currency: str = "USD") -> dict[str, Any]:
    tiers = {str(n): {"pricePerUnit": {currency: each}} for n, each in enumerate(dollars)}
    return {"terms": {"OnDemand": {"sku.term": {"priceDimensions": tiers}}}}


@pytest.mark.parametrize(
    ("said", "dollars"),
    [
        (product("1.2580000000"), 1.258),
        (product("0.0000000000", "0.2500000000"), 0.25),  # the first 25 GiB are free
        (product("0.0245000000", "0.0235000000"), 0.0245),
        (product("0.0000000000"), None),
        (product("-1.0"), None),
        (product("NaN"), None),
        (product("inf"), None),
        (product("a dollar"), None),
        (product(None), None),
        (product(), None),
        (product("7.99", currency="CNY"), None),
        ({"terms": {"Reserved": {}}}, None),
        ({"terms": {"OnDemand": []}}, None),
        ({}, None),
        ([], None),
        (None, None),
        ("text", None),
    ],
)
def test_what_is_no_price_in_dollars_is_none(said: Any, dollars: float | None) -> None:
    assert prices.dollars(said) == dollars


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ("BoxUsage:g5.xlarge", "BoxUsage:g5.xlarge"),
        ("EUC1-BoxUsage:g5.xlarge", "BoxUsage:g5.xlarge"),
        ("EU-EBS:SnapshotUsage", "EBS:SnapshotUsage"),
        ("TimedStorage-ByteHrs", "TimedStorage-ByteHrs"),
        ("APN1-TimedStorage-ByteHrs", "TimedStorage-ByteHrs"),
        ("IA-TimedStorage-ByteHrs", "IA-TimedStorage-ByteHrs"),
        ("EUC1-IA-TimedStorage-ByteHrs", "IA-TimedStorage-ByteHrs"),
        ("EUC1-TimedStorage-SIA-ByteHrs", "TimedStorage-SIA-ByteHrs"),
    ],
)
def test_a_bills_word_is_the_same_in_every_region(said: str, usage: str) -> None:
    assert prices.usage_type({"product": {"attributes": {"usagetype": said}}}) == usage


@pytest.mark.parametrize("said", [None, [], {}, {"product": {}}, {"product": {"attributes": {}}}])
def test_a_product_without_one_has_none(said: Any) -> None:
    assert prices.usage_type(said) == ""


def test_a_list_comes_back_from_the_ledger_as_it_went() -> None:
    for each in (listed(), eu(trouble="too fast"), SILENT):
        assert serialization.from_json(PriceList, json.loads(json.dumps(serialization.to_json(each)))) == each
