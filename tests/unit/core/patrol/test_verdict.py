"""The decision table of the verdict, one test a row. docs/patrol.md shows this table."""

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lambdas.core.patrol.judgement import ENDING_STATES, ObservedHost, judge, prices
from lambdas.core.patrol.usage import Window
from lambdas.core.patrol.verdict import Earlier, NeedsMetrics, Verdict
from tests.unit.core.builders import NOON
from tests.unit.core.patrol.patrol_page import table
from tests.unit.core.patrol.verdict_cases import CASES, PRICE, Case, ago
from trainyard.protocol.plan import Market
from trainyard.protocol.verdicts import ACTS, Word

PAGE = Path(__file__).resolve().parents[4] / "docs" / "patrol.md"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdict(case: Case) -> None:
    verdict = judge(case.host(), NOON)
    word = "ask" if isinstance(verdict, NeedsMetrics) else verdict.word
    assert (word, getattr(verdict, "saves", 0.0)) == (case.word, case.saves), verdict.reason
    assert case.says in verdict.reason


def test_whatever_may_be_decided_otherwise_says_what_it_costs_on_each_rung() -> None:
    for case in CASES:
        verdict = judge(case.host(), NOON)
        if isinstance(verdict, Verdict) and not (case.host().live or case.host().state in ENDING_STATES):
            for price in (
                " a month for its disk of 100 GiB",
                "Archived: at most $5.00",
                "Terminated: nothing",
            ):
                assert price in verdict.reason, case.name


def test_of_a_disk_that_nobody_knows_the_price_is_that_of_a_gib() -> None:
    said = prices(replace(CASES[0].host(), state="running", disk_gib=None))
    assert said.startswith(
        "It costs $1.01 an hour. Stopped: $0.08 a month for each GiB of its disk. Archived: at most $0.05"
    )


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def test_the_page_shows_the_table() -> None:
    assert table() in PAGE.read_text(), "write it anew: python -m tests.unit.core.patrol.patrol_page"


def _any_host(chance: random.Random) -> ObservedHost:
    """Return a host with random properties."""
    minutes = tuple(chance.choice([None, 0.0, 2.0, 50.0]) for _ in range(30))
    return replace(
        Case("any", "", "").host(),
        market=chance.choice(list(Market)),
        state=chance.choice(["pending", "running", "stopped", *ENDING_STATES]),
        launched=ago(chance.choice([0.5, 5, 20, 600])),
        changed=chance.choice([None, NOON - timedelta(days=chance.choice([1, 9]))]),
        run=chance.choice([None, "digits-1"]),
        kind=chance.choice(["train", "bake", "dev-host"]),
        live=chance.random() < 0.2,
        stays=chance.random() < 0.3,
        ready=chance.choice([None, ago(25), ago(600)]),
        lease=chance.choice([None, NOON + timedelta(hours=1), NOON - timedelta(hours=1)]),
        held=chance.choice([None, None, NOON + timedelta(hours=1)]),
        session=chance.random() < 0.2,
        command=chance.random() < 0.2,
        window=chance.choice([None, Window(minutes), Window((0.0,) * 30)]),
        earlier=chance.choice([None, *(Earlier(Word(case.word), ago(5)) for case in CASES)]),
    )


def test_whatever_is_true_of_a_host_no_live_run_and_no_holder_loses_it() -> None:
    chance = random.Random(5)
    for _ in range(5000):
        host = _any_host(chance)
        verdict = judge(host, NOON)
        if not isinstance(verdict, Verdict) or verdict.kind not in ACTS:
            continue
        assert not host.live
        assert host.state not in ENDING_STATES
        assert host.state == "stopped" or not (host.held and host.held > NOON)
        assert verdict.reason
        assert verdict.since is not None
        if verdict.kind == "stop":
            assert host.market is Market.ON_DEMAND
        if verdict.cause == "idle":
            assert host.window is not None
            assert host.window.is_whole
            assert verdict.saves == PRICE


def test_a_tag_comes_back_as_it_was_and_anybody_elses_is_none() -> None:
    said = Earlier(Word("stop-idle"), NOON)
    assert Earlier.of_tag(said.to_tag(), NOON) == said
    assert (said.word.action, said.word.cause) == ("stop", "idle")
    for other in (None, "", "keep", "keep forever", "2026-11-20T12:00:00Z", "warn-orphan 2099-01-01"):
        assert Earlier.of_tag(other, NOON) is None
