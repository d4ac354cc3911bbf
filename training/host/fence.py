"""The host's own firewall rules (nftables), in addition to the security groups.

Security groups let all hosts of a yard reach each other, and TensorFlow's servers do not authenticate their clients.
Therefore a host accepts connections only from its gang. Programs may not reach the metadata service either, which holds
the host's credentials: AWS recommends a rule by account (EC2 user guide, "Limit access to the instance metadata
service").
"""

import json
import subprocess
from collections.abc import Collection
from typing import Any

from training.host.account import Account
from training.host.errors import HostTrouble

TABLE = "trainyard"
COMMAND = ("nft", "--json", "--file", "-")
SECONDS = 60
METADATA, METADATA_6 = "169.254.169.254", "fd00:ec2::254"
FIRST_PORT = 1024
"""The system itself listens on lower ports, for example DHCP."""

Statement = dict[str, Any]


def put_up(account: Account, gang: Collection[str] = ()) -> None:
    """Replace the rules: accept answers to this host's own connections, accept connections from the addresses of its
    `gang`, and keep the account's programs from the metadata service. Raises HostTrouble."""
    try:
        done = subprocess.run(
            COMMAND,
            input=json.dumps(ruleset(account, gang)),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostTrouble(f"this host's firewall cannot be set up: {error}; {ADVICE}") from error
    if done.returncode:
        output = " ".join((done.stderr or done.stdout).split())
        raise HostTrouble(f"this host's firewall cannot be set up: nft failed with {output}; {ADVICE}")


ADVICE = "an image needs the package nftables and a kernel that supports it: bake a new image"


def ruleset(account: Account, gang: Collection[str]) -> Statement:
    """Return the rules for nft (libnftables-json(5)), as one transaction: the rules exist at every moment."""
    table = {"table": {"family": "inet", "name": TABLE}}
    known = _match("in", {"ct": {"key": "state"}}, ["established", "related"])
    received = [
        [_match("==", {"meta": {"key": "iifname"}}, "lo"), ACCEPT],
        [known, ACCEPT],
        *([[_match("==", _field("ip", "saddr"), {"set": sorted(gang)}), ACCEPT]] if gang else []),
        [_match("==", {"meta": {"key": "l4proto"}}, "tcp"), RESET],
        [_match(">=", _field("udp", "dport"), FIRST_PORT), REJECT],
    ]
    programs = _match("==", {"meta": {"key": "skuid"}}, account.uid)
    sent = [
        [programs, _match("==", _field("ip", "daddr"), METADATA), REJECT],
        [programs, _match("==", _field("ip6", "daddr"), METADATA_6), REJECT],
    ]
    return {
        "nftables": [
            {"add": table},
            {"delete": table},
            {"add": table},
            *_chain("input", received),
            *_chain("output", sent if account.is_another else []),
        ]
    }


ACCEPT: Statement = {"accept": None}
REJECT: Statement = {"reject": None}
RESET: Statement = {"reject": {"type": "tcp reset"}}
"""Refuse at once, like a closed port: the hosts of a gang call each other until all have started."""


def _chain(hook: str, rules: list[list[Statement]]) -> list[Statement]:
    """Return the commands that add a chain named like its hook, with its rules."""
    table = {"family": "inet", "table": TABLE}
    chain = table | {"name": hook, "type": "filter", "hook": hook, "prio": 0, "policy": "accept"}
    return [
        {"add": {"chain": chain}},
        *({"add": {"rule": table | {"chain": hook, "expr": statements}}} for statements in rules),
    ]


def _match(how: str, left: Statement, right: Any) -> Statement:
    return {"match": {"op": how, "left": left, "right": right}}


def _field(protocol: str, name: str) -> Statement:
    return {"payload": {"protocol": protocol, "field": name}}
