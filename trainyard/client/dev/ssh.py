"""ssh to dev hosts through a session. Host and user exchange their keys by a session command.

AWS verifies the host, and IAM the user. All files are in `~/.ssh/trainyard`; one line of `~/.ssh/config` includes them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from trainyard.client import installing
from trainyard.client.deployment import Deployment
from trainyard.client.dev.hosts import DevHost
from trainyard.client.errors import NotHere, SessionRefused
from trainyard.client.sessions import relay, shell
from trainyard.client.sessions.link import OnStep
from trainyard.command_line import command_line

PORT = 22
LOCAL = ("127.0.0.1", "localhost")
"""The hosts of a local cloud's endpoint."""
KEY = re.compile(r"^(?:ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/=]+", re.MULTILINE)
WHO = re.compile(r"^account (\S+)$", re.MULTILINE)
BEGIN, END = "# --- trainyard: dev hosts (trainyard dev code) ---", "# --- trainyard: end ---"
INCLUDE = "Include trainyard/*.conf"
GREETING = """
umask 077
mkdir -p ~/.ssh && touch ~/.ssh/authorized_keys || exit
grep -qxF {key} ~/.ssh/authorized_keys || echo {key} >> ~/.ssh/authorized_keys || exit
echo account $(id -un)
cat /etc/ssh/ssh_host_*_key.pub 2>/dev/null
true
"""


@dataclass(frozen=True)
class Files:
    """The files in a user's home. `alias` is the host's name for ssh."""

    home: Path
    alias: str

    @classmethod
    def of(cls, yard: str, name: str, home: Path) -> Self:
        return cls(home, f"{yard.lower()}-{name}")

    @property
    def folder(self) -> Path:
        return self.home / ".ssh" / "trainyard"

    @property
    def key(self) -> Path:
        """Return the private key, which is used only for dev hosts. The public key lies beside it."""
        return self.folder / "key"

    @property
    def config(self) -> Path:
        return self.folder / f"{self.alias}.conf"

    @property
    def known_hosts(self) -> Path:
        """Return the file of the host's keys, below a line with the instance they belong to."""
        return self.folder / f"{self.alias}.known_hosts"

    @property
    def default_config(self) -> Path:
        """Return the file that ssh reads by default."""
        return self.home / ".ssh" / "config"


def introduce(yard: Deployment, host: DevHost, files: Files, proxy: Sequence[str], on_step: OnStep) -> None:
    """Exchange the keys: the user's key is added to the host's account for sessions, and the host's keys are stored
    here.

    `proxy` is the command that carries a connection. Raise NotHere without ssh, SessionRefused without sshd on the
    host, Denied or HostNotConnected.
    """
    line = GREETING.format(key=shlex.quote(_public_key(files)))
    code, said = shell.run_line(yard, host.instance, line, on_step)
    who, keys = WHO.search(said), KEY.findall(said)
    if who is None:
        raise SessionRefused(
            f"{host.name} did not accept the key",
            f"exit code {code}; {said.strip()[-200:] or 'it printed no reason'}",
            command_line("dev", "shell", host.name),
        )
    if not keys:
        raise SessionRefused(
            f"{host.name} has no sshd",
            "there is no key of one in its /etc/ssh; hosts of the local cloud have what this computer has installed",
            installation(yard, host),
        )
    _write(files.known_hosts, "".join([f"# {host.instance}\n", *(f"{files.alias} {key}\n" for key in keys)]))
    _write(files.config, entry(files, who[1], proxy))


def installation(yard: Deployment, host: DevHost) -> str:
    """Return the command that installs an sshd for the host. AWS's images are Ubuntu, and their account for sessions
    may use sudo. A host of the local cloud uses the programs of this computer."""
    if urlsplit(yard.session.client("ssm").meta.endpoint_url).hostname in LOCAL:
        return (
            f"on this computer, {installing.openssh('server')}; then, on a new host, run this command again"
        )
    return command_line("dev", "shell", host.name, "--", "sudo", "apt-get", "install", "-y", "openssh-server")


def has_keys(host: DevHost, files: Files) -> bool:
    """Return True if the keys of this very instance are stored."""
    return (
        files.config.exists()
        and files.known_hosts.exists()
        and host.instance in files.known_hosts.read_text()
    )


def carry(yard: Deployment, host: DevHost, on_step: OnStep) -> None:
    """Carry the connection of an ssh through standard input and output. Raise the errors of `relay.run`."""
    relay.run(yard, host.instance, PORT, on_step)


def entry(files: Files, account: str, proxy: Sequence[str]) -> str:
    """Return the host's entry for ssh's configuration."""
    lines = {
        "User": account,
        "HostKeyAlias": files.alias,
        "UserKnownHostsFile": _quote(files.known_hosts),
        "GlobalKnownHostsFile": "none",
        "StrictHostKeyChecking": "yes",
        "IdentityFile": _quote(files.key),
        "IdentitiesOnly": "yes",
        "ServerAliveInterval": "30",
        "ProxyCommand": shlex.join(proxy).replace("%", "%%"),
    }
    return "".join([f"Host {files.alias}\n", *(f"    {key} {value}\n" for key, value in lines.items())])


def include(files: Files) -> bool:
    """Include the folder in `~/.ssh/config` by one block at its top, for ssh and editors. Return True if it was
    missing."""
    before = files.default_config.read_text() if files.default_config.exists() else ""
    block = f"{BEGIN}\n{INCLUDE}\n{END}\n"
    there = re.compile(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}\n?\n?", re.DOTALL | re.MULTILINE)
    rest = there.sub("", before)
    after = f"{block}\n{rest}" if rest else block
    if after == before:
        return False
    _write(files.default_config, after)
    return True


def run(files: Files, program: str, words: Sequence[str]) -> int:
    """Run `ssh` or `scp` with the host's configuration and return its exit code. Raise NotHere."""
    return subprocess.run([_find_program(program), "-F", str(files.config), *words], check=False).returncode


def _public_key(files: Files) -> str:
    """Return the public key of a key pair, which is created if it is missing."""
    files.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not files.key.exists():
        made = [
            _find_program("ssh-keygen"),
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "trainyard",
            "-f",
            str(files.key),
        ]
        subprocess.run(made, check=True)
    return files.key.with_suffix(".pub").read_text().strip()


def _find_program(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise NotHere(
            f"there is no {program} on this computer",
            "OpenSSH's client is needed for this",
            f"{installing.openssh('client')}; without it: {command_line('dev', 'shell', 'NAME')}",
        )
    return found


def _write(file: Path, text: str) -> None:
    """Write a file completely or not at all, readable only by the user. A link stays a link."""
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    half = target.with_name(f".{target.name}.half")
    half.touch(mode=0o600)
    half.write_text(text)
    half.replace(target)


def _quote(path: Path) -> str:
    return f'"{path}"'.replace("%", "%%")
