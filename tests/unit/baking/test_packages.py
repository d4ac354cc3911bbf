from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.contract.conftest import ROOT
from training.baking.builder import Builder
from training.baking.packages import (
    faults,
    fetch_by_https,
    install_requirements,
    install_system_packages,
    lines_of,
    message_of_uv,
    overwritten_tensorflow,
    pin_of,
    trouble_of_apt,
    unavailable,
)
from training.baking.shell import CommandResult
from training.host.errors import HostTrouble
from training.host.paths import Paths
from trainyard import locks

PINS = {"tensorflow-cpu": "2.21.0", "numpy": "2.4.6"}
NONE_FOUND = """
  \N{MULTIPLICATION SIGN} No solution found when resolving dependencies:
  ╰─▶ Because nosuchpackage was not found in the package registry
      and you require nosuchpackage==1.0, we can conclude that your
      requirements are unsatisfiable.
"""
NEITHER = "not a requirement in pip's format"


@pytest.mark.parametrize(
    ("sentence", "entries", "told"),
    [
        ("what adds is fine", ["scipy==1.17.0", "pandas>=2", "foo @ https://e.org/foo-1.whl"], []),
        ("a pinned package may be asked for as it is", ["numpy>=2,<3", "NumPy==2.4.6"], []),
        ("not otherwise", ["scipy", "numpy<2"], ['python_packages[1] "numpy<2"']),
        ("TensorFlow goes by the name of either build", ["tensorflow==2.21.0", "tensorflow~=2.20"], []),
        ("and is not replaced", ["tensorflow==2.20.0"], ["conflicts with tensorflow-cpu==2.21.0"]),
        ("nor by an address", ["tensorflow @ https://e.org/tf.whl"], ["conflicts with"]),
        ("options and paths are no requirements", ["-r list", "./here"], [NEITHER, NEITHER]),
        ("every fault at once", ["x y", "numpy==1.26"], [NEITHER, "conflicts with numpy==2.4.6"]),
    ],
)
def test_entries_are_judged_before_anything_is_installed(
    sentence: str, entries: Sequence[str], told: Sequence[str]
) -> None:
    found = faults(entries, PINS)
    assert len(found) == len(told), (sentence, found)
    assert all(part in fault for part, fault in zip(told, found, strict=True)), (sentence, found)


@pytest.mark.parametrize("name", ["requirements/host.txt", "requirements/host-local.txt"])
def test_the_pins_are_those_of_the_list(name: str) -> None:
    pins = dict(locks.pins((ROOT / name).read_text()))
    assert pin_of("tensorflow", pins)[1] == "2.21.0"
    assert all(version[0].isdigit() for version in pins.values())


@pytest.mark.parametrize("is_changed", [False, True])
def test_hosts_get_what_the_lock_has_unless_somebody_has_changed_the_list(
    tmp_path: Path, is_changed: bool
) -> None:
    (tmp_path / "requirements/locks").mkdir(parents=True)
    for name in ("requirements/host.txt", "requirements/locks/host.txt"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    listed, lock = tmp_path / "requirements/host.txt", tmp_path / "requirements/locks/host.txt"
    if is_changed:
        listed.write_text(listed.read_text().replace("numpy==2.4.6", "numpy==2.4.5"))
    (tmp_path / "opt/trainyard/venv").mkdir(parents=True)
    asked: list[Sequence[str]] = []
    noted: list[str] = []

    def run(command: Sequence[str], *, environment: Mapping[str, str]) -> CommandResult:
        assert Path(environment["TMPDIR"]).is_relative_to(tmp_path / "opt/trainyard"), (
            "else each file is copied"
        )
        asked.append(command)
        return CommandResult(0, "")

    builder = SimpleNamespace(
        requirements=listed,
        recipe=SimpleNamespace(release=None),
        beside=tmp_path / "beside.txt",
        paths=Paths(tmp_path),
        shell=SimpleNamespace(run=run),
        log=SimpleNamespace(note=noted.append),
    )
    install_requirements(cast(Builder, builder))
    first, beside = asked
    assert ("--require-hashes" in first, str(listed if is_changed else lock) in first) == (
        not is_changed,
        True,
    )
    assert "--require-hashes" in beside
    assert ["numpy==2.4.5" in each and "`make lock`" in each for each in noted] == [True] * is_changed


def test_uv_is_quoted_in_one_line() -> None:
    assert message_of_uv(CommandResult(1, NONE_FOUND)) == (
        "No solution found when resolving dependencies: Because nosuchpackage was not found in the package registry "
        "and you require nosuchpackage==1.0, we can conclude that your requirements are unsatisfiable"
    )


def test_the_entry_that_fails_alone_is_named() -> None:
    told = unavailable(
        ["scipy", "nosuchpackage==1.0"],
        CommandResult(1, NONE_FOUND),
        [CommandResult(0, ""), CommandResult(1, NONE_FOUND)],
    )
    assert told.startswith('python_packages[1] "nosuchpackage==1.0": No solution found')
    assert "scipy" not in told


def test_entries_that_do_not_go_together_are_all_named() -> None:
    told = unavailable(
        ["a<1", "b"], CommandResult(1, "error: a<1 and b"), [CommandResult(0, ""), CommandResult(0, "")]
    )
    assert told.startswith(
        'python_packages[0] "a<1", python_packages[1] "b": each could be installed, but not all'
    )


@pytest.mark.parametrize(
    ("message", "kind", "told"),
    [
        ("E: Unable to locate package treee", "program", 'system_packages[1] "treee": E: Unable to locate'),
        ("E: Version '9' for 'jq' was not found", "program", 'system_packages[0] "jq=9": E: Version'),
        (
            "E: Package 'treee' has no installation candidate",
            "program",
            'system_packages[1] "treee": E: Package',
        ),
        (
            "W: treee?\nE: Could not open lock file",
            "host",
            "apt-get could not install jq=9, treee (exit code 100): E: C",
        ),
        ("Killed", "host", "apt-get could not install jq=9, treee (exit code 100): Killed;"),
    ],
)
def test_apt_get_names_the_entry_or_it_is_not_the_recipes_fault(message: str, kind: str, told: str) -> None:
    trouble = trouble_of_apt(["jq=9", "treee"], CommandResult(100, message, "exit code 100"))
    assert trouble.kind == kind
    assert trouble.reason.startswith(told)


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        (
            "sources.list.d/ubuntu.sources",
            "URIs: http://eu-west-1.ec2.archive.ubuntu.com/ubuntu/\nSuites: noble\nURIs: http://security.ubuntu.com/ubuntu\n",
            "URIs: https://archive.ubuntu.com/ubuntu/\nSuites: noble\nURIs: https://security.ubuntu.com/ubuntu\n",
        ),
        (
            "sources.list",
            "deb http://us-gov-west-1.ec2.ports.ubuntu.com/ubuntu-ports noble main\n",
            "deb https://ports.ubuntu.com/ubuntu-ports noble main\n",
        ),
        (
            "sources.list.d/own.list",
            "deb https://e.org/apt noble main\n",
            "deb https://e.org/apt noble main\n",
        ),
        ("sources.list.d/readme.txt", "http://e.org\n", "http://e.org\n"),
    ],
)
def test_package_sources_are_fetched_by_https(tmp_path: Path, file: str, before: str, after: str) -> None:
    """Hosts may connect only to port 443, and Ubuntu's mirrors in AWS's regions have no HTTPS."""
    there = tmp_path / file
    there.parent.mkdir(exist_ok=True)
    there.write_text(before)
    for _ in range(2):
        fetch_by_https(tmp_path)
        assert there.read_text() == after


