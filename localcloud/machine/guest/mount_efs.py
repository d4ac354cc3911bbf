"""`mount.efs` on a host: a folder of the local cloud's state, which all hosts share, in place of a file system of EFS.

It has the options and messages of efs-utils 3.2 that hosts use (github.com/aws/efs-utils).
"""

from __future__ import annotations

import configparser
import os
import sys
import time
from pathlib import Path

from localcloud.machine.guest.mounting import SILENT, MountRefused, request_mount
from localcloud.machine.guest.systemctl import leave

USAGE = "mount.efs: usage: mount.efs ID:/PATH FOLDER -o OPTIONS"
KNOWN = (
    "ro",
    "rw",
    "tls",
    "iam",
    "awsprofile",
    "region",
    "mounttargetip",
    "accesspoint",
    "soft",
    "hard",
    "timeo",
    "retrans",
)
SILENT_SECONDS = 120.0
"""How long mount.nfs tries."""
REFUSED = 32


def read_options(text: str, known: tuple[str, ...], command: str) -> dict[str, str]:
    """Return the options of `-o`, by name. Leave with an error for an unknown one."""
    found = dict(word.partition("=")[::2] for word in text.split(","))
    for name in found:
        if name not in known:
            leave(1, f"{command}: the local cloud does not know the option {name!r}")
    return found


def mount(command: str, target: str, *, read_only: bool, **order: str) -> None:
    """Mount, or leave with the reason. A file system behind closed ports keeps the command waiting."""
    try:
        request_mount("file-system", target, read_only=read_only, **order)
    except MountRefused as refused:
        if str(refused) != SILENT:
            leave(REFUSED, str(refused))
        time.sleep(SILENT_SECONDS)
        leave(REFUSED, f"{command}: Connection timed out")


def main() -> None:
    """Entry point. sys.argv holds the command's name and arguments."""
    words = sys.argv[2:]
    if len(words) != 4 or words[2] != "-o" or ":" not in words[0]:
        leave(1, USAGE)
    name, _, path = words[0].partition(":")
    given = read_options(words[3], KNOWN, "mount.efs")
    if "accesspoint" in given and "tls" not in given:
        leave(1, 'The "tls" option is required when mounting via "accesspoint"')
    if "iam" in given and "tls" not in given:
        leave(1, 'The "tls" option is required when mounting via "iam"')
    mount(
        "mount.nfs4",
        words[1],
        service="efs",
        name=name,
        path=path,
        address=given.get("mounttargetip", ""),
        access_point=given.get("accesspoint", ""),
        key=_key(given.get("awsprofile", "")) if "iam" in given else "",
        read_only="ro" in given,
    )


def _key(profile: str) -> str:
    """Return the access key of a profile of root's credentials."""
    path = Path(os.path.expanduser("~root"), ".aws/credentials")  # noqa: PTH111 - Path.expanduser reads HOME
    found = configparser.ConfigParser()
    found.read(path)
    if not found.has_option(profile, "aws_access_key_id"):
        leave(1, f"AWS security credentials not found in {path} under profile [{profile}]")
    return found[profile]["aws_access_key_id"]
