"""Accounts for sessions: root, the requested account, or `ssm-user`."""

from __future__ import annotations

import fcntl
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.machine.guest.session_order import Order, SessionOver

USER = "ssm-user"
ACCOUNTS = (80_000, 90_000)
"""Range of user IDs of a host's accounts, unused on the machine (see etc/login.defs of the image)."""
SUDOERS = Path("/etc/sudoers.d/ssm-agent-users")


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int
    home: str

    def options(self) -> dict[str, Any]:
        """Return the arguments with which a process runs as this account.

        Empty if this process already has the account.
        """
        if self.uid == os.geteuid():
            return {}
        groups = os.getgrouplist(self.name, self.gid)
        return {"user": self.uid, "group": self.gid, "extra_groups": groups}


def account_of(order: Order, *, elevated: bool = False) -> Account:
    if elevated or single_account():
        root = pwd.getpwuid(os.geteuid())
        return Account(root.pw_name, root.pw_uid, root.pw_gid, root.pw_dir)
    name = order.run_as
    if not name:
        make_user()
        name = USER
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise SessionOver(
            f"Unable to start shell: failed to start pty since RunAs user {name} does not exist"
        ) from None
    return Account(found.pw_name, found.pw_uid, found.pw_gid, found.pw_dir)


def single_account() -> bool:
    """Return True in a user namespace with one account."""
    return int(Path("/proc/self/uid_map").read_text().split()[2]) == 1


def make_user() -> None:
    """Create `ssm-user` with sudo rights if it is missing, as the SSM agent does before the first session."""
    SUDOERS.parent.mkdir(parents=True, exist_ok=True)
    SUDOERS.write_text(f"# User rules for {USER}\n{USER} ALL=(ALL) NOPASSWD:ALL\n")
    SUDOERS.chmod(0o440)
    with Path("/etc/passwd").open("r+") as accounts:
        fcntl.flock(accounts, fcntl.LOCK_EX)
        lines = [line.split(":") for line in accounts.read().splitlines()]
        if any(line[0] == USER for line in lines):
            return
        taken = {int(number) for line in lines for number in line[2:4]}
        uid = next(number for number in range(*ACCOUNTS) if number not in taken)
        home = Path("/home", USER)
        home.mkdir(parents=True, exist_ok=True)
        os.chown(home, uid, uid)
        home.chmod(0o750)
        with Path("/etc/group").open("a") as groups:
            groups.write(f"{USER}:x:{uid}:\n")
        accounts.write(f"{USER}:x:{uid}:{uid}::{home}:/bin/sh\n")
