"""JupyterLab on a dev host: what it is started with, and what is said of it."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from training.host.dev import serve
from training.host.dev.jupyter import Way, look
from training.host.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    places = Places(tmp_path)
    places.python.parents[2].mkdir(parents=True)
    places.python.parents[1].symlink_to(sys.prefix)
    places.log.mkdir(parents=True)
    places.run.parent.mkdir()
    return places


def test_an_image_without_it_is_told_from_one_where_nobody_has_started_it(places: Places) -> None:
    assert look(places, lambda: "inactive").way is Way.ABSENT
    places.jupyter.mkdir()
    assert look(places, lambda: "inactive").way is Way.IDLE


@pytest.mark.parametrize(
    ("state", "way"), [("failed", Way.FAILED), ("activating", Way.STARTS), ("active", Way.STARTS)]
)
def test_why_it_does_not_serve_is_the_end_of_its_log(places: Places, state: str, way: Way) -> None:
    places.jupyter.mkdir()
    places.jupyter_log.write_text("x" * 10_000 + "\nOSError: no space left")
    found = look(places, lambda: state)
    assert (found.way, found.token) == (way, "")
    assert found.log.endswith("OSError: no space left")
    assert len(found.log) < 3000


def test_its_token_is_its_accounts_alone_and_outlives_it(places: Places) -> None:
    places.jupyter_run.mkdir()
    serve.make_token(places)
    token = places.jupyter_token.read_text()
    assert len(token) >= 32
    assert places.jupyter_token.stat().st_mode & 0o777 == 0o600
    serve.make_token(places)
    assert places.jupyter_token.read_text() == token


def test_no_setting_of_a_person_opens_it_to_the_network(tmp_path: Path) -> None:
    given = serve.options(tmp_path)
    assert "--ServerApp.ip=127.0.0.1" in given
    assert "--ServerApp.port_retries=0" in given


def test_a_kernel_sees_the_hosts_packages_and_those_installed_beside_them(places: Places) -> None:
    home = places.root / "home"
    environment = serve.make_environment(places, home)
    (own,) = (environment / "lib").glob("python3.*/site-packages")
    (own / "installed_by_somebody.py").write_text("")
    assert serve.make_environment(places, home) == environment
    asked = "import sys, boto3, installed_by_somebody; print(sys.prefix)"
    done = subprocess.run(
        [environment / "bin/python", "-c", asked], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(environment)


def test_what_it_prints_goes_to_a_log_of_its_own_that_does_not_grow_for_ever(places: Places) -> None:
    places.jupyter_log.write_text("old" * serve.MOST_LOG)
    if (child := os.fork()) == 0:
        serve.give_folders(places, pwd.getpwuid(os.geteuid()))
        print("new", flush=True)
        os.execv("/bin/sh", ["sh", "-c", "echo and more >&2"])
    os.waitpid(child, 0)
    assert places.jupyter_log.read_text().endswith("and more\n")
    assert places.jupyter_log.with_suffix(".log.1").read_text().startswith("old")
    assert places.jupyter_run.stat().st_mode & 0o777 == 0o700
