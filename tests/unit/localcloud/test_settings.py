"""The settings file, and a user's overrides."""

from pathlib import Path
from random import Random

import pytest

from localcloud.base.rates import Rate, rate_of
from localcloud.base.settings import Settings, SettingsError, Spread, value_for_pool


def overlay(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return Settings.load(path)


def test_an_overlay_changes_only_what_it_names(tmp_path: Path) -> None:
    settings = overlay(tmp_path, "latencies: {boot: 30}\nquotas: {L-DB2E81BA: {applied: 8}}\n")
    assert settings.latencies.boot == 30
    assert settings.latencies.stop == Settings.load().latencies.stop
    assert settings.quotas["L-DB2E81BA"].value == 8
    assert overlay(tmp_path, "latencies: {agent: never}\n").latencies.agent is None
    assert overlay(tmp_path, "latencies: {agent: 90}\n").latencies.agent == Spread(90, 90)
    assert settings.quotas["L-DB2E81BA"].name == "Running On-Demand G and VT instances"


def test_agents_register_some_sooner_some_minutes_later(tmp_path: Path) -> None:
    given = overlay(tmp_path, "latencies: {agent: {median: 30, p95: 240}}\n").latencies.agent
    assert given is not None
    seconds = sorted(given.draw(Random(number)) for number in range(2000))
    assert 25 < seconds[1000] < 35
    assert 190 < seconds[1900] < 300
    assert Spread(0, 0).draw(Random(1)) == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("latencys: {boot: 1}", "latencys"),
        ("latencies: {bot: 1}", "latencies.bot"),
        ("latencies: {agent: soon}", "latencies.agent: 'soon'; allowed: seconds from 0, {median: 30"),
        ("latencies: {agent: {median: 30}}", "latencies.agent"),
        ("latencies: {agent: {median: 30, p95: 5}}", "latencies.agent"),
        ("latencies: {agent: {median: 0, p95: 5}}", "latencies.agent"),
        ("capacity: {g5.xlarge: 1}", "capacity.g5.xlarge"),
        ("images: {ami-1: {root_gib: 8}}", "images.ami-1"),
        ("images: {ami-0b5eacf05cf9e0001: {files: {etc/motd: hello}}}", "etc/motd: a path"),
        ("images: {ami-0b5eacf05cf9e0001: {files: {/etc/../motd: hello}}}", "a path"),
        ("images: {ami-0b5eacf05cf9e0001: {files: {/etc/motd: 1}}}", "/etc/motd: the content"),
        ("images: {ami-0b5eacf05cf9e0001: {architecture: ppc}}", "architecture: 'ppc'"),
        ("metrics: {interval_seconds: 0}", "metrics.interval_seconds"),
        ("metrics: {interval: 5}", "metrics.interval"),
        ("rates: {CreateFleet: [5, 2]}", "rates.CreateFleet: an action is written"),
        ("rates: {ec2:CreateFleet: 5}", "rates.ec2:CreateFleet: 5; allowed: \\[the most at once"),
        ("rates: {ec2:CreateFleet: [0, 2]}", "rates.ec2:CreateFleet"),
        ("rates: [5, 2]", "rates: expected a mapping"),
        ("- a list", "mapping"),
        ("latencies: fast", "latencies"),
    ],
)
def test_a_fact_that_cannot_be_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        overlay(tmp_path, text)


def test_the_most_exact_pool_wins() -> None:
    pools = {"*/*/*": 9, "g5.xlarge/*/spot": 1, "g5.xlarge/us-east-1a/*": 2}
    assert value_for_pool(pools, "g5.xlarge", "us-east-1b", "spot") == 1
    assert value_for_pool(pools, "g5.xlarge", "us-east-1a", "on-demand") == 2
    assert value_for_pool(pools, "g6.xlarge", "us-east-1a", "spot") == 9
    assert value_for_pool({}, "g6.xlarge", "us-east-1a", "spot") is None


def test_the_most_exact_rate_wins_and_null_limits_nothing(tmp_path: Path) -> None:
    settings = overlay(tmp_path, "rates: {'ec2:Describe*': [7, 1]}")
    assert rate_of(settings.rates, "ec2:DescribeImages") == Rate(7, 1)
    assert rate_of(settings.rates, "ec2:RunInstances") == Rate(5, 2)
    assert rate_of(settings.rates, "ec2:CreateFleet") == Rate(50, 5)
    assert rate_of(settings.rates, "dynamodb:Query") is None
    assert overlay(tmp_path, "rates: null").rates == {}


def test_a_pool_may_be_written_with_patterns() -> None:
    pools = {"g*/*/spot": 1, "g6.*/*/spot": 2, "g6.xlarge/us-east-1?/spot": 3, "g6.xlarge/us-east-1a/*": 4}
    assert value_for_pool(pools, "g5.xlarge", "us-east-1a", "spot") == 1
    assert value_for_pool(pools, "g6.2xlarge", "us-east-1a", "spot") == 2
    assert value_for_pool(pools, "g6.xlarge", "us-east-1b", "spot") == 3
    assert value_for_pool(pools, "g6.xlarge", "us-east-1a", "on-demand") == 4
    assert value_for_pool(pools, "p5.48xlarge", "us-east-1a", "spot") is None


@pytest.mark.parametrize(
    ("instance_type", "market", "code"),
    [
        ("g6.xlarge", "spot", "L-3819A6DF"),
        ("gr6.4xlarge", "on-demand", "L-DB2E81BA"),
        ("p4d.24xlarge", "spot", "L-7212CCBC"),
        ("p5.48xlarge", "spot", "L-C4BD4855"),
        ("p5.48xlarge", "on-demand", "L-417A185B"),
        ("t3.micro", "on-demand", "L-1216C47A"),
        ("trn1.2xlarge", "spot", "L-6B0D517C"),
    ],
)
def test_each_type_counts_against_its_own_quota(instance_type: str, market: str, code: str) -> None:
    found = Settings.load().quota_of(instance_type, market)
    assert found is not None
    assert found[0] == code
