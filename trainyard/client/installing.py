"""The command that installs a program on this computer's system."""

import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

RELEASE = Path("/etc/os-release")
MANAGERS = {
    "debian": ("apt-get", "install"),
    "ubuntu": ("apt-get", "install"),
    "fedora": ("dnf", "install"),
    "rhel": ("dnf", "install"),
    "amzn": ("dnf", "install"),
    "suse": ("zypper", "install"),
    "arch": ("pacman", "-S"),
    "alpine": ("apk", "add"),
}
"""Package managers by the name of a system or its family in /etc/os-release."""
OPENSSH = {
    "client": {"fedora": "openssh-clients", "rhel": "openssh-clients", "amzn": "openssh-clients"},
    "server": {},
}
ONE_PACKAGE = ("arch", "suse")
"""Systems with one package `openssh` for client and server."""


def openssh(part: str) -> str:
    """Return the command that installs the `client` or the `server` of OpenSSH: `sudo apt-get install openssh-client`.
    Without sudo, the text states that root runs the command."""
    release = RELEASE.read_text() if RELEASE.exists() else ""
    return line_for(release, part, is_root=os.geteuid() == 0, has_sudo=bool(shutil.which("sudo")))


def line_for(release: str, part: str, *, is_root: bool, has_sudo: bool) -> str:
    """Return the command for the text of /etc/os-release."""
    fields = _os_release(release)
    words = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    system = next((word for word in words if word in MANAGERS), None)
    if system is None:
        return f"install OpenSSH's {part} with the package manager of this system"
    package = "openssh" if system in ONE_PACKAGE else OPENSSH[part].get(system, f"openssh-{part}")
    line = shlex.join([*MANAGERS[system], package])
    if is_root:
        return line
    return f"sudo {line}" if has_sudo else f"as root: {line}"


def _os_release(release: str) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in release.splitlines())
    return {name: value.strip("\"'") for name, _, value in pairs}
