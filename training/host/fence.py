"""What passes at this host, by rules of its own beside those of the security groups: nftables.

Security groups let the hosts of a yard reach each other, and TensorFlow's servers ask nobody who they are: so a host
takes connections from its gang alone. And a program may not speak to the metadata service, which has the credentials
of the host: AWS's advice is a rule by the account (EC2 user guide, "Limit access to the instance metadata service").
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
"""Below it the system itself listens: DHCP, for one."""

Statement = dict[str, Any]


def put_up(account: Account, gang: Collection[str] = ()) -> None:
    """Let in whom this host calls and, from now on, the hosts at the addresses of its `gang`; keep the account's
    programs from the metadata service. Takes the place of what was put up before. Raises HostTrouble."""
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
        raise HostTrouble(f"the firewall of this host cannot be put up: {error}; {ADVICE}") from error
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise HostTrouble(f"the firewall of this host cannot be put up: nft says {said}; {ADVICE}")


ADVICE = "an image of this yard has the package nftables and a kernel that knows it: bake one anew"


def ruleset(account: Account, gang: Collection[str]) -> Statement:
    """For nft: libnftables-json(5). One transaction: at no moment there are no rules."""
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
"""Said at once, as by a port where nobody listens yet: a gang's hosts call each other until all have begun."""


def _chain(hook: str, rules: list[list[Statement]]) -> list[Statement]:
    """A chain that is called as its hook."""
    place = {"family": "inet", "table": TABLE}
    chain = place | {"name": hook, "type": "filter", "hook": hook, "prio": 0, "policy": "accept"}
    return [
        {"add": {"chain": chain}},
        *({"add": {"rule": place | {"chain": hook, "expr": statements}}} for statements in rules),
    ]


def _match(how: str, left: Statement, right: Any) -> Statement:
    return {"match": {"op": how, "left": left, "right": right}}


def _field(protocol: str, name: str) -> Statement:
    return {"payload": {"protocol": protocol, "field": name}}
