"""`nft` on a host: its rules apply in addition to the security groups, which the host cannot change."""

from __future__ import annotations

import json
import shlex

from tests.contract.hosts.conftest import Hosts
from tests.contract.hosts.groups import LOST, REFUSED, becomes, group, port_9
from tests.contract.hosts.knocking import knock

PLACE = {"family": "inet", "table": "mine"}
METADATA = "curl -s -o /dev/null -m 5 -w '%{http_code}' -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
http://169.254.169.254/latest/api/token || true"


def nft(*commands: object) -> str:
    """Return a shell line that applies these commands."""
    return f"echo {shlex.quote(json.dumps({'nftables': commands}))} | nft --json --file -"


def chain(hook: str) -> dict[str, object]:
    return {"add": {"chain": PLACE | {"name": hook, "type": "filter", "hook": hook, "prio": 0}}}


def rule(hook: str, *statements: object) -> dict[str, object]:
    return {"add": {"rule": PLACE | {"chain": hook, "expr": statements}}}


def match(left: object, right: object) -> dict[str, object]:
    return {"match": {"op": "==", "left": left, "right": right}}


TABLE = {"table": {"family": "inet", "name": "mine"}}


def test_an_account_is_kept_from_the_metadata_service_and_no_other(hosts: Hosts) -> None:
    host = hosts.one()
    kept = [
        match({"meta": {"key": "skuid"}}, 65534),
        match({"payload": {"protocol": "ip", "field": "daddr"}}, "169.254.169.254"),
        {"reject": None},
    ]
    hosts.run(host, nft({"add": TABLE}, chain("output"), rule("output", *kept)))
    assert hosts.run(host, METADATA) == "200"
    if hosts.run(host, "setpriv --reuid=65534 --clear-groups id -u || true") == "65534":
        as_nobody = f"setpriv --reuid=65534 --clear-groups sh -c {shlex.quote(METADATA)}"
        assert hosts.run(host, as_nobody) == "000"
    hosts.run(host, nft({"delete": TABLE}))


def test_a_host_lets_in_whom_it_names_and_cannot_open_what_security_groups_close(hosts: Hosts) -> None:
    inside = group(hosts)
    hosts.ec2.authorize_security_group_ingress(GroupId=inside, IpPermissions=[port_9(inside)])
    guarded, friend, other = (hosts.one(SecurityGroupIds=[inside]) for _ in range(3))
    stranger = hosts.one(SecurityGroupIds=[group(hosts)])
    door, address = knock(hosts, guarded), hosts.instance(friend)["PrivateIpAddress"]
    for one in (friend, other):
        becomes(hosts, one, door, REFUSED)
    source = match({"payload": {"protocol": "ip", "field": "saddr"}}, {"set": [address]})
    tcp = match({"meta": {"key": "l4proto"}}, "tcp")
    rules = rule("input", source, {"accept": None}), rule("input", tcp, {"drop": None})
    hosts.run(guarded, nft({"add": TABLE}, chain("input"), *rules))
    assert (hosts.run(friend, door), hosts.run(other, door), hosts.run(stranger, door)) == (
        REFUSED,
        LOST,
        LOST,
    )
    open_all = nft({"delete": {"table": {"family": "inet", "name": "security-groups"}}})
    assert (
        hosts.run(guarded, f"{open_all} 2>&1 || true")
        == "Error: Could not process rule: Operation not permitted"
    )
    hosts.run(guarded, nft({"delete": TABLE}))
    assert (hosts.run(other, door), hosts.run(stranger, door)) == (REFUSED, LOST)


def test_what_nft_cannot_do_here_is_an_error_that_names_it(hosts: Hosts) -> None:
    host = hosts.one()
    for line, said in (
        ("nft list ruleset", "Error: the local cloud supports only"),
        ("echo '{}' | nft -j -f -", "Error: Invalid JSON"),
        (nft({"add": {"table": {"family": "bridge", "name": "x"}}}), "Error: family 'bridge' is not known"),
    ):
        assert hosts.run(host, f"{line} 2>&1; echo code $?").startswith(said)
        assert hosts.run(host, f"{line} >/dev/null 2>&1; echo $?") == "1"
