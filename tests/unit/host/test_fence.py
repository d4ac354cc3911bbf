"""The firewall rules of a host in nft's format."""

import os
from pathlib import Path
from typing import Any

import pytest

from training.host import fence
from training.host.account import Account
from training.host.errors import HostTrouble

PROGRAMS = Account(998, 998)
AGENTS_OWN = Account(os.geteuid(), os.getegid())


def rules(hook: str, account: Account = PROGRAMS, gang: tuple[str, ...] = ()) -> list[str]:
    """Return the rules of a chain as lines in nft's format."""
    added = [
        each["add"]["rule"]
        for each in fence.ruleset(account, gang)["nftables"]
        if "rule" in each.get("add", {})
    ]
    return [" ".join(map(line, rule["expr"])) for rule in added if rule["chain"] == hook]


def line(statement: dict[str, Any]) -> str:
    ((word, of),) = statement.items()
    if word != "match":
        return word if of is None else f"{word} {of['type']}"
    ((_, left),) = of["left"].items()
    return f"{' '.join(left.values())} {of['op']} {of['right']}"


def test_a_host_takes_connections_from_its_gang_alone() -> None:
    assert rules("input", gang=("10.0.1.6", "10.0.1.5")) == [
        "iifname == lo accept",
        "state in ['established', 'related'] accept",
        "ip saddr == {'set': ['10.0.1.5', '10.0.1.6']} accept",
        "l4proto == tcp reject tcp reset",
        "udp dport >= 1024 reject",
    ]


def test_a_host_without_a_gang_takes_none() -> None:
    assert [rule for rule in rules("input") if "saddr" in rule] == []


def test_programs_do_not_reach_the_metadata_service_whose_credentials_are_the_hosts() -> None:
    assert rules("output") == [
        "skuid == 998 ip daddr == 169.254.169.254 reject",
        "skuid == 998 ip6 daddr == fd00:ec2::254 reject",
    ]
    assert rules("output", AGENTS_OWN) == [], "else the agent would not reach it either"


def test_the_rules_replace_those_before_in_one_transaction() -> None:
    begin = [next(iter(each)) for each in fence.ruleset(PROGRAMS, ())["nftables"][:3]]
    assert begin == ["add", "delete", "add"]


@pytest.mark.parametrize(
    ("nft", "said"),
    [
        (
            "echo 'Error: No such file or directory' >&2; exit 1",
            "nft failed with Error: No such file or directory",
        ),
        (None, "No such file or directory: 'nft'"),
    ],
)
def test_a_firewall_that_cannot_be_put_up_is_the_hosts_trouble(
    nft: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if nft:
        (tmp_path / "nft").write_text(f"#!/bin/sh\n{nft}\n")
        (tmp_path / "nft").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if nft else str(tmp_path))
    with pytest.raises(HostTrouble, match=said) as raised:
        fence.put_up(PROGRAMS)
    assert "bake a new image" in raised.value.reason
