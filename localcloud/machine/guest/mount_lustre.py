"""`mount.lustre` on a host: a folder of the local cloud's state, which all hosts share, in place of FSx for Lustre."""

from __future__ import annotations

import sys

from localcloud.machine.guest.mount_efs import mount, read_options
from localcloud.machine.guest.systemctl import leave

USAGE = "mount.lustre: usage: mount.lustre -o OPTIONS ADDRESS@tcp:/NAME[/PATH] FOLDER"
KNOWN = ("ro", "rw", "noatime", "flock")


def main() -> None:
    """Entry point. sys.argv holds the command's name and arguments."""
    words = sys.argv[2:]
    if len(words) != 4 or words[0] != "-o" or "@tcp:/" not in words[2]:
        leave(1, USAGE)
    given = read_options(words[1], KNOWN, "mount.lustre")
    address, _, path = words[2].partition("@tcp:/")
    mount("mount.lustre", words[3], service="fsx", address=address, path=path, read_only="ro" in given)
