"""Install a program's packages with the Python of its image, layered on the packages of the image."""

import configparser
import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from training.host.account import Account
from training.host.container.configuration import python_version, resolve
from training.host.container.enter import Mount
from training.host.container.inside import Inside, clear_changes
from training.host.disk import inside as inside_folder
from training.host.errors import ProgramFault, Unreachable
from training.host.paths import Paths
from training.host.program import container_commands as commands
from training.host.program.packages import INSTALL_SECONDS, UNREACHABLE, error_lines, hash_of_list
from trainyard.core.jobfile.package_lists import text_of

PIP_SETTINGS, SECTIONS = "etc/pip.conf", ("global", "install")
LIBC = "GLIBC_"
NO_FILE = "No matching distribution found"
GLIBC_VERSION = re.compile(rb"GNU C Library [^\n]*? version (\d+\.\d+)")
LIBRARIES = ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "usr/lib64", "lib")
OPTIONS = ("--no-input", "--no-color", "--quiet", "--disable-pip-version-check")


def install(requirements: str, inside: Inside, paths: Paths, account: Account) -> str | None:
    """Install the list, or reuse the packages of an earlier run of this host with the same image and list. Return the
    hash of both; None if other runs must not reuse the packages. Raises ProgramFault or Unreachable."""
    with account.act():
        list_file = inside_folder(paths.program, requirements)
        if not list_file.is_file():
            raise ProgramFault(
                f"program.requirements names {requirements}, which is not in the program's source archive"
            )
        packages = hash_of(list_file, inside.image.digest)
        if packages and (paths.spare / packages).is_dir():
            (paths.spare / packages).rename(paths.venv)
            return packages
    clear_changes(paths, account)
    venv = [inside.python, "-m", "venv", "--system-site-packages", "--without-pip", str(paths.venv)]
    _run(inside, paths, account, venv, "creating the run's environment with the image's Python")
    pip = [str(paths.venv / "bin/python"), "-m", "pip", "install", *OPTIONS, "--requirement", requirements]
    _run(inside, paths, account, pip, f"installing {requirements}")
    return packages


def hash_of(list_file: Path, digest: str) -> str | None:
    """Return the hash of a list and of the image that its packages are installed with; None if the list has more than
    packages of the index."""
    of_list = hash_of_list(text_of(list_file.read_bytes()))
    return hashlib.sha256(f"{digest} {of_list}".encode()).hexdigest() if of_list else None


def _run(inside: Inside, paths: Paths, account: Account, words: Sequence[str], doing: str) -> None:
    of_host, mounts = settings_of_pip(paths.root)
    of_image = inside.image.configuration.variables
    try:
        done = commands.run(
            inside,
            paths,
            account,
            words,
            environment={name: value for name, value in of_host.items() if name not in of_image},
            mounts=mounts,
            has_source=True,
            seconds=INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramFault(f"{doing} took longer than {INSTALL_SECONDS} seconds", final=False) from error
    if done.returncode == 0:
        return
    output = done.stderr.strip() or done.stdout
    lines = " / ".join(error_lines(output))
    if UNREACHABLE.search(output):
        raise Unreachable(f"{doing} failed: {lines}; this host could not reach a package index")
    raise ProgramFault(f"{doing} failed: {lines}{explain(output, inside)}")


def settings_of_pip(root: Path) -> tuple[dict[str, str], tuple[Mount, ...]]:
    """Return this host's settings of pip as variables, with the files and folders that they name. The host's
    image sets them: a package index of the account's network, for example, which no container image knows."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string((root / PIP_SETTINGS).read_text())
    except (FileNotFoundError, configparser.Error):
        return {}, ()
    given = {
        name: value.split()
        for each in SECTIONS
        if parser.has_section(each)
        for name, value in parser.items(each)
    }
    variables = {f"PIP_{name.upper().replace('-', '_')}": " ".join(words) for name, words in given.items()}
    named = [word.removeprefix("file://") for words in given.values() for word in words]
    return variables, tuple(
        Mount(os.path.realpath(root / each.lstrip("/")), each, read_only=True, optional=True)
        for each in dict.fromkeys(named)
        if each.startswith("/")
    )


def explain(output: str, inside: Inside) -> str:
    """Return what to change in the image, if the output shows that the image's own files may be the reason."""
    if "No module named pip" in output:
        return "; the image's Python has no pip: install it in the image, or install the packages there"
    if LIBC in output and "not found" in output:
        return (
            f"; the package is built for a newer C library than {describe_libc(inside.image.root)} of the image: "
            "choose a newer base image, or a version of the package for this one"
        )
    if NO_FILE in output:
        version = python_version(inside.image.root, inside.path)
        python = f"Python {version[0]}.{version[1]}" if version else "Python"
        return (
            f"; the index has no such version with a file for {python} and {describe_libc(inside.image.root)} of the "
            "image"
        )
    return ""


def describe_libc(root: Path) -> str:
    """Return the C library of an image with its version, as far as its files show it."""
    for folder in LIBRARIES:
        try:
            file = resolve(root, f"{folder}/libc.so.6")
            if file.is_file() and (found := GLIBC_VERSION.search(file.read_bytes())):
                return f"glibc {found[1].decode()}"
            if any(resolve(root, folder).glob("ld-musl-*")):
                return "musl"
        except OSError:
            continue  # a loop of links
    return "the C library"
