"""Tests of tokens, the timeline, the catalog and serialization."""

import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from localcloud.base.settings import Settings
from tests.unit.core.builders import NOON, after
from trainyard.core.model import errors, instance_types, names, tokens
from trainyard.protocol import timeline
from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.plan import Market
from trainyard.protocol.timeline import Entry, Source
from trainyard.values import serialization

UNPRICED = {"p2", "p3", "p5e"}
"""Families without a price. AWS's current images do not support p2 and p3; the catalog has no price of p5e."""


def test_one_object_version_is_one_run() -> None:
    first = tokens.run_id("digits", key="jobs/digits.yaml", version="v1")
    assert first == tokens.run_id("digits", key="jobs/digits.yaml", version="v1")
    others = {
        tokens.run_id("digits", key="jobs/digits.yaml", version="v2"),
        tokens.run_id("digits", key="jobs/other.yaml", version="v1"),
    }
    assert first not in others
    assert len(others) == 2
    assert names.name_fault(first) is None
    assert first.startswith("digits-")


@pytest.mark.parametrize("run", ["a", "digits-1a2b3c4d", "x" * 80])
def test_tokens_are_short_distinct_and_repeatable(run: str) -> None:
    asks = [
        (yard, attempt, candidate, round_, gang)
        for yard in ("trainyard", "other")
        for attempt in (1, 11)
        for candidate in (0, 1, 11)
        for round_ in (0, 1)
        for gang in (1, 2)
    ]

    def made_of_all() -> list[str]:
        return [
            tokens.client_token(run, yard=y, attempt=a, candidate=o, round=r, gang=g)
            for y, a, o, r, g in asks
        ]

    made = made_of_all()
    assert made == made_of_all()
    assert len(set(made)) == len(asks)
    assert all(len(token) <= 64 and token.isascii() for token in made)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("digits-1", True),
        ("A_b-9", True),
        ("", False),
        ("a b", False),
        ("a" * 81, False),
        ("a/b", False),
        ("\u00e9", False),
    ],
)
def test_execution_names(name: str, legal: bool) -> None:
    assert (names.name_fault(name) is None) is legal


def entry(seconds: float, event: str = "launched") -> Entry:
    return Entry(at=after(seconds), source=Source.WORKFLOW, event=event, attempt=1, detail={"n": 1})


def test_the_timeline_is_ordered_and_says_nothing_twice() -> None:
    entries = [entry(2), entry(1, "b"), entry(1, "a"), entry(2)]
    found = timeline.sort_entries(entries)
    assert [each.at for each in found] == [after(1), after(1), after(2)]
    assert found == timeline.sort_entries(reversed(entries))


def test_events_of_one_moment_stand_in_the_order_of_cause() -> None:
    words = ["succeeded", "finished", "released", "ready", "started", "launched"]
    found = timeline.sort_entries(entry(1, word) for word in words)
    assert [each.event for each in found] == [
        "launched", "ready", "started", "finished", "released", "succeeded",
    ]  # fmt: skip


def test_a_timeline_line_has_no_empty_keys() -> None:
    text = timeline.to_jsonl(
        [Entry(at=NOON, source=Source.AWS, event="warned", reason="spot \u2014 2 minutes")]
    )
    assert json.loads(text) == {
        "at": "2026-11-20T12:00:00.000Z",
        "source": "aws",
        "event": "warned",
        "reason": "spot \u2014 2 minutes",
    }
    assert timeline.to_jsonl([]) == ""


def test_a_noun_survives_dynamodb_numbers_and_unknown_keys() -> None:
    host = BilledHost(
        instance="i-1",
        type="g6.xlarge",
        zone="z",
        market=Market.SPOT,
        price=0.25,
        launched=NOON,
        ended=after(1),
    )
    row = serialization.to_json(host) | {"price": Decimal("0.25"), "extra": Decimal(7)}
    assert serialization.from_json(BilledHost, row) == host


def test_times_are_utc_with_milliseconds() -> None:
    assert (
        serialization.timestamp(serialization.parse_timestamp("2026-11-20T13:00:00.5+01:00"))
        == "2026-11-20T12:00:00.500Z"
    )
    assert serialization.parse_timestamp("2026-11-20T12:00:00") == NOON
    for text in ("soon", "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"):
        with pytest.raises(ValueError, match=f"{text[:4]}"):
            serialization.parse_timestamp(text)


