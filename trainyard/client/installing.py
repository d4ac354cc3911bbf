"""The line that installs a program on this computer, as a user of its system types it."""

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
"""Package managers by the word for a system or its kin in /etc/os-release."""
OPENSSH = {
    "client": {"fedora": "openssh-clients", "rhel": "openssh-clients", "amzn": "openssh-clients"},
    "server": {},
}
WHOLE = ("arch", "suse")
"""Systems with one package `openssh` for both."""


def openssh(part: str) -> str:
    """Return what installs the `client` or the `server` of OpenSSH here: `sudo apt-get install openssh-client`. Without
    sudo and without root's rights the line says that root types it."""
    release = RELEASE.read_text() if RELEASE.exists() else ""
    return line_for(release, part, is_root=os.geteuid() == 0, has_sudo=bool(shutil.which("sudo")))


def line_for(release: str, part: str, *, is_root: bool, has_sudo: bool) -> str:
    """Decide the line from the text of /etc/os-release."""
    facts = _facts(release)
    words = [facts.get("ID", ""), *facts.get("ID_LIKE", "").split()]
    system = next((word for word in words if word in MANAGERS), None)
    if system is None:
        return f"install OpenSSH's {part} with the package manager of this system"
    package = "openssh" if system in WHOLE else OPENSSH[part].get(system, f"openssh-{part}")
    line = shlex.join([*MANAGERS[system], package])
    if is_root:
        return line
    return f"sudo {line}" if has_sudo else f"as root: {line}"


def _facts(release: str) -> Mapping[str, str]:
    pairs = (line.partition("=") for line in release.splitlines())
    return {name: value.strip("\"'") for name, _, value in pairs}
