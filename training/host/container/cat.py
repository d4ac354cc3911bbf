"""The host's `cat` for images without one: AWS's SDKs read the run's credentials with it (credentials.py)."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from training.host.container.configuration import find_command
from training.host.container.enter import Mount
from training.host.credentials import CAT, CAT_FOLDER, CAT_LOADER

LOADER = re.compile(r"/ld-[^/]+$")
LISTED = re.compile(r"/[^\s:]+(?= \(0x)")


def is_missing(root: Path) -> bool:
    """Return True for an image without `/bin/cat`."""
    return find_command(root, CAT, "") is None


def mounts() -> tuple[Mount, ...]:
    """Return the mounts of the host's `cat`, with its loader and its libraries, in a folder of its own: the image may
    have another C library, or none."""
    return tuple(_mounts())


def _mounts() -> Iterator[Mount]:
    found = shutil.which("cat")
    if found is None:
        return
    listed = subprocess.run(["ldd", found], check=True, capture_output=True, text=True).stdout
    yield _show(Path(found), "cat")
    for file in map(Path, LISTED.findall(listed)):
        yield _show(file, Path(CAT_LOADER).name if LOADER.search(str(file)) else file.name)


def _show(file: Path, name: str) -> Mount:
    return Mount(str(file.resolve()), f"{CAT_FOLDER}/{name}", read_only=True)
