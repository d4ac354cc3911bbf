"""The account of shells on this host, which Systems Manager uses. JupyterLab runs as this account, too."""

import os
import pwd
import subprocess
from pathlib import Path

from training.host.account import has_one_account
from training.host.errors import HostTrouble

NAME = "ssm-user"
"""Systems Manager's agent creates this account at the first session, with the right to become root."""


def find() -> pwd.struct_passwd:
    """Return the account, and create it before the first session. Return the present account if the machine has only
    one. Raises HostTrouble."""
    if has_one_account():
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        pass
    made = subprocess.run(["useradd", "-m", NAME], capture_output=True, text=True, check=False)
    if made.returncode:
        raise HostTrouble(f"the account {NAME} could not be created: {made.stderr.strip()}")
    return pwd.getpwnam(NAME)


def become(account: pwd.struct_passwd) -> None:
    """Switch this process to the account for good, without root's rights."""
    if account.pw_uid == os.geteuid():
        return
    os.initgroups(account.pw_name, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


def environment(account: pwd.struct_passwd) -> dict[str, str]:
    """Return the variables that a login would set."""
    shell = next((each for each in ("/bin/bash", account.pw_shell) if Path(each).exists()), "/bin/sh")
    names = {"USER": account.pw_name, "LOGNAME": account.pw_name}
    return {**names, "HOME": account.pw_dir, "SHELL": shell, "LANG": "C.UTF-8"}
