"""The files of NVIDIA's driver that a container needs, as NVIDIA's toolkit lists them. No hook of the toolkit runs: its
hooks need rights that this host does not give (nvidia-container-toolkit#46)."""

import json
import logging
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.host.container.enter import Mount
from training.host.paths import Paths

LIST = ("nvidia-ctk", "cdi", "generate", "--format=json", "--output=-")
LIST_SECONDS = 120
LIBRARIES = "/usr/local/nvidia/lib64"
"""The folder inside with the driver's libraries, which NVIDIA's own images have on their path."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Driver:
    """The driver's files."""

    mounts: tuple[Mount, ...] = ()


def find(paths: Paths) -> Driver:
    """Return the driver's files; none on a host without a GPU. A host whose toolkit does not answer shows its GPUs
    without the driver's libraries, and the program reports that it finds no driver."""
    if not paths.driver.exists():
        return Driver()
    if shutil.which(LIST[0]) is None:
        logger.warning("this host has a GPU, but no %s: containers get no driver", LIST[0])
        return Driver()
    done = subprocess.run(LIST, check=False, capture_output=True, text=True, timeout=LIST_SECONDS)
    if done.returncode:
        logger.warning("%s failed: %s", " ".join(LIST), done.stderr.strip()[-500:])
        return Driver()
    return read(json.loads(done.stdout))


def read(listed: Mapping[str, Any]) -> Driver:
    """Return the mounts of a list of the Container Device Interface. Devices are the host's already."""
    edits = [listed.get("containerEdits") or {}]
    edits += [device.get("containerEdits") or {} for device in listed.get("devices") or ()]
    found: dict[str, Mount] = {}
    for edit in edits:
        for mount in edit.get("mounts") or ():
            for each in _show(Path(mount["hostPath"]), str(mount["containerPath"])):
                found.setdefault(each.target, each)
    return Driver(tuple(found.values()))


def _show(host: Path, inside: str) -> Iterator[Mount]:
    """Yield the mounts of one file. A library also gets the names of all links to it, which ldconfig would make."""
    real = str(host.resolve())
    if ".so" not in host.name:
        yield Mount(real, inside, read_only=True, optional=True)
        return
    names = {host.name}
    stem = host.name.partition(".so")[0]
    if host.parent.is_dir():
        names |= {each.name for each in host.parent.glob(f"{stem}.so*") if str(each.resolve()) == real}
    for name in sorted(names):
        yield Mount(real, f"{LIBRARIES}/{name}", read_only=True, optional=True)
