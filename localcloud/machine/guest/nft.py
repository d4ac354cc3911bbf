"""`nft --json --file -` on a host: the ruleset goes to init, which has it put in place (hypervisor/nft.py)."""

from __future__ import annotations

import sys

from localcloud.machine.guest.systemctl import ask, leave

USAGE = "Error: here nft knows `nft --json --file -` alone, with the ruleset as standard input"


def main() -> None:
    """The command's name and its arguments are in sys.argv."""
    words = ["--json" if word == "-j" else "--file" if word == "-f" else word for word in sys.argv[2:]]
    if words not in (["--json", "--file", "-"], ["--file", "-", "--json"]):
        leave(1, USAGE)
    leave(*ask(verb="nft", ruleset=sys.stdin.read()))
