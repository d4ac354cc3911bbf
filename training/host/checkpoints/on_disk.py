"""The checkpoints folder on this host's disk: its files, links, and folders, and which of them belong together.

A program may use any files in any layout. The agent's own names begin with `.trainyard-` or are
`trainyard-metadata.json`, which no program uses.
"""

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from training.host.account import remove_tree
from training.host.checkpoints.catalogue import Link, Stored, name_of
from training.host.checkpoints.fetching import METADATA
from training.host.disk import fresh, is_readable
from training.host.keys import LONGEST_KEY_BYTES

PARTIAL = ".trainyard-partial-"
"""Prefix of the runtime's unfinished checkpoints."""
STEP_FOLDER = re.compile(r"[0-9]{8,15}")
"""The name of the runtime's checkpoint of a step. A longer number is a program's own name, such as a time."""
TEMPORARY = re.compile(r".*_temp(_[0-9a-f]+)?")
PART = re.compile(r"part-\d{5}-of-\d{5}\.(index|data-\d{5}-of-\d{5})(\.tempstate\d+)?")
"""A file in a folder like TEMPORARY. TensorFlow merges these files into a checkpoint, and removes the folder."""
DATA = re.compile(r"(.*)\.data-\d{5}-of-\d{5}")
"""A data file of a TensorFlow checkpoint, which is whole once its `.index` exists."""
NO_STATE = re.compile(r"events\.out\.tfevents\..*|graph\.pbtxt")
"""Files of TensorFlow next to checkpoints that no program resumes from: TensorBoard events, the graph."""
NEWEST_OF_TENSORFLOW = re.compile(r'model_checkpoint_path: "(.*?)(?:-(\d+))?"$', re.MULTILINE)
STATE_BYTES = 64 * 1024
"""Bytes of a file named `checkpoint` that are read to find out if TensorFlow wrote it."""
COPY_BYTES = 1024 * 1024


class FileState(NamedTuple):
    """The state of a file."""

    size: int
    mtime: int
    """In nanoseconds."""
    mode: int
    """The permission bits."""
    inode: int
    """It distinguishes a replaced file from the earlier one."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything below a folder at one moment, by path there."""

    files: dict[str, FileState] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    """A path that `files` has, too, is a link to a file outside the folder, whose content is kept as well."""
    folders: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The mtime (ns) and the permission bits of each folder."""
    left_out: dict[str, str] = field(default_factory=dict)
    """The reasons why other things, and files that cannot be read, are left out."""

    def without(self, names: Collection[str]) -> "Listing":
        """Return the listing without these files and links."""
        files = {name: state for name, state in self.files.items() if name not in names}
        links = {name: link for name, link in self.links.items() if name not in names}
        return Listing(files, links, self.folders, self.left_out)


def steps_in(folder: Path) -> list[int]:
    """Return the steps of the runtime's whole checkpoints in `folder`, ascending."""
    if not folder.is_dir():
        return []
    return sorted(
        int(path.name)
        for path in folder.iterdir()
        if STEP_FOLDER.fullmatch(path.name) and not path.is_symlink() and is_readable(path / METADATA)
    )


def keep_newest(folder: Path, keep: int) -> None:
    """Remove the runtime's checkpoints in `folder` except the newest `keep`."""
    for step in steps_in(folder)[:-keep]:
        remove_tree(folder / name_of(step))


def listing_of(folder: Path) -> Listing:
    """Return the content of a checkpoint of `folder`: everything except older checkpoints of the runtime, and those
    that it is still writing."""
    found, inside = Listing(), os.path.realpath(folder)
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            entries = os.scandir(folder / below)
        except (FileNotFoundError, NotADirectoryError):  # the program has just removed or replaced it
            continue
        except PermissionError:
            found.left_out[below] = "the program's account may not read it"
            continue
        with entries:
            for entry in entries:
                if not below and entry.name.startswith(PARTIAL):
                    continue
                name = f"{below}/{entry.name}" if below else entry.name
                if _add(found, name, entry, inside):
                    waiting.append(name)
    return _without_older_steps(_without_oversized(found, folder))


def _without_oversized(found: Listing, folder: Path) -> Listing:
    """Leave out files that are larger than the disk. They consist of holes, and no host could restore them. A smaller
    file with holes may be a program's state."""
    if not found.files:
        return found
    try:
        disk = shutil.disk_usage(folder).total
    except FileNotFoundError:  # the program has just removed it
        return found
    names = [name for name, state in found.files.items() if state.size > disk]
    found.left_out.update(dict.fromkeys(names, "it is larger than the disk: most of it was never written"))
    return found.without(names)


