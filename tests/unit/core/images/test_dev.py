"""Owners of dev hosts' names, and the images of dev hosts."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from lambdas.core.images import dev, dev_host
from lambdas.core.images.dev import NameUse, Refuse, Take
from lambdas.core.images.dev_host import DevHostRequest
from tests.unit.core.builders import NOON, an_image
from trainyard.core.model.images.image import Image
from trainyard.core.model.instance_types import MarketChoice
from trainyard.protocol.ledger.yard import DevRow
from trainyard.values.validation import InputFaults

LONG_AGO, JUST_NOW = NOON - timedelta(days=1), NOON - timedelta(seconds=30)
RUN = "dev-mine-20261120T120000-abc123"


def row(owner: str = "alice", run: str = "dev-mine-before", asked: Any = None, **more: Any) -> DevRow:
    known: dict[str, Any] = {"name": "mine", "at": LONG_AGO, "request": json.dumps(asked or {})}
    return DevRow(owner=owner, run=run, **(known | more))


def use(**changes: Any) -> NameUse:
    known: dict[str, Any] = {"row": None, "goes_on": None, "hosts": ()}
    return NameUse(**(known | changes))


TAKE = [
    ("alice", use(), None),
    ("alice", use(row=row()), None),
    ("alice", use(row=row(), goes_on=False), None),
    ("alice", use(row=row(), owners=frozenset({"alice"})), None),
    ("alice", use(row=row(run=RUN)), None),
    ("AROA1:alice@example.com", use(), None),
    ("bob", use(row=row(), goes_on=False), None),
    ("bob", use(row=row(at=JUST_NOW)), "belongs to alice"),
    ("bob", use(row=row(), goes_on=True), "belongs to alice"),
    ("bob", use(row=row(), owners=frozenset({"alice"})), "belongs to alice"),
    ("bob", use(owners=frozenset({"alice"})), "belongs to alice"),
    ("alice", use(owners=frozenset({"alice"})), None),
    ("bob", use(row=row(), goes_on=False, owners=frozenset({"bob"})), None),
    ("bob", use(row=row(), hosts=("i-1 (stopped)",)), "belongs to alice"),
    ("bob", use(row=row(run=RUN)), "belongs to alice"),
    ("alice", use(row=row(), hosts=("i-1 (stopped)",)), r"already exists: i-1 \(stopped\)"),
    ("alice", use(row=row(), goes_on=True), "already being launched, by dev-mine-before"),
    ("alice", use(row=row(at=JUST_NOW)), "already being launched"),
    ("carol,x", use(), "cannot own a dev host"),
    ("unknown", use(), "cannot own a dev host"),
]


@pytest.mark.parametrize(("by", "known", "refusal"), TAKE)
def test_a_name_is_its_owners_while_anything_of_it_is_left(
    by: str, known: NameUse, refusal: str | None
) -> None:
    found = dev.take("mine", RUN, by, known, NOON)
    if refusal is None:
        assert found == Take()
    else:
        assert isinstance(found, Refuse)
        assert re.search(refusal, found.reason), found.reason


@pytest.mark.parametrize(
    ("name", "run", "named"),
    [
        ("mine", RUN, True),
        ("a-b", "dev-a-b-1", True),
        ("mine", "dev-mine-", False),
        ("mine", "digits-20261120", False),
        ("mine", "dev-mine-../x", False),
        ("mine", f"dev-mine-{'1' * 80}", False),
        ("Mine", "dev-Mine-1", False),
        ("m" * 37, f"dev-{'m' * 37}-1", False),
        ("", "dev--1", False),
    ],
)
def test_a_wish_names_a_dev_host_and_a_run_of_it(name: str, run: str, named: bool) -> None:
    assert dev.is_named(name, run) is named


ALICES = {"kind": "snapshot", "family": "dev-mine", "dev": "mine", "submitter": "alice"}
OLDER = an_image(ami="ami-0000000000000000a", **ALICES)
NEWER = an_image(ami="ami-0000000000000000b", **ALICES)
BAKED = an_image(ami="ami-0000000000000000c", kind="baked", family="gpu", run="bake-1")
ALL = [OLDER, NEWER, BAKED]


def meant(row: DevRow, images: list[Image]) -> Image | InputFaults | None:
    request = dev_host.read_request(row)
    assert isinstance(request, DevHostRequest), request
    return dev_host.choose_image(row, request, images)


MEANT = [
    (row(), [BAKED], None),
    (row(), ALL, NEWER),
    (row(owner="bob"), ALL, None),
    (row(asked={"latest": "gpu"}), ALL, BAKED),
    (row(asked={"image": OLDER.id}), ALL, OLDER),
    (row(name="other", asked={"image": OLDER.id}), ALL, OLDER),
]


@pytest.mark.parametrize(("asked", "images", "image"), MEANT)
def test_it_starts_from_its_own_newest_image_else_from_the_current_one(
    asked: DevRow, images: list[Image], image: Image | None
) -> None:
    assert meant(asked, images) == image


def test_nobody_starts_from_an_image_of_somebody_elses_dev_host() -> None:
    for asked in ({"image": NEWER.id}, {"latest": "dev-mine"}):
        found = meant(row(owner="bob", asked=asked), ALL)
        assert isinstance(found, InputFaults)
        assert "alice's dev host mine" in found.reason
        by_hand = dev_host.read_input(asked)
        assert isinstance(by_hand, DevHostRequest)
        assert isinstance(dev_host.find_image(by_hand, ALL), InputFaults)


def test_an_image_that_is_being_made_is_waited_for() -> None:
    found = meant(row(), [an_image("pending", ami=NEWER.id, **ALICES)])
    assert isinstance(found, InputFaults)
    assert "pending, not available; try again once it is" in found.reason


def test_a_dev_host_is_on_demand_unless_its_owner_says_otherwise() -> None:
    for asked, market in (({}, MarketChoice.ON_DEMAND), ({"market": "spot"}, MarketChoice.SPOT)):
        request = dev_host.read_request(row(asked=asked))
        assert isinstance(request, DevHostRequest)
        assert request.market == market


def test_what_is_asked_for_has_the_faults_of_any_launch() -> None:
    found = dev_host.read_request(
        row(asked={"instance_types": ["g6.xlrge"], "image": OLDER.id, "latest": "gpu"})
    )
    assert isinstance(found, InputFaults)
    assert "g6.xlarge" in found.reason
    assert "found both image and latest" in found.reason


def test_more_than_anybody_asks_for_is_kept_nowhere() -> None:
    assert dev.as_text({"zones": ["us-east-1a"]}) == '{"zones": ["us-east-1a"]}'
    assert dev.as_text({"zones": ["x" * 5000]}) is None
