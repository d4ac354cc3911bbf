"""ssh over a session: the command line, with a host that is tagged as a dev host."""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.contract.conftest import REGION, ROOT, Cloud, eventually
from tests.contract.hosts.channels import CHANNELS, SERVER, WHO
from tests.contract.hosts.conftest import REGISTER, Hosts, wrote
from trainyard import __version__
from trainyard.client import installing

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
COMMAND = (sys.executable, "-m", "trainyard.cli", "dev")
HOME = WHO[1].decode()
YARD = {
    "yard": "Trainyard", "version": __version__, "account": "123456789012", "bucket": "none", "table": "none",
    "bus": "none", "recipe": "none", "software": "none", "workflows": {}, "dashboard": "none",
    "monthly_dollars": 0, "topic": "none",
    "policies": {},
}  # fmt: skip
"""The part of a yard that the command reads: its name."""


@pytest.fixture(scope="module")
def hosts(cloud: Cloud) -> Iterator[Hosts]:
    made = Hosts(cloud, "")
    made.profile = made.make_profile(REGISTER, CHANNELS)
    made.ssm.put_parameter(Name="/trainyard/yard", Type="String", Value=json.dumps(YARD))
    for word in ("command", "shell"):
        content = (ROOT / f"stacks/documents/{word}.yaml").read_text()
        made.ssm.create_document(
            Name=f"trainyard-{word}", Content=content, DocumentType="Session", DocumentFormat="YAML"
        )
    yield made
    made.terminate_all()


def dev_host(hosts: Hosts, name: str) -> str:
    return hosts.one(
        tags={"trainyard:yard": "trainyard", "trainyard:dev": name, "trainyard:submitter": "ann"}
    )


def environment(cloud: Cloud, home: Path) -> Mapping[str, str]:
    who = cloud.root
    return os.environ | {
        "AWS_ACCESS_KEY_ID": who.key,
        "AWS_SECRET_ACCESS_KEY": who.secret,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
    }


def said(cloud: Cloud, home: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *words], capture_output=True, env=environment(cloud, home), timeout=60, check=False
    )