def step_in(listing: Listing) -> int | None:
    """Return the step of the runtime's checkpoint in the listing, or None. The disk may have a newer one by now."""
    return max(_steps(listing), default=None)


def _steps(listing: Listing) -> list[int]:
    return [
        int(name)
        for name in listing.folders
        if STEP_FOLDER.fullmatch(name) and f"{name}/{METADATA}" in listing.files
    ]


def _without_older_steps(found: Listing) -> Listing:
    older = tuple(f"{name_of(step)}/" for step in sorted(_steps(found))[:-1])
    if not older:
        return found
    files = {name: state for name, state in found.files.items() if not name.startswith(older)}
    links = {name: link for name, link in found.links.items() if not name.startswith(older)}
    folders = {name: state for name, state in found.folders.items() if not f"{name}/".startswith(older)}
    return Listing(files, links, folders, found.left_out)


def _add(found: Listing, name: str, entry: "os.DirEntry[str]", inside: str) -> bool:
    """Add one entry to the listing. Return True for a folder that has to be listed, too."""
    try:
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if len(os.fsencode(name)) > LONGEST_KEY_BYTES:
                found.left_out[name] = f"its path is longer than the {LONGEST_KEY_BYTES} bytes that S3 allows"
                return False
            found.folders[name] = (status.st_mtime_ns, stat.S_IMODE(status.st_mode))
            return True
        if stat.S_ISLNK(status.st_mode):
            found.links[name] = Link(os.readlink(entry.path), status.st_mtime_ns)  # noqa: PTH115 - a Path would normalize the target
            _add_content(found, name, entry, inside)
        elif not stat.S_ISREG(status.st_mode):
            found.left_out[name] = "it is a pipe, a socket or a device"
        elif not status.st_mode & stat.S_IROTH and not is_readable(Path(entry.path)):
            found.left_out[name] = "the program's account may not read it"
        else:
            found.files[name] = _state_of(status)
    except FileNotFoundError:  # just removed or replaced; the next look finds the new file
        pass
    return False


def _add_content(found: Listing, name: str, entry: "os.DirEntry[str]", inside: str) -> None:
    """Add the content of a link to a file outside the folder, which would be lost with the host."""
    target = os.path.realpath(entry.path)
    if os.path.commonpath([target, inside]) == inside:
        return
    try:
        status = Path(target).stat()
    except OSError:  # it leads nowhere, in a circle, or where this account may not look
        return
    if stat.S_ISREG(status.st_mode) and is_readable(Path(target)):
        found.files[name] = _state_of(status)


def _state_of(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode), status.st_ino)


def halves_in(files: Mapping[str, FileState]) -> set[str]:
    """Return the files that look like parts of an incomplete TensorFlow checkpoint: parts before their merge, and data
    without an index."""
    return {name for name in files if _is_half(name, files)}


def _is_half(name: str, files: Mapping[str, FileState]) -> bool:
    *folders, last = name.split("/")
    if folders and TEMPORARY.fullmatch(folders[-1]) and PART.fullmatch(last):
        return True
    data = DATA.fullmatch(name)
    return data is not None and f"{data[1]}.index" not in files


def is_no_state(name: str) -> bool:
    """Return True for a file of TensorFlow that no program resumes from."""
    return NO_STATE.fullmatch(name.rpartition("/")[2]) is not None


def open_to_write(folder: Path) -> frozenset[str]:
    """Return the files below a folder that some process has open for writing, by path there."""
    inside = folder.resolve()
    processes = (each for each in Path("/proc").iterdir() if each.name.isdigit())
    written = (file for process in processes for file in written_by(process))
    return frozenset(file.relative_to(inside).as_posix() for file in written if file.is_relative_to(inside))


def written_by(process: Path) -> Iterable[Path]:
    """Yield the files that a process has open for writing, from its folder in /proc. Yield none if the process has
    ended or may not be inspected."""
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return
    for descriptor in descriptors:
        try:
            file = descriptor.readlink()
            if file.is_absolute() and _may_write(process / "fdinfo" / descriptor.name):
                yield file
        except OSError:  # closed meanwhile; its other files may still be open
            continue