def test_the_catalogue_says_of_each_type_what_ec2_says() -> None:
    """moto has EC2's own answers. They lack p2 and p3, which AWS has retired."""
    for kind in instance_types.catalog().types.values():
        if not kind.name.startswith(("p2.", "p3.")):
            ec2 = INSTANCE_TYPES.get(kind.name)
            assert ec2, (
                f"{kind.name}: moto does not know it, so no local cloud launches it (docs/local-cloud.md)"
            )
            gpus = ec2.get("GpuInfo", {}).get("Gpus", [])
            said = {each["Name"].lower().replace(" ", "-") for each in gpus}
            assert kind.vcpus == ec2["VCpuInfo"]["DefaultVCpus"], kind.name
            assert kind.architecture in ec2["ProcessorInfo"]["SupportedArchitectures"], kind.name
            assert (kind.gpus, said) == (sum(each["Count"] for each in gpus), {kind.gpu} - {""}), kind.name


def test_the_catalogue_is_whole() -> None:
    found = instance_types.catalog()
    for kind in found.types.values():
        assert (kind.gpus >= 1) == bool(kind.gpu) == (kind.name[0] in "gp")
        assert (kind.gpu in found.generations) == bool(kind.gpus)
        assert kind.vcpus >= (4 if kind.gpus else 2)
        assert instance_types.quota(kind, Market.ON_DEMAND) is not None
        assert instance_types.quota(kind, Market.SPOT) is not None or kind.name.startswith("p6")
    assert found.price_date == "2026-07-20"


def test_a_type_is_for_roles_with_a_gpu_or_for_those_without() -> None:
    known = instance_types.catalog().types
    assert {name.split(".")[0] for name in instance_types.cpu_types()} == {
        f"{size}{maker}" for size in "cmr" for maker in ("6i", "6a", "7i", "7a")
    }
    assert all(known[name].gpu == "" for name in instance_types.cpu_types())
    assert all(known[name].on_demand_price for name in instance_types.cpu_types())


def test_the_local_cloud_asks_the_prices_that_the_catalogue_knows() -> None:
    asked = Settings.load().prices
    known = {name: kind.on_demand_price for name, kind in instance_types.catalog().types.items()}
    assert {name: known[name] for name in asked if name in known} == {
        name: price for name, price in asked.items() if name in known
    }
    assert {name.split(".")[0] for name in known if name not in asked} == UNPRICED


def test_no_type_stands_twice_in_the_file() -> None:
    file = Path(instance_types.__file__).with_name("instance_types.json")
    rows = Counter(row["name"] for row in json.loads(file.read_text())["types"])
    assert [name for name, count in rows.items() if count > 1] == []


@pytest.mark.parametrize(
    ("name", "market", "code"),
    [
        ("g5.xlarge", Market.SPOT, "L-3819A6DF"),
        ("g5.xlarge", Market.ON_DEMAND, "L-DB2E81BA"),
        ("p4d.24xlarge", Market.SPOT, "L-7212CCBC"),
        ("p5.48xlarge", Market.SPOT, "L-C4BD4855"),
        ("p6-b200.48xlarge", Market.ON_DEMAND, "L-417A185B"),
        ("c7i.large", Market.ON_DEMAND, "L-1216C47A"),
        ("r6a.8xlarge", Market.SPOT, "L-34B43A08"),
    ],
)
def test_each_type_counts_against_its_quota(name: str, market: Market, code: str) -> None:
    found = instance_types.quota(instance_types.instance_type(name), market)
    assert found is not None
    assert found.code == code


def test_every_error_word_says_whose_fault_it_is() -> None:
    for word, error in errors.WORDS.items():
        assert error.blame is not errors.Blame.UNKNOWN, word
        assert error("a reason").reason == "a reason"
        assert word in (errors.__doc__ or "")


def test_nouns_need_neither_yaml_nor_boto3() -> None:
    """Every handler imports the models. Only readers of YAML files import yaml."""
    code = "import sys\nfrom trainyard.core.model import gang, job\nfrom trainyard.protocol import timeline\n"
    code += "from lambdas.core.capacity import candidates, placement\n"
    code += "from lambdas.core.run import readiness, records, recovery\n"
    code += "from lambdas.core.run.conclusion import summary\n"
    code += "print([m for m in ('yaml', 'boto3', 'difflib', 'attr') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
