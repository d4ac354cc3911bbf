"""Scan a program's working folder: its files, links, and empty folders, and the files that cannot be kept."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from training.host.checkpoints.stillness import END_BYTES, ends_a_line
from training.host.disk import SPARSE, is_sparse
from training.host.keys import LONGEST_KEY_BYTES, fault_of

MOST_FILES = 100_000
"""Most files that a run keeps of one host. Each costs a request and about 500 bytes of the agent's memory."""
CACHES = frozenset(
    ".git .hg .ipynb_checkpoints .mypy_cache .pytest_cache .ruff_cache .svn node_modules".split()  # noqa: SIM905
)
"""Folders that programs can create again at any time."""
NOT_REPORTED = frozenset({"__pycache__"})
"""Caches of every Python program, which no report names."""
ENVIRONMENT = "pyvenv.cfg"
"""The file that marks a folder as a virtual environment of Python."""
OURS = re.compile(r"@(worker|ps|evaluator|attempt)-\d+")
"""Top folders of a run's outputs for files of other hosts and of earlier attempts."""


class Seen(NamedTuple):
    """The state of a file."""

    size: int
    mtime_ns: int
    ctime_ns: int

    @staticmethod
    def of(status: os.stat_result) -> "Seen":
        return Seen(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Omission:
    """A file or folder that is not kept. `size` is in bytes, 0 if it is unknown."""

    size: int
    reason: str


@dataclass(slots=True)
class Scan:
    """The content of a folder, by relative path."""

    files: dict[str, Seen] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    """The target of each link, as the program wrote it. Links are not followed."""
    folders: list[str] = field(default_factory=list)
    """Empty folders."""
    left_out: dict[str, Omission] = field(default_factory=dict)
    is_complete: bool = True
    """False if a folder could not be read or there are more than MOST_FILES files: a missing file may still exist."""
    beyond: int = 0
    """The number of files beyond MOST_FILES."""


def scan(root: Path, prefix: str) -> Scan:
    """Scan everything below `root` without following links. `prefix` is the prefix of the files' keys."""
    found, waiting = Scan(), [""]
    room = LONGEST_KEY_BYTES - len(prefix.encode())
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                inside = list(entries)
        except FileNotFoundError:  # the program has just removed it
            continue
        except OSError as error:
            found.left_out[f"{folder}/"] = Omission(0, f"it cannot be read: {error.strerror}")
            found.is_complete = False
            continue
        if folder and any(entry.name == ENVIRONMENT for entry in inside):
            found.left_out[f"{folder}/"] = Omission(0, "it is a virtual environment")
            continue
        if folder and not inside:
            found.folders.append(folder)
        for entry in inside:
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_plain = path.isascii() and path.isprintable() and len(path) <= room
            fault = None if is_plain else fault_of(prefix + path)
            if not folder and OURS.fullmatch(entry.name):
                fault = "Trainyard keeps other hosts' files under such names"
            if fault:
                found.left_out[path] = Omission(0, fault)
            else:
                waiting += _take(found, entry, path)
    return found


def _take(found: Scan, entry: "os.DirEntry[str]", path: str) -> Iterator[str]:
    """Note the entry; yield its path if it is a folder to look into."""
    try:
        if entry.is_symlink():
            found.links[path] = str(Path(entry.path).readlink())
        elif entry.is_dir(follow_symlinks=False):
            if entry.name in NOT_REPORTED:
                return
            if entry.name in CACHES:
                found.left_out[f"{path}/"] = Omission(0, "it is a cache")
            else:
                yield path
        else:
            _take_file(found, entry.stat(follow_symlinks=False), path)
    except FileNotFoundError:  # the program has just removed or replaced it
        return
    except OSError as error:
        found.left_out[path] = Omission(0, f"it cannot be read: {error.strerror}")
        found.is_complete = False


def _take_file(found: Scan, status: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        found.left_out[path] = Omission(0, f"it is a {_kind(status.st_mode)}")
    elif is_sparse(status):
        found.left_out[path] = Omission(status.st_size, SPARSE)
    elif len(found.files) < MOST_FILES:
        found.files[path] = Seen.of(status)
    else:
        found.beyond += 1
        found.is_complete = False


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def over_the_limit(
    found: Scan, changed: Mapping[str, Seen], kept: Mapping[str, Seen], *, max_bytes: int
) -> dict[str, Omission]:
    """Return the files beyond the limit: the largest, and first the files that are not `kept` yet."""
    room = max_bytes - sum(
        seen.size for path, seen in kept.items() if path in found.files and path not in changed
    )
    over = {}
    for path in sorted(changed, key=lambda path: (path not in kept, changed[path].size)):
        size = changed[path].size
        if size > room:
            limit = f"{max_bytes / 2**30:g} GiB"
            over[path] = Omission(size, f"a run keeps at most {limit} per host (outputs.max_gib)")
        else:
            room -= size
    return over


def ends_with_a_line(path: Path) -> bool:
    """Return True if a text ends with a whole line. Return False if the program has removed or replaced it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return ends_a_line(os.pread(descriptor, END_BYTES, max(0, os.fstat(descriptor).st_size - END_BYTES)))
    finally:
        os.close(descriptor)
