"""Parser of systemd's unit files: sections, repeated keys, specifiers, time spans, enabled units."""

from __future__ import annotations

import re
import resource
import shlex
import socket
from dataclasses import dataclass, field
from pathlib import Path

UNIT_FOLDERS = (
    Path("/run/systemd/system"),
    Path("/etc/systemd/system"),
    Path("/usr/local/lib/systemd/system"),
)
ENABLED_FOLDERS = (
    "multi-user.target.wants",
    "default.target.wants",
    "timers.target.wants",
    "network-online.target.wants",
)

# fmt: off
SCALE = {
    "us": 1e-6, "ms": 1e-3, "": 1, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hr": 3600, "hour": 3600, "d": 86400, "day": 86400, "w": 604800, "week": 604800,
}
# fmt: on


INIT_PREFIX = "systemd[1]: "
"""Prefix of log lines that do not come from the unit itself."""


SIZE = re.compile(r"(\d+)([KMGT]?)")
LIMIT_PREFIX = "Limit"


@dataclass(frozen=True)
class ResourceLimit:
    """A limit for setrlimit(2): the resource number, and the soft and hard limits."""

    number: int
    soft: int
    hard: int


class UnitError(Exception):
    """A unit is missing or cannot be parsed."""


@dataclass
class UnitFile:
    """A parsed unit file. Keys may repeat, and an empty value clears the earlier ones."""

    name: str
    values: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def all(self, section: str, key: str) -> list[str]:
        return self.values.get((section, key), [])

    def get(self, section: str, key: str, default: str = "") -> str:
        values = self.all(section, key)
        return values[-1] if values else default

    def words(self, section: str, key: str) -> list[str]:
        return [word for value in self.all(section, key) for word in value.split()]

    def flag(self, section: str, key: str) -> bool:
        return self.get(section, key).lower() in ("yes", "true", "on", "1")

    def seconds(self, section: str, key: str, default: float) -> float:
        text = self.get(section, key)
        return seconds(text) if text else default

    def limits(self) -> list[ResourceLimit]:
        """Return the resource limits of a service, such as LimitNOFILE= and LimitMEMLOCK=."""
        named = (key for section, key in self.values if section == "Service" and key.startswith(LIMIT_PREFIX))
        return [limit(key, text) for key in named if (text := self.get("Service", key))]


def parse_unit(name: str, text: str) -> UnitFile:
    unit, section = UnitFile(name), ""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        key, _, value = (part.strip() for part in line.partition("="))
        known = unit.values.setdefault((section, key), [])
        if value:
            known.append(fill_in(value, name))
        else:
            known.clear()
    return unit


def fill_in(value: str, name: str) -> str:
    """Expand the common specifiers."""
    prefix, _, rest = name.partition("@")
    whole = name.rpartition(".")[0]
    instance = rest.rpartition(".")[0]
    known = {
        "i": instance, "I": instance, "n": name, "N": whole, "p": prefix.rpartition(".")[0] or prefix, "%": "%",
        "H": socket.gethostname(), "t": "/run", "S": "/var/lib", "C": "/var/cache", "L": "/var/log",
    }  # fmt: skip
    return re.sub(r"%(.)", lambda match: known.get(match[1], match[0]), value)


def seconds(text: str) -> float:
    """Parse `90`, `5min`, `1min 30s`, `200ms` or `infinity`."""
    if text.strip() in ("infinity", "0"):
        return float("inf")
    total = 0.0
    for number, unit in re.findall(r"([\d.]+)\s*([a-z]*)", text):
        plain = unit if unit in SCALE else unit.removesuffix("s")
        if plain not in SCALE:
            raise UnitError(f"not a time span: {text!r}")
        total += float(number) * SCALE[plain]
    return total


def limit(key: str, text: str) -> ResourceLimit:
    """Parse `LimitNOFILE=65536:524288`. A single number sets both the soft and the hard limit."""
    number = getattr(resource, f"RLIMIT_{key.removeprefix(LIMIT_PREFIX)}", None)
    if number is None:
        raise UnitError(f"not a resource limit: {key}")
    soft, _, hard = text.partition(":")
    return ResourceLimit(number, size(soft), size(hard or soft))


def size(text: str) -> int:
    """Parse `65536`, `8M` (of 1,024 KiB) or `infinity`."""
    if text == "infinity":
        return resource.RLIM_INFINITY
    found = SIZE.fullmatch(text)
    if not found:
        raise UnitError(f"not a limit: {text!r}")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def find_unit(name: str) -> UnitFile:
    """Return the unit of this name. `job@7.service` without its own file comes from `job@.service`."""
    for candidate in (name, template_of(name)):
        for folder in UNIT_FOLDERS:
            path = folder / candidate
            if path.exists():
                text = path.read_text()
                for extra in sorted((folder / f"{candidate}.d").glob("*.conf")):
                    text += "\n" + extra.read_text()
                return parse_unit(name, text)
    raise UnitError(f"Unit {name} not found.")


def template_of(name: str) -> str:
    """Return `job@.service` for `job@7.service`, and other names unchanged."""
    return re.sub(r"@.*(\.\w+)$", r"@\1", name)


def full_name(name: str) -> str:
    return name if re.search(r"\.(service|timer|target|socket|slice|mount)$", name) else name + ".service"


def enabled_units() -> list[str]:
    wanted = (Path("/etc/systemd/system", folder) for folder in ENABLED_FOLDERS)
    return sorted(link.name for folder in wanted for link in folder.glob("*"))


def expand(argv: list[str], env: dict[str, str]) -> list[str]:
    """Expand variables: `$NAME` as a whole word becomes several words, `${NAME}` is inserted in place."""
    words: list[str] = []
    for word in argv:
        if re.fullmatch(r"\$\w+", word):
            words += env.get(word[1:], "").split()
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda match: env.get(match[1], ""), word).replace("$$", "$"))
    return words


def read_environment(path: str) -> dict[str, str]:
    lines = [line.strip() for line in Path(path).read_text().splitlines()]
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#;" and "=" in line)
    return {key.strip(): " ".join(shlex.split(value)) for key, _, value in pairs}
