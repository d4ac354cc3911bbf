"""Packages: those of the system, those that every host needs, those that the recipe adds.

What is pinned for TensorFlow stays as it is: the recipe's packages may add to it and replace nothing.
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
"""Two names of one package: which is installed is the base image's doing, so a recipe may say either."""
DRAWN = frozenset("\N{MULTIPLICATION SIGN}╰─▶│├")
MESSAGE_CHARACTERS = 1200
"""Characters of uv's explanation; the end of it says what to conclude."""
APT = (
    "apt-get",
    "--yes",
    "--quiet",
    "--option=DPkg::Lock::Timeout=600",
    "--option=Acquire::Retries=3",
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
)
LISTS_TAKEN = "/var/lib/apt/lists/lock"
LISTS_SECONDS, LOOK_SECONDS = 600.0, 10.0
APT_SOURCES = ("sources.list", "sources.list.d/*.list", "sources.list.d/*.sources")
OF_A_REGION = re.compile(r"http://[a-z0-9-]+\.ec2\.(archive|ports)\.ubuntu\.com")
"""Ubuntu's mirrors in AWS's regions, which speak plain HTTP alone."""
NOT_FETCHED = re.compile(r"^(?:E: |W: )?(?:Err:\d+ |Failed to fetch |The repository ).*", re.MULTILINE)
"""How apt-get update says it, though it ends well."""
APT_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1", "LC_ALL": "C.UTF-8"}


OURS = {"nft": "nftables", "setpriv": "util-linux", "useradd": "passwd"}
"""Commands that hosts need (training/host/fence.py, account.py), and their packages; most base images have them."""


def install_system_packages(builder: Builder) -> None:
    """Those of the recipe, and those that hosts need and the base image lacks. Raises ProgramFault naming the entries
    that apt-get would not install, HostTrouble where it does not work."""
    entries = builder.recipe.system_packages
    ours = [package for command, package in OURS.items() if shutil.which(command) is None]
    if not entries and not ours:
        return
    shell = builder.shell
    fetch_by_https(builder.places.apt)
    updated = _update_apt(shell)
    if not updated.is_good:
        raise no_sources(updated)
    install = [*APT, "install", "--no-install-recommends", "--", *ours, *entries]
    done = shell.run(install, environment=APT_ENVIRONMENT)
    if not done.is_good:
        raise no_sources(updated) if NOT_FETCHED.search(updated.output) else trouble_of_apt(entries, done)
    shell.run([*APT, "clean"], environment=APT_ENVIRONMENT)


def fetch_by_https(folder: Path) -> None:
    """Package sources by HTTPS, from where Ubuntu serves it: the hosts of a yard may not go out by any other port."""
    for file in sorted(file for pattern in APT_SOURCES for file in folder.glob(pattern)):
        text = file.read_text()
        mended = OF_A_REGION.sub(r"https://\1.ubuntu.com", text).replace("http://", "https://")
        if mended != text:
            file.write_text(mended)


def no_sources(updated: CommandResult) -> HostTrouble:
    """That apt-get could not fetch its lists, each URL with its reason."""
    lines = dict.fromkeys(line.group().strip() for line in NOT_FETCHED.finditer(updated.output))
    errors = [line.strip() for line in updated.output.splitlines() if line.startswith("E: ")]
    message = " / ".join((*lines, *errors))[-MESSAGE_CHARACTERS:] or updated.last_lines()
    return HostTrouble(
        f"apt-get update could not fetch the lists of its package sources ({updated.reason or 'some of them'}), so it "
        f"knows no package: {message}; hosts go out by HTTPS (port 443) alone, and in a private yard not at all: name "
        "sources that answer there under /etc/apt of the base image, or take system_packages out of the recipe"
    )


def _update_apt(shell: Shell) -> CommandResult:
    """Waits for the update that a new machine does by itself. One that could not fetch a list may end well."""
    until = time.monotonic() + LISTS_SECONDS
    while True:
        done = shell.run([*APT, "update"], environment=APT_ENVIRONMENT)
        if done.is_good or LISTS_TAKEN not in done.output or time.monotonic() >= until:
            return done
        time.sleep(LOOK_SECONDS)


def trouble_of_apt(entries: Sequence[str], done: CommandResult) -> HostTrouble:
    """Whose fault it is: of the entries that apt-get's errors name, else nobody's who wrote the recipe."""
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
        f"apt-get could not install {', '.join(entries)} ({done.reason}): {message}; see that it works on the base "
        "image, and that the builder can reach its package sources"
    )


