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
CHOSEN_BY_TENSORFLOW = ("numpy", "protobuf", "tensorboard")
"""Packages of which each release of TensorFlow takes versions of its own."""
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
HELD = ("--no-deps", "--require-hashes", "-r")
"""Before a lock: it has all, each file by its SHA-256."""
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
    """Everything that is there, as far as nothing new must be installed for it: the kernel, and what is built for it,
    stays."""
    done = shell.run([*APT, "upgrade"], environment=APT_ENVIRONMENT)
    if not done.is_good:
        raise HostTrouble(
            f"apt-get could not update the base image's packages ({done.reason}): {done.last_lines()}; see that it "
            "works there, or take `upgrade: true` out of the recipe"
        )


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
    """What Trainyard and its programs need; the versions are the repository's, but for another TensorFlow's."""
    if builder.recipe.release:
        install_release(builder, builder.recipe.release)
        return
    for words in (lock_or_list(builder, builder.requirements), [*HELD, str(builder.beside)]):
        done = _uv(builder, *words)
        if not done.is_good:
            raise HostTrouble(
                f"installing {words[-1]} failed ({done.reason}): {done.last_lines()}; see that the builder "
                "can reach the package index that the base image names (/etc/uv/uv.toml, else pypi.org), and that "
                "this serves what pypi.org does"
            )


def lock_or_list(builder: Builder, requirements: Path) -> list[str]:
    """What uv is to install: the list's lock, or the list itself where somebody has changed it since."""
    lock = requirements.parent / "locks" / requirements.name
    missing = locks.changed(requirements.read_text(), lock.read_text())
    if not missing:
        return [*HELD, str(lock)]
    builder.log.note(locks.warning(lock.name, missing))
    return ["-r", str(requirements)]


def install_release(builder: Builder, release: Mapping[str, str]) -> None:
    """Another TensorFlow than the usual one, with what its own metadata ask for, and the tf_keras of its release."""
    version, minor = release["tensorflow"], release["tensorflow"].rpartition(".")[0]
    builder.log.note(
        f"TensorFlow {version} and Keras {release['keras']}, without hashes: the lock is of another release"
    )
    lines = lines_of(builder.requirements.read_text(), release)
    for words in (lines, ["--no-deps", f"tf-keras~={minor}.0"]):
        done = _uv(builder, *words)
        if not done.is_good:
            raise HostTrouble(
                f"installing TensorFlow {version} failed ({done.reason}): {message_of_uv(done)}; see that the "
                "builder's package index has it for the base image's Python"
            )
    importlib.invalidate_caches()


def lines_of(requirements: str, release: Mapping[str, str]) -> list[str]:
    """What every host needs with that release: what TensorFlow itself chooses among is left to it."""
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
    """The versions that stay as they are: those of the list, where no other release is installed."""
    listed = dict(locks.pins(builder.requirements.read_text()))
    if not builder.recipe.release:
        return listed
    return {name: importlib.metadata.version(name) for name in listed}


def install_python_packages(builder: Builder) -> None:
    """Raises ProgramFault naming the entries at fault: malformed, in the way of what is pinned, not to be had."""
    entries = builder.recipe.python_packages
    if not entries:
        return
    pins = _pins(builder)
    refuse(faults(entries, pins))
    with tempfile.TemporaryDirectory() as place:
        rules = _rules(builder, Path(place), pins)
        done = _uv(builder, *rules, "--", *entries)
        if not done.is_good:
            alone = [_uv(builder, "--dry-run", *rules, "--", entry) for entry in entries]
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
        f"{reasons}; correct name or version in the recipe: what Trainyard pins (requirements/host.txt) stays as it "
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


def _uv(builder: Builder, *arguments: str) -> CommandResult:
    return install_with_uv(builder, builder.paths.python, *arguments)


def install_with_uv(builder: Builder, python: Path, *arguments: str) -> CommandResult:
    """Into that Python's environment. uv unpacks where its temporary files are and links from there: beside the
    environment, for from another file system (a /tmp of its own) it would copy each file once more."""
    with tempfile.TemporaryDirectory(dir=python.parents[1]) as beside:
        uv = str(builder.paths.python.with_name("uv"))
        install = [uv, "pip", "install", "--quiet", "--python", str(python)]
        return builder.shell.run([*install, *arguments], environment={"TMPDIR": beside})
