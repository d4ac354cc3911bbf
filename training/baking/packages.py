"""Install packages: the recipe's system packages, the packages that every host needs, and the recipe's Python packages.

The packages that are pinned for TensorFlow stay unchanged: the recipe may add packages, but not replace these.
"""

import importlib
import importlib.metadata
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from training.baking.builder import Builder
from training.baking.recipe import named
from training.baking.shell import CommandResult, Shell
from training.host.errors import HostTrouble, ProgramFault
from trainyard import locks

TENSORFLOW_BUILDS = ("tensorflow", "tensorflow-cpu")
"""Two names of one package. The base image decides which one is installed, so a recipe may name either."""
CHOSEN_BY_TENSORFLOW = ("numpy", "protobuf", "tensorboard")
"""Packages whose versions each release of TensorFlow chooses."""
DRAWN = frozenset("\N{MULTIPLICATION SIGN}╰─▶│├")
MESSAGE_CHARACTERS = 1200
"""Most characters of uv's explanation. Its end has the conclusion."""
APT = (
    "apt-get",
    "--yes",
    "--quiet",
    "--option=DPkg::Lock::Timeout=600",
    "--option=Acquire::Retries=3",
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
)
HELD = ("--no-deps", "--require-hashes", "-r")
"""Options before a lock, which lists all packages with the SHA-256 of each file."""
LISTS_TAKEN = "/var/lib/apt/lists/lock"
LISTS_SECONDS, LOOK_SECONDS = 600.0, 10.0
APT_SOURCES = ("sources.list", "sources.list.d/*.list", "sources.list.d/*.sources")
OF_A_REGION = re.compile(r"http://[a-z0-9-]+\.ec2\.(archive|ports)\.ubuntu\.com")
"""Ubuntu's mirrors in AWS's regions, which only support HTTP."""
NOT_FETCHED = re.compile(r"^(?:E: |W: )?(?:Err:\d+ |Failed to fetch |The repository ).*", re.MULTILINE)
"""Messages of apt-get update about lists that it could not fetch, even if it ends with 0."""
APT_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C.UTF-8"}


OURS = {"nft": "nftables", "setpriv": "util-linux", "useradd": "passwd"}
"""Commands that hosts need (training/host/fence.py, account.py), with their packages. Most base images have them."""


def install_system_packages(builder: Builder) -> None:
    """Install the recipe's system packages, and the ones that hosts need and the base image lacks. Raises ProgramFault
    with the entries that apt-get refuses, HostTrouble if apt-get does not work."""
    entries = builder.recipe.system_packages
    ours = [package for command, package in OURS.items() if shutil.which(command) is None]
    if not entries and not ours and not builder.recipe.upgrade:
        return
    shell = builder.shell
    fetch_by_https(builder.paths.apt)
    updated = _update_apt(shell)
    if not updated.is_good:
        raise no_sources(updated)
    if builder.recipe.upgrade:
        upgrade(shell)
    install = [*APT, "install", "--no-install-recommends", "--", *ours, *entries]
    done = shell.run(install, environment=APT_ENVIRONMENT)
    if not done.is_good:
        raise no_sources(updated) if NOT_FETCHED.search(updated.output) else trouble_of_apt(entries, done)
    shell.run([*APT, "clean"], environment=APT_ENVIRONMENT)


def upgrade(shell: Shell) -> None:
    """Update all packages that need no new packages. The kernel and its modules stay."""
    done = shell.run([*APT, "upgrade"], environment=APT_ENVIRONMENT)
    if not done.is_good:
        raise HostTrouble(
            f"apt-get could not update the base image's packages ({done.reason}): {done.last_lines()}; check that "
            "apt-get works there, or remove `upgrade: true` from the recipe"
        )


def fetch_by_https(folder: Path) -> None:
    """Change package sources to HTTPS, which Ubuntu's main servers support: hosts of a yard may use no other port."""
    for file in sorted(file for pattern in APT_SOURCES for file in folder.glob(pattern)):
        text = file.read_text()
        changed = OF_A_REGION.sub(r"https://\1.ubuntu.com", text).replace("http://", "https://")
        if changed != text:
            file.write_text(changed)


def no_sources(updated: CommandResult) -> HostTrouble:
    """Return the trouble that apt-get could not fetch its lists, with each URL and reason."""
    lines = dict.fromkeys(line.group().strip() for line in NOT_FETCHED.finditer(updated.output))
    errors = [line.strip() for line in updated.output.splitlines() if line.startswith("E: ")]
    message = " / ".join((*lines, *errors))[-MESSAGE_CHARACTERS:] or updated.last_lines()
    return HostTrouble(
        f"apt-get update could not fetch the lists of its package sources ({updated.reason or 'some of them'}), so it "
        f"cannot find packages: {message}; hosts reach the internet only by HTTPS (port 443), and not at all in a "
        "private yard: name reachable sources in /etc/apt of the base image, or remove system_packages from the recipe"
    )