UNREACHED = """Err:1 http://archive.ubuntu.com/ubuntu noble InRelease
  Could not connect to archive.ubuntu.com:80 (91.189.91.81), connection timed out
Reading package lists...
W: Failed to fetch http://archive.ubuntu.com/ubuntu/dists/noble/InRelease  Could not connect to archive.ubuntu.com:80
W: Some index files failed to download. They have been ignored, or old ones used instead.
"""


class Apt:
    """A shell with fixed results of apt-get update and install."""

    def __init__(self, update: CommandResult, install: CommandResult) -> None:
        self.ends = {"update": update, "install": install, "clean": CommandResult(0, "")}

    def run(self, command: Sequence[str], **_: object) -> CommandResult:
        return next(end for word, end in self.ends.items() if word in command)


@pytest.mark.parametrize(
    ("update", "install", "told"),
    [
        (CommandResult(0, ""), CommandResult(0, ""), None),
        (CommandResult(0, UNREACHED), CommandResult(0, ""), None),  # an earlier list exists
        (
            CommandResult(0, UNREACHED),
            CommandResult(100, "E: Unable to locate package tree\n", "exit code 100"),
            (
                "apt-get update could not fetch the lists of its package sources (some of them), so it cannot "
                "find packages: Err:1 http://archive.ubuntu.com/ubuntu noble InRelease / W: Failed to fetch "
                "http://archive.ubuntu.com/ubuntu/dists/noble/InRelease  Could not connect to archive.ubuntu.com:80; "
                "hosts reach the internet only by HTTPS (port 443)"
            ),
        ),
        (
            CommandResult(100, "E: The list of sources could not be read.\n", "exit code 100"),
            CommandResult(0, ""),
            (
                "apt-get update could not fetch the lists of its package sources (exit code 100), so it cannot "
                "find packages: E: The list of sources could not be read.; hosts reach"
            ),
        ),
        (
            CommandResult(0, "Hit:1 https://archive.ubuntu.com/ubuntu noble InRelease\n"),
            CommandResult(100, "E: Unable to locate package tree\n", "exit code 100"),
            'system_packages[0] "tree": E: Unable to locate package tree; correct the name',
        ),
    ],
)
def test_sources_that_nobody_reaches_are_no_wrong_name(
    tmp_path: Path, update: CommandResult, install: CommandResult, told: str | None
) -> None:
    builder = cast(
        "Builder",
        SimpleNamespace(
            recipe=SimpleNamespace(system_packages=("tree",), upgrade=False),
            shell=Apt(update, install),
            paths=Paths(tmp_path),
        ),
    )
    if told is None:
        install_system_packages(builder)
        return
    with pytest.raises(HostTrouble) as raised:
        install_system_packages(builder)
    assert raised.value.reason.startswith(told)


def test_another_build_of_tensorflow_is_found_out() -> None:
    assert overwritten_tensorflow(["tensorflow_cpu"]) == []
    (told,) = overwritten_tensorflow(["tensorflow", "tf_nightly"])
    assert told.startswith("tf-nightly has overwritten the pinned TensorFlow")


def test_another_release_is_installed_with_what_it_chooses_itself() -> None:
    listed = (
        "tensorflow[and-cuda]==2.21.0\nkeras==3.15.1\ntensorboard==2.21.0\nnumpy==2.4.6\nuv==0.9.30  # ours\n"
    )
    release = {"tensorflow": "2.18.1", "keras": "3.6.0"}
    assert lines_of(listed, release) == ["tensorflow[and-cuda]==2.18.1", "keras==3.6.0", "uv==0.9.30"]
