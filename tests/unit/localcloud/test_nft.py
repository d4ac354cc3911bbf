"""nft on a host: supported rulesets, and named refusals."""

import json
from typing import Any

import pytest

from localcloud.machine.hypervisor import nft

TABLE = {"family": "inet", "name": "mine"}
PLACE = {"family": "inet", "table": "mine"}
CHAIN = PLACE | {"name": "input", "type": "filter", "hook": "input", "prio": 0}


def rule(*statements: Any) -> dict[str, Any]:
    return {"add": {"rule": PLACE | {"chain": "input", "expr": list(statements)}}}


def match(left: Any, right: Any, how: str = "==") -> dict[str, Any]:
    return {"match": {"op": how, "left": left, "right": right}}


def payload(protocol: str, field: str) -> dict[str, Any]:
    return {"payload": {"protocol": protocol, "field": field}}


KNOWN = [
    {"add": {"table": TABLE}},
    {"delete": {"table": TABLE}},
    {"add": {"chain": CHAIN}},
    {"add": {"chain": CHAIN | {"policy": "accept"}}},
    rule({"accept": None}),
    rule(match({"meta": {"key": "iifname"}}, "lo"), {"drop": None}),
    rule(match({"meta": {"key": "skuid"}}, 998), {"reject": None}),
    rule(match({"meta": {"key": "l4proto"}}, "tcp"), {"reject": {"type": "tcp reset"}}),
    rule(match({"ct": {"key": "state"}}, ["related", "established"], "in"), {"accept": None}),
    rule(match(payload("ip", "saddr"), "10.0.1.5"), {"accept": None}),
    rule(match(payload("ip", "daddr"), {"set": ["10.0.1.5", "10.0.1.6"]}), {"accept": None}),
    rule(match(payload("ip6", "daddr"), "fd00:ec2::254"), {"drop": None}),
    rule(match(payload("udp", "dport"), 1024, ">="), {"drop": None}),
]
NOT_KNOWN = [
    ("Invalid JSON", "no JSON"),
    ("Invalid JSON", json.dumps({"rules": []})),
    ("family 'ip' is not known", {"add": {"table": {"family": "ip", "name": "mine"}}}),
    ("Operation not permitted", {"delete": {"table": {"family": "inet", "name": "security-groups"}}}),
    (
        "Operation not permitted",
        {"add": {"rule": PLACE | {"table": "security-groups", "chain": "in", "expr": []}}},
    ),
    ("flush ruleset", {"flush": {"ruleset": {"family": "inet", "name": "x"}}}),
    ("add chain", {"add": {"chain": CHAIN | {"policy": "drop"}}}),
    ("statement", rule({"masquerade": None})),
    ("match", rule(match({"meta": {"key": "mark"}}, 1), {"drop": None})),
    ("match", rule(match(payload("ip", "ttl"), 1), {"drop": None})),
    ("Invalid JSON", rule(match(payload("ip", "saddr"), "10.0.1.500"), {"drop": None})),
    ("Invalid JSON", rule(match(payload("tcp", "dport"), 70000), {"drop": None})),
]


@pytest.mark.parametrize("command", KNOWN, ids=range(len(KNOWN)))
def test_what_is_known(command: dict[str, Any]) -> None:
    assert nft.parse_ruleset(json.dumps({"nftables": [command]}))


@pytest.mark.parametrize(("said", "given"), NOT_KNOWN, ids=range(len(NOT_KNOWN)))
def test_what_is_refused_says_what_it_is(said: str, given: Any) -> None:
    text = given if isinstance(given, str) else json.dumps({"nftables": [given]})
    code, why = nft.apply(text, 0, enforced=False)
    assert code == 1
    assert why.startswith("Error: ")
    assert said in why


def test_a_machine_that_enforces_nothing_looks_at_the_rules_all_the_same() -> None:
    assert nft.apply(json.dumps({"nftables": [KNOWN[0]]}), 0, enforced=False) == (0, "")