def _update_apt(shell: Shell) -> CommandResult:
    """Run apt-get update. Wait for the update that a new machine runs by itself. An update that could not fetch a list
    may still end with 0."""
    until = time.monotonic() + LISTS_SECONDS
    while True:
        done = shell.run([*APT, "update"], environment=APT_ENVIRONMENT)
        if done.is_good or LISTS_TAKEN not in done.output or time.monotonic() >= until:
            return done
        time.sleep(LOOK_SECONDS)


def trouble_of_apt(entries: Sequence[str], done: CommandResult) -> HostTrouble:
    """Return a ProgramFault with the entries that apt-get's errors name, or a HostTrouble if they name none."""
    errors = [line.strip() for line in done.output.splitlines() if line.startswith("E: ")]
    words = {word.strip("'\",:") for line in errors for word in line.split()}
    at_fault = [
        named("system_packages", tuple(entries), index)
        for index, entry in enumerate(entries)
        if {entry, entry.partition("=")[0]} & words
    ]
    message = " / ".join(errors) or done.last_lines()
    if at_fault:
        return ProgramFault(
            f"{', '.join(at_fault)}: {message}; correct the name in the recipe, or add the package source to the base "
            "image. None of system_packages was installed"
        )
    return HostTrouble(
        f"apt-get could not install {', '.join(entries)} ({done.reason}): {message}; check that it works on the base "
        "image, and that the builder can reach its package sources"
    )


def install_requirements(builder: Builder) -> None:
    """Install the packages of Trainyard and its programs, with the pinned versions, or for the recipe's TensorFlow."""
    if builder.recipe.release:
        install_release(builder, builder.recipe.release)
        return
    for arguments in (lock_or_list(builder, builder.requirements), [*HELD, str(builder.beside)]):
        done = _uv(builder, *arguments)
        if not done.is_good:
            raise HostTrouble(
                f"installing {arguments[-1]} failed ({done.reason}): {done.last_lines()}; check that the builder can "
                "reach the package index of the base image (/etc/uv/uv.toml, otherwise pypi.org), and that the index "
                "has the same packages as pypi.org"
            )


def lock_or_list(builder: Builder, requirements: Path) -> list[str]:
    """Return uv's arguments for a list: its lock, or the list itself if it has changed since the lock."""
    lock = requirements.parent / "locks" / requirements.name
    missing = locks.find_changed(requirements.read_text(), lock.read_text())
    if not missing:
        return [*HELD, str(lock)]
    builder.log.note(locks.warning(lock.name, missing))
    return ["-r", str(requirements)]


def install_release(builder: Builder, release: Mapping[str, str]) -> None:
    """Install another release of TensorFlow, with the versions that its metadata require, and its tf_keras."""
    version, minor = release["tensorflow"], release["tensorflow"].rpartition(".")[0]
    builder.log.note(
        f"TensorFlow {version} and Keras {release['keras']}, without hashes: the lock is of another release"
    )
    lines = lines_of(builder.requirements.read_text(), release)
    for arguments in (lines, ["--no-deps", f"tf-keras~={minor}.0"]):
        done = _uv(builder, *arguments)
        if not done.is_good:
            raise HostTrouble(
                f"installing TensorFlow {version} failed ({done.reason}): {message_of_uv(done)}; check that the "
                "builder's package index has it for the base image's Python"
            )
    importlib.invalidate_caches()


def lines_of(requirements: str, release: Mapping[str, str]) -> list[str]:
    """Return the packages that every host needs with that release, without the ones that TensorFlow itself chooses."""
    lines = []
    for line in requirements.splitlines():
        if not (text := line.partition("#")[0].strip()):
            continue
        need = Requirement(text)
        name = canonicalize_name(need.name)
        if name in TENSORFLOW_BUILDS or name == "keras":
            extras = f"[{','.join(sorted(need.extras))}]" if need.extras else ""
            lines.append(f"{need.name}{extras}=={release['keras' if name == 'keras' else 'tensorflow']}")
        elif name not in CHOSEN_BY_TENSORFLOW:
            lines.append(text)
    return lines


def _pins(builder: Builder) -> dict[str, str]:
    """Return the versions that must not change: the list's, or the installed ones of another release."""
    pins = dict(locks.pins(builder.requirements.read_text()))
    if not builder.recipe.release:
        return pins
    return {name: importlib.metadata.version(name) for name in pins}


