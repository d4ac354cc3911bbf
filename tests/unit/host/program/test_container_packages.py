"""Packages of a program in a container: kept by image and list, and the reasons that the image itself is."""

import os
import platform
from pathlib import Path

import pytest

from training.host.account import Account
from training.host.container.configuration import Configuration
from training.host.container.driver import Driver
from training.host.container.inside import Inside
from training.host.container.pull import Image
from training.host.errors import ProgramFault
from training.host.paths import Paths
from training.host.program import container_packages
from trainyard.protocol.containers import Container

ACCOUNT = Account(os.geteuid(), os.getegid())


def _inside(tmp_path: Path, digest: str) -> Inside:
    image = Image(digest=digest, root=tmp_path / "image", configuration=Configuration())
    return Inside(container=Container(image="team/train:v1"), image=image, driver=Driver())


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(tmp_path)
    found.program.mkdir(parents=True)
    return found


def test_packages_of_an_earlier_run_with_the_same_image_and_list_are_used_again(
    paths: Paths, tmp_path: Path
) -> None:
    (paths.program / "requirements.txt").write_text("rich==14.0.0\n")
    wanted = container_packages.hash_of(paths.program / "requirements.txt", "sha256:1")
    assert wanted
    assert wanted != container_packages.hash_of(paths.program / "requirements.txt", "sha256:2")
    (paths.spare / wanted / "lib").mkdir(parents=True)
    found = container_packages.install("requirements.txt", _inside(tmp_path, "sha256:1"), paths, ACCOUNT)
    assert found == wanted
    assert (paths.venv / "lib").is_dir()


def test_a_list_with_a_path_or_an_address_is_installed_for_each_run(paths: Paths) -> None:
    (paths.program / "requirements.txt").write_text("./mine\n")
    assert container_packages.hash_of(paths.program / "requirements.txt", "sha256:1") is None


def test_a_list_that_the_source_lacks_is_named(paths: Paths, tmp_path: Path) -> None:
    with pytest.raises(ProgramFault, match=r"names more\.txt, which is not in the program's source archive"):
        container_packages.install("more.txt", _inside(tmp_path, "sha256:1"), paths, ACCOUNT)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("/venv/bin/python: No module named pip", "the image's Python has no pip"),
        (
            "ImportError: libc.so.6: version `GLIBC_2.38' not found",
            "a newer C library than glibc 2.31 of the image",
        ),
        (
            "ERROR: No matching distribution found for tensorflow==2.21.0",
            "no such version with a file for Python 3.8 and glibc 2.31 of the image",
        ),
        ("error: subprocess-exited-with-error", ""),
    ],
)
def test_a_reason_in_the_image_itself_has_its_remedy(tmp_path: Path, output: str, says: str) -> None:
    inside = _inside(tmp_path, "sha256:1")
    library, commands = inside.image.root / "lib/x86_64-linux-gnu", inside.image.root / "usr/bin"
    for folder in (library, commands):
        folder.mkdir(parents=True)
    (library / "libc-2.31.so").write_bytes(
        b"\0GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\n"
    )
    (library / "libc.so.6").symlink_to("libc-2.31.so")
    (commands / "python3.8").touch()
    (commands / "python3").symlink_to("python3.8")
    found = container_packages.explain(output, inside)
    assert says in found
    assert bool(says) == bool(found)


def test_the_hosts_settings_of_pip_hold_in_the_image_too(tmp_path: Path) -> None:
    assert container_packages.settings_of_pip(tmp_path) == ({}, ())
    for folder in ("etc", "opt/wheels"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/ca.pem").touch()
    (tmp_path / "etc/pip.conf").write_text(
        "[global]\nindex-url = https://pypi.example.com/simple\ncert = /etc/ca.pem\nno-index = true\n"
        "find-links =\n  /opt/wheels\n  https://wheels.example.com\n"
        "[install]\nno-index = false\n[list]\nformat = json\n"
    )
    variables, mounts = container_packages.settings_of_pip(tmp_path)
    assert variables == {
        "PIP_INDEX_URL": "https://pypi.example.com/simple",
        "PIP_CERT": "/etc/ca.pem",
        "PIP_NO_INDEX": "false",
        "PIP_FIND_LINKS": "/opt/wheels https://wheels.example.com",
    }
    assert [(each.source, each.target) for each in mounts] == [
        (f"{tmp_path}/etc/ca.pem", "/etc/ca.pem"),
        (f"{tmp_path}/opt/wheels", "/opt/wheels"),
    ]
    assert all(each.read_only and each.optional for each in mounts)


def test_an_image_with_musl_or_without_a_c_library(tmp_path: Path) -> None:
    assert container_packages.describe_libc(tmp_path) == "the C library"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/ld-musl-x86_64.so.1").touch()
    assert container_packages.describe_libc(tmp_path) == "musl"


def test_the_c_library_of_this_machine_is_found() -> None:
    assert container_packages.describe_libc(Path("/")) == " ".join(platform.libc_ver())
