"""Hosts that test the reachability of others."""

from tests.contract.hosts.conftest import Hosts

# Unsigned requests are refused by S3, which is an answer.
CALL = 'curl -s -o /dev/null -m 2 -w "%{http_code}" "$AWS_ENDPOINT_URL/" || true'
TOKEN = (
    "curl -s -m 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' -o /dev/null -w '%{http_code}' "
    "http://169.254.169.254/latest/api/token || true"
)


def watching(hosts: Hosts, instance_id: str, command: str) -> None:
    """Write the output of the command to /opt/count repeatedly on the host."""
    hosts.send([instance_id], f"while :; do {command} >> /opt/count; echo >> /opt/count; sleep 0.2; done")


def seen(hosts: Hosts, instance_id: str) -> str:
    """Return the last line of the output."""
    path = hosts.cloud.state / "instances" / instance_id / "upper" / "opt" / "count"
    return next(reversed(path.read_text().split()), "") if path.exists() else ""


def knock(hosts: Hosts, instance_id: str) -> str:
    """Return a command that tests if a host refuses connections to an unused port, which shows that it is reachable."""
    address = (hosts.instance(instance_id)["PrivateIpAddress"], 9)
    lines = (
        "import socket",
        "s = socket.socket()",
        "s.settimeout(1)",
        f"print('there' if s.connect_ex({address}) == 111 else 'lost')",
    )
    return f'python3 -c "{"; ".join(lines)}"'