def _may_write(fdinfo: Path) -> bool:
    """Return True if /proc/<pid>/fdinfo/<fd> allows writing (proc(5))."""
    flags = re.search(r"^flags:\s*(\d+)$", fdinfo.read_text(), re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY


def fingerprint(files: Mapping[str, FileState]) -> str:
    """Return a hash that differs for each state of these files."""
    known = sorted((name, state.size, state.mtime) for name, state in files.items())
    return hashlib.sha256(repr(known).encode()).hexdigest()


def hold_something(files: Mapping[str, FileState] | Mapping[str, Stored]) -> bool:
    """Return True if the files include more than a TensorFlow session writes before its first save."""
    return any(state.size and not is_no_state(name) for name, state in files.items())


def stage(folder: Path, target: Path, linked: Iterable[str], copied: Mapping[str, int]) -> None:
    """Stage files of `folder` below `target` in their present state.

    A hard link needs no room, and still leads to the same file after the program has replaced it. `copied` files, with
    their sizes, stay unchanged even if the program writes into them. Raises FileNotFoundError for a file that was
    removed or became shorter meanwhile.
    """
    fresh(target)
    for name in linked:
        source, staged = (folder / name).resolve(), target / name
        staged.parent.mkdir(parents=True, exist_ok=True)
        if not _link(source, staged):
            shutil.copy2(source, staged)
    for name, size in copied.items():
        copy_start(folder / name, target / name, size)


def copy_start(source: Path, target: Path, size: int) -> None:
    """Copy the first `size` bytes of a file. Raises FileNotFoundError if it has fewer."""
    target.parent.mkdir(parents=True, exist_ok=True)
    left = size
    with source.open("rb") as given, target.open("wb") as copy:
        while left and (piece := given.read(min(COPY_BYTES, left))):
            copy.write(piece)
            left -= len(piece)
    if left:
        raise FileNotFoundError(errno.ENOENT, "the file became shorter while it was copied", str(source))


def read_end(path: Path, end: int, size: int) -> bytes:
    """Return up to `size` bytes of a file before the offset `end`; nothing if the file cannot be read."""
    try:
        with path.open("rb") as file:
            begin = max(0, end - size)
            return os.pread(file.fileno(), end - begin, begin)
    except OSError:
        return b""


def state_at(path: Path) -> FileState | None:
    """Return the state of the file at `path`; None if it does not exist."""
    try:
        return _state_of(path.stat())
    except OSError:
        return None


def _link(source: Path, staged: Path) -> bool:
    """Create a hard link. Return False if that is impossible: for a file of another account (protected_hardlinks in
    proc(5)), for another disk, and for a file that has the most links that its file system allows."""
    try:
        staged.hardlink_to(source)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EXDEV, errno.EMLINK):
            return False
        raise
    return True


def step_of(folder: Path, listing: Listing) -> int | None:
    """Return the step that TensorFlow's newest `checkpoint` file names; None if there is none."""
    steps = [int(match[2]) for _, match in _named_by_tensorflow(folder, listing) if match[2]]
    return steps[-1] if steps else None


def missing(folder: Path, listing: Listing) -> str | None:
    """Return a checkpoint that a `checkpoint` file of TensorFlow names without its index next to that file, or None.

    A sharded saver, the default of MonitoredTrainingSession, writes to the disks of the parameter servers.
    """
    for state, match in _named_by_tensorflow(folder, listing):
        name = Path(match[1]).name + (f"-{match[2]}" if match[2] else "")
        if f"{state.rpartition('checkpoint')[0]}{name}.index" not in listing.files:
            return name
    return None


def _named_by_tensorflow(folder: Path, listing: Listing) -> list[tuple[str, re.Match[str]]]:
    """Return every `checkpoint` file of TensorFlow, the latest last, with its newest checkpoint."""
    states = [name for name in listing.files if name.rpartition("/")[2] == "checkpoint"]
    found = [
        (name, _tensorflow_state(folder / name))
        for name in sorted(states, key=lambda name: listing.files[name].mtime)
    ]
    return [(name, match) for name, match in found if match]


def _tensorflow_state(path: Path) -> re.Match[str] | None:
    """Return TensorFlow's first line. Any program may name a file `checkpoint`, so only its beginning is read."""
    try:
        with path.open("rb") as file:
            return NEWEST_OF_TENSORFLOW.match(file.read(STATE_BYTES).decode())
    except (OSError, UnicodeDecodeError):
        return None
