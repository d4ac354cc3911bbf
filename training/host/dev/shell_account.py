"""The account that shells have on this host: Systems Manager's. What people do in JupyterLab they do as it, too."""

import os
import pwd
import subprocess
from pathlib import Path

from training.host.account import has_one_account
from training.host.errors import HostTrouble

NAME = "ssm-user"
"""As Systems Manager's agent makes it at the first session, with the right to become root."""


def find() -> pwd.struct_passwd:
    """That account, made if no session has been here yet; whoever asks, where the machine knows one account only.
    Raises HostTrouble."""
    if has_one_account():
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        pass
    made = subprocess.run(["useradd", "-m", NAME], capture_output=True, text=True, check=False)
    if made.returncode:
        raise HostTrouble(f"the account {NAME} could not be made: {made.stderr.strip()}")
    return pwd.getpwnam(NAME)


def become(account: pwd.struct_passwd) -> None:
    """This process, for good, with nothing of root's. Nothing changes where it is that account."""
    if account.pw_uid == os.geteuid():
        return
    os.initgroups(account.pw_name, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


def environment(account: pwd.struct_passwd) -> dict[str, str]:
    """What a login would say."""
    shell = next((each for each in ("/bin/bash", account.pw_shell) if Path(each).exists()), "/bin/sh")
    names = {"USER": account.pw_name, "LOGNAME": account.pw_name}
    return {**names, "HOME": account.pw_dir, "SHELL": shell, "LANG": "C.UTF-8"}