def install_requirements(builder: Builder) -> None:
    """What Trainyard and its programs need; the versions are the repository's."""
    lock, beside = builder.locks
    missing = locks.changed(builder.requirements.read_text(), lock.read_text())
    if missing:
        builder.log.note(locks.warning(lock.name, missing))
    held = ["--no-deps", "--require-hashes", "-r"]
    for words in (["-r", str(builder.requirements)] if missing else [*held, str(lock)], [*held, str(beside)]):
        done = builder.shell.run(_uv(builder, *words))
        if not done.is_good:
            raise HostTrouble(
                f"installing {words[-1]} failed ({done.reason}): {done.last_lines()}; see that the builder "
                "can reach the package index that the base image names (/etc/uv/uv.toml, else pypi.org), and that "
                "this serves what pypi.org does"
            )


def install_python_packages(builder: Builder) -> None:
    """Raises ProgramFault naming the entries at fault: malformed, in the way of what is pinned, not to be had."""
    entries = builder.recipe.python_packages
    if not entries:
        return
    pins = dict(locks.pins(builder.requirements.read_text()))
    refuse(faults(entries, pins))
    with tempfile.TemporaryDirectory() as place:
        rules = _rules(builder, Path(place), pins)
        done = builder.shell.run(_uv(builder, *rules, "--", *entries))
        if not done.is_good:
            alone = [builder.shell.run(_uv(builder, "--dry-run", *rules, "--", entry)) for entry in entries]
            raise ProgramFault(not_to_be_had(entries, done, alone))
    importlib.invalidate_caches()
    refuse(others_in_its_place(importlib.metadata.packages_distributions().get("tensorflow", ())))


def refuse(found: Sequence[str]) -> None:
    """All faults at once."""
    if found:
        raise ProgramFault("; ".join(found))


def faults(entries: Sequence[str], pins: Mapping[str, str]) -> list[str]:
    """What is wrong with the entries, without asking an index."""
    found = []
    for index, entry in enumerate(entries):
        name = named("python_packages", tuple(entries), index)
        try:
            need = Requirement(entry)
        except InvalidRequirement as error:
            found.append(
                f"{name} is no requirement as pip writes them ({str(error).splitlines()[0]}); write "
                "scipy==1.17.0 or scipy"
            )
            continue
        package, version = pin_of(need.name, pins)
        if version and (need.url or not need.specifier.contains(version, prereleases=True)):
            found.append(
                f"{name} is in the way of {package}=={version}, which Trainyard pins in every image; take it "
                "out of the recipe, or ask for a version that this one fits"
            )
    return found


def pin_of(name: str, pins: Mapping[str, str]) -> tuple[str, str]:
    """The pinned package that this name means, and its version; empty where none is."""
    canonical = canonicalize_name(name)
    names = TENSORFLOW_BUILDS if canonical in TENSORFLOW_BUILDS else (canonical,)
    return next(((each, pins[each]) for each in names if each in pins), ("", ""))


def not_to_be_had(entries: Sequence[str], together: CommandResult, alone: Sequence[CommandResult]) -> str:
    """Which entries fail by themselves, each with uv's words; none does when they do not go together."""
    bad = [(index, ended) for index, ended in enumerate(alone) if not ended.is_good]
    if not bad:
        names = ", ".join(named("python_packages", tuple(entries), index) for index in range(len(entries)))
        return f"{names}: each could be installed, but not all together: {message_of_uv(together)}"
    reasons = "; ".join(
        f"{named('python_packages', tuple(entries), index)}: {message_of_uv(ended)}" for index, ended in bad
    )
    return (
        f"{reasons}; correct name or version in the recipe: what Trainyard pins (requirements-host.txt) stays as it "
        "is, and packages come from where the base image says (/etc/uv/uv.toml, else pypi.org)"
    )


def message_of_uv(ended: CommandResult) -> str:
    """Its sentence, which it draws over several lines."""
    words = (word for word in ended.output.split() if not set(word) <= DRAWN)
    return " ".join(words)[-MESSAGE_CHARACTERS:].rstrip(".") or ended.reason


def others_in_its_place(providers: Sequence[str]) -> list[str]:
    """Packages that brought files of TensorFlow's along and wrote over those of the pinned one."""
    others = sorted({canonicalize_name(name) for name in providers} - {*TENSORFLOW_BUILDS, "tf-keras"})
    if not others:
        return []
    names = ", ".join(others)
    return [
        f"{names} wrote over the pinned TensorFlow: take the package of python_packages that needs it out of them"
    ]


def _rules(builder: Builder, place: Path, pins: Mapping[str, str]) -> list[str]:
    """The pins as constraints, TensorFlow's CUDA libraries with them; and where TensorFlow is installed under the name
    of another build, the plain name is nobody's any more."""
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


def _uv(builder: Builder, *arguments: str) -> list[str]:
    python = builder.places.python
    return [str(python.with_name("uv")), "pip", "install", "--quiet", "--python", str(python), *arguments]