def install_python_packages(builder: Builder) -> None:
    """Install the recipe's Python packages. Raises ProgramFault with the faulty entries: malformed, in conflict with a
    pinned version, or not available."""
    entries = builder.recipe.python_packages
    if not entries:
        return
    pins = _pins(builder)
    refuse(faults(entries, pins))
    with tempfile.TemporaryDirectory() as place:
        rules = _rules(builder, Path(place), pins)
        done = _uv(builder, *rules, "--", *entries)
        if not done.is_good:
            separate = [_uv(builder, "--dry-run", *rules, "--", entry) for entry in entries]
            raise ProgramFault(unavailable(entries, done, separate))
    importlib.invalidate_caches()
    refuse(overwritten_tensorflow(importlib.metadata.packages_distributions().get("tensorflow", ())))


def refuse(found: Sequence[str]) -> None:
    """Raise all faults at once."""
    if found:
        raise ProgramFault("; ".join(found))


def faults(entries: Sequence[str], pins: Mapping[str, str]) -> list[str]:
    """Return the faults of the entries that can be found without a package index."""
    found = []
    for index, entry in enumerate(entries):
        name = named("python_packages", tuple(entries), index)
        try:
            need = Requirement(entry)
        except InvalidRequirement as error:
            found.append(
                f"{name} is not a requirement in pip's format ({str(error).splitlines()[0]}); write "
                "scipy==1.17.0 or scipy"
            )
            continue
        package, version = pin_of(need.name, pins)
        if version and (need.url or not need.specifier.contains(version, prereleases=True)):
            found.append(
                f"{name} conflicts with {package}=={version}, which Trainyard pins in every image; remove it from the "
                "recipe, or allow that version"
            )
    return found


def pin_of(name: str, pins: Mapping[str, str]) -> tuple[str, str]:
    """Return the pinned package with this name, and its version; both empty if there is none."""
    canonical = canonicalize_name(name)
    names = TENSORFLOW_BUILDS if canonical in TENSORFLOW_BUILDS else (canonical,)
    return next(((each, pins[each]) for each in names if each in pins), ("", ""))


def unavailable(entries: Sequence[str], together: CommandResult, separate: Sequence[CommandResult]) -> str:
    """Describe the entries that cannot be installed, with uv's messages, or the conflict between all of them."""
    bad = [(index, ended) for index, ended in enumerate(separate) if not ended.is_good]
    if not bad:
        names = ", ".join(named("python_packages", tuple(entries), index) for index in range(len(entries)))
        return f"{names}: each could be installed, but not all of them together: {message_of_uv(together)}"
    reasons = "; ".join(
        f"{named('python_packages', tuple(entries), index)}: {message_of_uv(ended)}" for index, ended in bad
    )
    return (
        f"{reasons}; correct the name or the version in the recipe: packages that Trainyard pins "
        "(requirements/host.txt) cannot change, and the base image names the package index (/etc/uv/uv.toml, otherwise "
        "pypi.org)"
    )


def message_of_uv(ended: CommandResult) -> str:
    """Return uv's message on one line."""
    text = " ".join(word for word in ended.output.split() if not set(word) <= DRAWN)
    return text[-MESSAGE_CHARACTERS:].rstrip(".") or ended.reason


def overwritten_tensorflow(providers: Sequence[str]) -> list[str]:
    """Return the fault if other packages have overwritten files of the pinned TensorFlow."""
    others = sorted({canonicalize_name(name) for name in providers} - {*TENSORFLOW_BUILDS, "tf-keras"})
    if not others:
        return []
    names = ", ".join(others)
    return [
        f"{names} has overwritten the pinned TensorFlow: remove the entry of python_packages that requires it"
    ]


def _rules(builder: Builder, place: Path, pins: Mapping[str, str]) -> list[str]:
    """Return uv's options with the pins and TensorFlow's CUDA libraries as constraints. If TensorFlow is installed
    under one of its names, an override prevents the installation under the other name."""
    libraries = {
        canonicalize_name(found.name): found.version
        for found in importlib.metadata.distributions()
        if found.name and canonicalize_name(found.name).startswith("nvidia-")
    }
    constraints, overrides = place / "constraints.txt", place / "overrides.txt"
    constraints.write_text(
        "".join(f"{name}=={version}\n" for name, version in (dict(pins) | libraries).items())
    )
    absent = [name for name in TENSORFLOW_BUILDS if name not in pins]
    overrides.write_text("".join(f"{name}; python_version < '3'\n" for name in absent))
    return ["--constraint", str(constraints), "--override", str(overrides)]


def _uv(builder: Builder, *arguments: str) -> CommandResult:
    return install_with_uv(builder, builder.paths.python, *arguments)


def install_with_uv(builder: Builder, python: Path, *arguments: str) -> CommandResult:
    """Install into that Python's environment. uv unpacks into its temporary folder and links files from there. The
    temporary folder is next to the environment, because uv would copy each file from another file system such as
    /tmp."""
    with tempfile.TemporaryDirectory(dir=python.parents[1]) as beside:
        uv = str(builder.paths.python.with_name("uv"))
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        return builder.shell.run([*install, *arguments], environment={"TMPDIR": beside})
