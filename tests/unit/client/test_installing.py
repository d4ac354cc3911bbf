"""Messages about a missing program give a command that works on the user's system."""

import pytest

from trainyard.client.installing import line_for

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\n'
MINT = 'ID=linuxmint\nID_LIKE="ubuntu debian"\n'
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'
ARCH = "ID=arch\n"


@pytest.mark.parametrize(
    ("release", "part", "is_root", "has_sudo", "line"),
    [
        (DEBIAN, "client", True, False, "apt-get install openssh-client"),
        (DEBIAN, "client", True, True, "apt-get install openssh-client"),
        (MINT, "server", False, True, "sudo apt-get install openssh-server"),
        (MINT, "server", False, False, "as root: apt-get install openssh-server"),
        (ROCKY, "client", False, True, "sudo dnf install openssh-clients"),
        (ARCH, "client", True, False, "pacman -S openssh"),
        (
            "ID=plan9\n",
            "client",
            True,
            False,
            "install OpenSSH's client with the package manager of this system",
        ),
        ("", "server", False, False, "install OpenSSH's server with the package manager of this system"),
    ],
)
def test_the_line_is_for_the_system_and_the_rights_of_the_user(
    release: str, part: str, is_root: bool, has_sudo: bool, line: str
) -> None:
    assert line_for(release, part, is_root=is_root, has_sudo=has_sudo) == line