def carried(cloud: Cloud, home: Path, name: str, data: bytes) -> bytes:
    """Return the data that the proxy returns after its input ends."""
    with subprocess.Popen(
        [*COMMAND, "proxy", name],
        env=environment(cloud, home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as proxy:
        typed, shown = proxy.stdin, proxy.stdout
        assert typed is not None
        assert shown is not None
        sending = threading.Thread(target=typed.write, args=(data,))
        sending.start()
        found = shown.read(len(data))
        sending.join()
        typed.close()
        assert proxy.wait(30) == 0
    return found


def sessions(hosts: Hosts) -> list[str]:
    return [each["SessionId"] for each in hosts.ssm.describe_sessions(State="Active")["Sessions"]]


def test_a_host_without_an_sshd_is_told_of_before_anything_connects(hosts: Hosts, tmp_path: Path) -> None:
    dev_host(hosts, "bare")
    refused = said(hosts.cloud, tmp_path, "code", "bare")
    assert refused.returncode != 0
    assert b"bare has no sshd" in refused.stderr
    assert b"on this computer, " in refused.stderr
    assert installing.openssh("server").encode() in refused.stderr
    assert not (tmp_path / ".ssh" / "config").exists()


def test_the_proxy_carries_a_connection_once_both_know_each_others_key(hosts: Hosts, tmp_path: Path) -> None:
    """Test the proxy with an echo server in place of sshd, because only the transport matters here."""
    host = dev_host(hosts, "echoes")
    serve = f"cat > /tmp/echo.py <<'E'\n{SERVER}\nE\nsystemd-run --unit echo -- python3 /tmp/echo.py 22 /tmp/echo.up"
    keys = "mkdir -p /etc/ssh && ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key"
    public = hosts.run(host, serve, wrote("/tmp/echo.up"), keys, "cat /etc/ssh/ssh_host_ed25519_key.pub")
    data = os.urandom(300_000)
    for _ in range(2):
        assert carried(hosts.cloud, tmp_path, "echoes", data) == data
    folder = tmp_path / ".ssh" / "trainyard"
    known = (folder / "trainyard-echoes.known_hosts").read_text().splitlines()
    assert known == [f"# {host}", f"trainyard-echoes {' '.join(public.split()[:2])}"]
    mine = (folder / "key.pub").read_text().strip()
    assert hosts.run(host, f"cat {HOME}/.ssh/authorized_keys").splitlines() == [mine]
    assert (folder / "key").stat().st_mode & 0o077 == 0
    eventually(lambda: sessions(hosts) == [])


@pytest.mark.skipif(
    SSHD is None, reason="hosts of the local cloud have this computer's sshd, and it has none"
)
def test_ssh_and_scp_reach_a_host_whose_key_is_known(hosts: Hosts, tmp_path: Path) -> None:
    host = dev_host(hosts, "mine")
    account = "id sshd >/dev/null 2>&1 || useradd --system --no-create-home sshd"
    hosts.run(
        host,
        account,
        "mkdir -p /run/sshd /etc/ssh; ssh-keygen -A",
        f"echo Subsystem sftp internal-sftp > /etc/ssh/sshd_config; {SSHD}",
    )
    asked = said(hosts.cloud, tmp_path, "ssh", "mine", "--", "id -un; exit 7")
    assert (asked.stdout, asked.returncode) == (WHO[0] + b"\n", 7), asked.stderr
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.bin").write_bytes(data := os.urandom(3_000_000))
    there = said(hosts.cloud, tmp_path, "cp", str(tmp_path / "src"), "mine:there")
    assert there.returncode == 0, there.stderr
    back = said(hosts.cloud, tmp_path, "cp", "mine:there/a.bin", str(tmp_path / "back.bin"))
    assert back.returncode == 0, back.stderr
    assert (tmp_path / "back.bin").read_bytes() == data
    hosts.run(host, "rm /etc/ssh/ssh_host_*; ssh-keygen -A; pkill sshd; sleep 0.2", str(SSHD))
    config = str(tmp_path / ".ssh" / "trainyard" / "trainyard-mine.conf")
    other = subprocess.run(
        ["ssh", "-F", config, "trainyard-mine", "true"],
        capture_output=True,
        env=environment(hosts.cloud, tmp_path),
        timeout=60,
        check=False,
    )
    assert other.returncode == 255
    assert b"HOST IDENTIFICATION HAS CHANGED" in other.stderr, "another host in its place is not trusted"


CONTROL = re.compile(r"\x1b\[\?\d+[hl]|\r")
PROFILE = "/etc/profile.d/trainyard.sh"
LOOK = (
    'printf \'%s|\' here "$PWD" "$HOME" "$(shopt -q login_shell && echo login)" "$(command -v python)" '
    '"$(ulimit -Sn)"; echo\n'
)


def read_until(terminal: int, wanted: re.Pattern[str]) -> str:
    """Return the terminal's output without control sequences, up to the pattern."""
    shown, until = b"", time.monotonic() + 30
    while not wanted.search(text := CONTROL.sub("", shown.decode(errors="replace"))):
        ready, _, _ = select.select([terminal], [], [], max(0.0, until - time.monotonic()))
        assert ready, text
        shown += os.read(terminal, 1 << 16)
    return text


def test_a_shell_is_a_login_shell_in_the_home_folder_with_the_python_of_programs(
    hosts: Hosts, cloud: Cloud, tmp_path: Path
) -> None:
    host = dev_host(hosts, "login")
    coded = base64.b64encode((ROOT / "training/host/dev/profile.sh").read_bytes()).decode()
    hosts.run(
        host,
        f"echo {coded} | base64 -d > {PROFILE}",
        "mkdir -p /opt/trainyard/venv/bin && ln -s /bin/true /opt/trainyard/venv/bin/python",
    )
    child, terminal = pty.fork()
    if child == 0:
        os.execve(COMMAND[0], [*COMMAND, "shell", "login"], environment(cloud, tmp_path))
    try:
        text = read_until(terminal, re.compile(r":~[#$] "))
        os.write(terminal, LOOK.encode())
        text += read_until(terminal, re.compile(r"^here\|.*$", re.MULTILINE))
    finally:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
    answer = next(line for line in text.splitlines() if line.startswith("here|"))
    _, folder, home, kind, python, limit = answer.split("|")[:6]
    assert folder == home != "/"
    assert (kind, python) == ("login", "/opt/trainyard/venv/bin/python")
    hard = int(hosts.run(host, "ulimit -Hn"))
    assert int(limit) == min(65536, hard)
    name = hosts.run(host, "hostname")
    assert re.search(rf"\w[\w-]*@{name}:~[#$] ", text), text
