"""The configuration of an image: its words, its user, its environment. Paths of the image never lead out of it."""

import errno
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from training.host.errors import HostTrouble, ProgramFault
from trainyard.protocol.containers import LAYERS, explain_layer

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names of machines, as the kernel and as images have them."""
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MOST_USERS = 2**31 - 1
"""The highest number of a user or a group, as in Docker."""
MOST_LINKS = 40
"""The kernel's own limit."""
PYTHON = re.compile(r"python(\d)\.(\d+)$")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of an image that sets none, as in Docker."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    digest: str
    size: int
    """Compressed bytes."""


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The part of an image's configuration that a start needs."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    user: str = ""
    folder: str = ""

    @staticmethod
    def of(image: Mapping[str, Any]) -> "Configuration":
        """Return the configuration that a registry has sent."""
        found = image.get("config") or {}
        return Configuration(
            entrypoint=tuple(found.get("Entrypoint") or ()),
            cmd=tuple(found.get("Cmd") or ()),
            env=tuple(found.get("Env") or ()),
            user=str(found.get("User") or ""),
            folder=str(found.get("WorkingDir") or ""),
        )

    @property
    def variables(self) -> dict[str, str]:
        pairs = (each.partition("=") for each in self.env)
        return {name: value for name, equals, value in pairs if equals}

    @property
    def path(self) -> str:
        return self.variables.get("PATH") or PATH


def choose(index: Mapping[str, Any], name: str, machine: str | None = None) -> str | None:
    """Return the digest of the manifest for this machine in an index. Return None for a manifest of one architecture.
    Raises ProgramFault if the image has no manifest for this machine."""
    if index.get("mediaType") not in INDEXES and "manifests" not in index:
        return None
    wanted = ARCHITECTURES.get(machine or platform.machine(), machine or platform.machine())
    listed = index.get("manifests") or ()
    offered = [each for each in listed if (each.get("platform") or {}).get("os") == "linux"]
    for each in offered:
        if each["platform"].get("architecture") == wanted:
            return str(each["digest"])
    found = (
        ", ".join(sorted({str(each["platform"].get("architecture")) for each in offered}))
        or "nothing for Linux"
    )
    raise ProgramFault(
        f"the image {name} is for {found}, and this host is {wanted}: build it with `docker buildx build --platform "
        f"linux/{wanted}`, or name other types in hardware.instance_types"
    )


def check_architecture(image: Mapping[str, Any], name: str, machine: str | None = None) -> None:
    """Raises ProgramFault for an image of one architecture that is not this machine's."""
    choose(
        {"manifests": [{"digest": "", "platform": {**image, "os": image.get("os") or "linux"}}]},
        name,
        machine,
    )


def layers_of(manifest: Mapping[str, Any], name: str) -> tuple[Layer, ...]:
    """Return the layers from the lowest to the highest. Raises a final HostTrouble for a format that no host reads."""
    layers = []
    for each in manifest.get("layers") or ():
        kind = str(each.get("mediaType"))
        if kind not in LAYERS:
            raise HostTrouble(f"the image {name} cannot be run: {explain_layer(kind)}", final=True)
        layers.append(Layer(digest=str(each["digest"]), size=int(each["size"])))
    if not layers and manifest.get("schemaVersion") != 2:
        raise HostTrouble(f"the image {name} has a manifest of an old format: push it again", final=True)
    return tuple(layers)


# --------------------------------------------------------------------------------------------------- paths of the image


def resolve(root: Path, path: str | PurePosixPath) -> Path:
    """Return the file that a path of the image leads to, as a process inside would find it. Links are followed inside
    the image only, also absolute ones and those with `..`. Raises OSError for a loop of links."""
    waiting = list(reversed(PurePosixPath("/", path).parts[1:]))
    here, links = root, 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            here = here.parent if here != root else root
            continue
        step = here / part
        if not step.is_symlink():
            here = step
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, f"{path} is a loop of links")
        target = step.readlink()
        if target.is_absolute():
            here = root
        waiting += [each for each in reversed(target.parts) if each != "/"]
    return here


def find_user(root: Path, written: str) -> tuple[int, int]:
    """Return the numbers of an image's USER: `name`, `name:group`, `1000`, `1000:100`, or nothing for root. Raises
    ProgramFault for a name that the image does not list."""
    name, _, group = written.partition(":")
    users, groups = _lines(root, "etc/passwd"), _lines(root, "etc/group")
    line = next((line for line in users if name in (line[0], line[2])), None)
    if any(each.isdecimal() and int(each) > MOST_USERS for each in (name, group)):
        raise ProgramFault(
            f"the image's USER is {written}: numbers of users and groups are 0 to {MOST_USERS:,}"
        )
    if line is None and not name.isdecimal() and name not in ("", "root"):
        raise ProgramFault(
            f"the image's USER is {written}, and its /etc/passwd has no such user: write its number"
        )
    uid = int(line[2]) if line else int(name) if name.isdecimal() else 0
    if not group:
        return uid, int(line[3]) if line else 0
    if group.isdecimal():
        return uid, int(group)
    found = next((line for line in groups if line[0] == group), None)
    if found is None:
        raise ProgramFault(
            f"the image's USER is {written}, and its /etc/group has no such group: write its number"
        )
    return uid, int(found[2])


def _lines(root: Path, path: str) -> list[list[str]]:
    """Return the lines of a list of accounts, each as its fields."""
    try:
        text = resolve(root, path).read_text(errors="replace")
    except OSError:
        return []
    lines = (line.split(":") for line in text.splitlines())
    numbers = slice(2, 4 if path.endswith("passwd") else 3)
    return [
        line
        for line in lines
        if len(line) >= numbers.stop
        and all(each.isdecimal() and int(each) <= MOST_USERS for each in line[numbers])
    ]


def find_command(root: Path, word: str, path: str) -> str | None:
    """Return the path inside the image of a command, or None if no folder of `path` has it."""
    for folder in path.split(":") if "/" not in word else [""]:
        inside = f"{folder}/{word}" if folder else word
        try:
            if resolve(root, inside).is_file():
                return inside
        except OSError:
            continue
    return None


def python_version(root: Path, path: str) -> tuple[int, int] | None:
    """Return the version of the image's `python`, as far as the names of its files show it; None if the image has no
    Python, or one whose name does not show its version."""
    found = find_command(root, "python", path) or find_command(root, "python3", path)
    if found is None:
        return None
    named = PYTHON.search(resolve(root, found).name)
    return (int(named[1]), int(named[2])) if named else None
