"""Resources of a server that runs for weeks: constant over many calls and hosts."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.base import root_key
from tests.contract import endurance
from tests.contract.conftest import ROOT, Cloud, eventually, free_port
from tests.contract.endurance import Held, User
from tests.contract.processes import server_of

A_FEW = 3
"""Tolerance for connections or threads in transition. A leak has hundreds."""
MEMORY_MB = 40
PIPES = 3
"""Pipes of a function's process."""


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cloud, User]]:
    """Yield a cloud under an ordinary login's limit, and its client."""
    folder = tmp_path_factory.mktemp("lasting")
    settings = folder / "settings.yaml"
    settings.write_text(endurance.SETTINGS)
    cloud = Cloud(folder / "state", free_port())
    up_under("ulimit -n 1024", cloud, "--settings", str(settings))
    user = User(cloud.endpoint, root_key.load_key(cloud.state))
    user.furnish()
    yield cloud, user
    cloud.command("down", check=False)


def up_under(limit: str, cloud: Cloud, *more: str) -> subprocess.CompletedProcess[str]:
    """Start the cloud in a shell that has run `limit`."""
    up = ["up", "--detach", "--state", str(cloud.state), "--port", str(cloud.port), *more]
    command = ["sh", "-c", f'{limit} && exec "$@"', "sh", sys.executable, "-m", "localcloud", *up]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)


def holds_no_more(cloud: Cloud, warm: Held) -> None:
    def no_more() -> bool:
        now = endurance.held(cloud.state)
        more = max(
            0, now.processes - warm.processes
        )  # of functions in parallel; they end after five idle minutes
        return (
            now.descriptors <= warm.descriptors + A_FEW + PIPES * more
            and now.threads <= warm.threads + A_FEW + more
        )

    eventually(no_more)
    assert endurance.held(cloud.state).memory_mb <= warm.memory_mb + MEMORY_MB


def test_thousands_of_calls_leave_nothing_behind(lasting: tuple[Cloud, User]) -> None:
    cloud, user = lasting
    user.call(1000, 2 * endurance.AT_ONCE)
    warm = endurance.settled(cloud.state)
    user.call(3000, endurance.AT_ONCE)
    holds_no_more(cloud, warm)


def test_connections_that_are_broken_off_leave_nothing_behind(lasting: tuple[Cloud, User]) -> None:
    cloud, user = lasting
    warm = endurance.settled(cloud.state)
    user.break_off(2000)
    holds_no_more(cloud, warm)


def test_hosts_that_come_and_go_leave_nothing_behind(lasting: tuple[Cloud, User]) -> None:
    cloud, user = lasting
    user.launch(12)
    warm = endurance.settled(cloud.state)
    for _ in range(3):
        user.launch(12)
    holds_no_more(cloud, warm)
    assert list((cloud.state / "instances").iterdir()) == []


def test_the_server_takes_what_the_login_allows(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path / "state", free_port())
    try:
        assert up_under("ulimit -Sn 256 && ulimit -Hn 1024", cloud).stderr == ""
        limits = Path(f"/proc/{server_of(cloud.state)}/limits").read_text()
        assert re.search(r"Max open files +1024 +1024 ", limits)
    finally:
        cloud.down()


def test_a_login_that_allows_too_little_is_told_what_to_type(tmp_path: Path) -> None:
    cloud = Cloud(tmp_path / "state", free_port())
    try:
        said = up_under("ulimit -n 256", cloud).stderr
        assert re.fullmatch(r".* may open 256 files .*Too many open files.*`sudo prlimit .*`\.\n", said)
        assert cloud.command("status").returncode == 0
    finally:
        cloud.down()
