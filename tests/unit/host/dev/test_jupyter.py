"""JupyterLab on a dev host: its command, and reports about its state."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from training.host.dev import serve
from training.host.dev.jupyter import Way, look
from training.host.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path)
    paths.python.parents[2].mkdir(parents=True)
    paths.python.parents[1].symlink_to(sys.prefix)
    paths.log.mkdir(parents=True)
    paths.run.parent.mkdir()
    return paths


def test_an_image_without_it_is_told_from_one_where_nobody_has_started_it(paths: Paths) -> None:
    assert look(paths, lambda: "inactive").way is Way.ABSENT
    paths.jupyter.mkdir()
    assert look(paths, lambda: "inactive").way is Way.IDLE


@pytest.mark.parametrize(
    ("state", "way"), [("failed", Way.FAILED), ("activating", Way.STARTS), ("active", Way.STARTS)]
)
def test_why_it_does_not_serve_is_the_end_of_its_log(paths: Paths, state: str, way: Way) -> None:
    paths.jupyter.mkdir()
    paths.jupyter_log.write_text("x" * 10_000 + "\nOSError: no space left")
    found = look(paths, lambda: state)
    assert (found.way, found.token) == (way, "")
    assert found.log.endswith("OSError: no space left")
    assert len(found.log) < 3000


def test_its_token_is_its_accounts_alone_and_outlives_it(paths: Paths) -> None:
    paths.jupyter_run.mkdir()
    serve.make_token(paths)
    token = paths.jupyter_token.read_text()
    assert len(token) >= 32
    assert paths.jupyter_token.stat().st_mode & 0o777 == 0o600
    serve.make_token(paths)
    assert paths.jupyter_token.read_text() == token


def test_no_setting_of_a_person_opens_it_to_the_network(tmp_path: Path) -> None:
    given = serve.options(tmp_path)
    assert "--ServerApp.ip=127.0.0.1" in given
    assert "--ServerApp.port_retries=0" in given


def test_a_kernel_sees_the_hosts_packages_and_those_installed_beside_them(paths: Paths) -> None:
    home = paths.root / "home"
    environment = serve.make_environment(paths, home)
    (own,) = (environment / "lib").glob("python3.*/site-packages")
    (own / "installed_by_somebody.py").write_text("")
    assert serve.make_environment(paths, home) == environment
    asked = "import sys, boto3, installed_by_somebody; print(sys.prefix)"
    done = subprocess.run(
        [environment / "bin/python", "-c", asked], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(environment)


def test_what_it_prints_goes_to_a_log_of_its_own_that_does_not_grow_for_ever(paths: Paths) -> None:
    paths.jupyter_log.write_text("old" * serve.MOST_LOG)
    if (child := os.fork()) == 0:
        serve.give_folders(paths, pwd.getpwuid(os.geteuid()))
        print("new", flush=True)
        os.execv("/bin/sh", ["sh", "-c", "echo and more >&2"])
    os.waitpid(child, 0)
    assert paths.jupyter_log.read_text().endswith("and more\n")
    assert paths.jupyter_log.with_suffix(".log.1").read_text().startswith("old")
    assert paths.jupyter_run.stat().st_mode & 0o777 == 0o700
