"""Reading AWS's price list: the requests, the entries that count, and the ignored ones."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambdas.aws import pricing
from lambdas.aws.clients import client
from tests.support.recorded import Recorded, answering
from trainyard.core.model.instance_types import all_types, catalog
from trainyard.protocol.ledger.yard import PriceList
from trainyard.protocol.storage import Storage

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DEARER = 1.19
"""The ratio of prices in eu-central-1 to prices in us-east-1, in the settings of the local cloud."""


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with answering(Recorded(hosts={})) as found:
        yield found


def test_every_type_and_kind_of_storage_has_its_regions_price(account: Recorded) -> None:
    read = pricing.read("eu-central-1", None, NOON)
    known = {name: kind.on_demand_price or 0 for name, kind in catalog().types.items()}
    assert read.on_demand == {name: pytest.approx(DEARER * known[name]) for name in read.on_demand}
    missing = {name.split(".")[0] for name in known if name not in read.on_demand}
    assert missing == {"p2", "p3", "p5e"}, "AWS prices the first two still, and sells neither"
    assert set(read.storage) == {kind.value for kind in Storage}
    assert read.storage["disk"] == pytest.approx(DEARER * 0.08)
    assert read.storage["table"] == pytest.approx(DEARER * 0.25)
    assert (read.read, read.requested, read.trouble) == (NOON, NOON, "")
    assert account.calls["pricing:GetProducts"] <= 10, "more than AWS answers at once"


def test_a_region_that_the_list_does_not_have_has_no_prices(account: Recorded) -> None:
    assert pricing.read("xx-nowhere-1", None, NOON) == PriceList(read=NOON, requested=NOON)


@pytest.mark.parametrize(
    "code", ["ThrottlingException", "AccessDeniedException", "UnrecognizedClientException"]
)
def test_where_aws_does_not_tell_what_was_known_stays_with_the_reason(account: Recorded, code: str) -> None:
    known = pricing.read("eu-central-1", None, NOON)
    account.broken = {"GetProducts": code}
    later = NOON + timedelta(days=1)
    again = pricing.read("eu-central-1", known, later)
    assert (again.on_demand, again.storage, again.read) == (known.on_demand, known.storage, NOON)
    assert again.requested == later
    assert again.trouble.startswith("the price list was not read: ")
    first = pricing.read("eu-central-1", None, NOON)
    assert (first.read, first.on_demand, first.trouble) == (None, {}, again.trouble)
    if code == "AccessDeniedException":
        assert "pricing:GetProducts" in again.trouble


@pytest.mark.parametrize("text", ["", "no JSON", "null", "[]", '{"product": {}}'])
def test_a_product_that_cannot_be_read_is_passed_over(
    account: Recorded, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = account._pricing

    def answered(operation: str, request: Any) -> Any:
        said = whole(operation, request)
        return said | {"PriceList": [text, *said["PriceList"][1:]]}

    monkeypatch.setattr(account, "_pricing", answered)
    read = pricing.read("eu-central-1", None, NOON)
    assert read.trouble == ""
    assert 0 < len(read.on_demand) < len(all_types())


@pytest.mark.parametrize(
    ("region", "served"),
    [("eu-central-1", "us-east-1"), ("us-gov-west-1", "us-east-1"), ("cn-north-1", "cn-northwest-1")],
)
def test_it_is_asked_for_where_it_is_served(
    account: Recorded, region: str, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    whole = account.answer

    def answer(event_name: str, request: Any, **more: Any) -> Any:
        asked.append(request.url)
        return whole(event_name, request, **more)

    client("pricing", served).meta.events.register_first("before-send.pricing", answer)
    pricing.read(region, None, NOON)
    assert {f"api.pricing.{served}.amazonaws.com" in each for each in asked} == {True}


def test_the_question_leaves_out_what_is_no_host_of_ours(
    account: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dedicated hosts and reservations have separate prices."""
    asked: list[dict[str, Any]] = []
    whole = account._pricing

    def answered(operation: str, request: Any) -> Any:
        asked.append(json.loads(request.body))
        return whole(operation, request)

    monkeypatch.setattr(account, "_pricing", answered)
    pricing.read("eu-central-1", None, NOON)
    filters = {each["Field"]: each["Value"] for each in asked[0]["Filters"]}
    assert filters == {
        "regionCode": "eu-central-1",
        "operatingSystem": "Linux",
        "preInstalledSw": "NA",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
    }
    assert all(
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "eu-central-1"} in each["Filters"]
        for each in asked
    )
