"""`nft --json --file -` on a host: passes the ruleset to init, and the server applies it (hypervisor/nft.py)."""

from __future__ import annotations

import sys

from localcloud.machine.guest.systemctl import leave, send_request

USAGE = "Error: the local cloud supports only `nft --json --file -`, with the ruleset on standard input"


def main() -> None:
    """Entry point. sys.argv holds the command's name and arguments."""
    words = ["--json" if word == "-j" else "--file" if word == "-f" else word for word in sys.argv[2:]]
    if words not in (["--json", "--file", "-"], ["--file", "-", "--json"]):
        leave(1, USAGE)
    leave(*send_request(verb="nft", ruleset=sys.stdin.read()))
