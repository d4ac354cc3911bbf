"""What a program has saved on this host's disk.

The runtime's checkpoints are folders named by their step that appear by one rename. Any other program keeps its folder
as it likes: TensorFlow's CheckpointManager, Keras callbacks, MonitoredTrainingSession.
"""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from training.host.checkpoints.in_bucket import FACTS, name_of
from training.host.disk import is_readable, readable_files

UNFINISHED = re.compile(r"\d+\.\w+|\..*")
"""Top-level names that are on their way to be a checkpoint of the runtime's, or hidden."""
HALF = re.compile(r".*_temp(_[0-9a-f]+)?")
"""Folders in which TensorFlow puts a checkpoint together. What lies there is none yet and, where that failed, never."""
DATA = re.compile(r"(.*)\.data-\d{5}-of-\d{5}")
"""Of one checkpoint of TensorFlow's, which is there once its `.index` is."""
NO_STATE = re.compile(r"events\.out\.tfevents\..*|graph\.pbtxt")
"""Files that TensorFlow keeps beside checkpoints and from which nothing goes on: TensorBoard's events, the graph."""
NEWEST_OF_TENSORFLOW = re.compile(r'^model_checkpoint_path: "(.*?)(?:-(\d+))?"$', re.MULTILINE)

Listing = Mapping[str, tuple[int, int]]
"""Size and time of the last change (nanoseconds) of every file under a folder, by its name in there."""


def steps_in(folder: Path) -> list[int]:
    """The steps of the runtime's whole checkpoints in `folder`, ascending."""
    if not folder.is_dir():
        return []
    return sorted(
        int(path.name) for path in folder.iterdir() if path.name.isdigit() and is_readable(path / FACTS)
    )


def keep_newest(folder: Path, keep: int) -> None:
    for step in steps_in(folder)[:-keep]:
        shutil.rmtree(folder / name_of(step), ignore_errors=True)


def listing_of(folder: Path) -> Listing:
    """Everything in a folder that a program keeps in its own way, but for halves of checkpoints."""
    seen = {}
    for path in readable_files(folder):
        name = path.relative_to(folder)
        if UNFINISHED.fullmatch(name.parts[0]) or any(map(HALF.fullmatch, name.parts[:-1])):
            continue
        try:
            facts = path.stat()
        except FileNotFoundError:  # it has just been replaced: the next look sees what by
            continue
        seen[name.as_posix()] = (facts.st_size, facts.st_mtime_ns)
    return {name: facts for name, facts in seen.items() if not _lacks_index(name, seen)}


def _lacks_index(name: str, seen: Collection[str]) -> bool:
    data = DATA.fullmatch(name)
    return data is not None and f"{data[1]}.index" not in seen


def open_to_write(folder: Path) -> frozenset[str]:
    """The files in a folder that some process has open and may write into, by their names in there; but for those that
    TensorFlow writes into all the time and from which nothing goes on."""
    inside = folder.resolve()
    processes = (each for each in Path("/proc").iterdir() if each.name.isdigit())
    written = (file for process in processes for file in written_by(process))
    return frozenset(
        file.relative_to(inside).as_posix()
        for file in written
        if file.is_relative_to(inside) and not NO_STATE.fullmatch(file.name)
    )


def written_by(process: Path) -> Iterable[Path]:
    """The files that a process may write into now, by its folder in /proc: none of one that has ended or that nobody
    may look into."""
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:
        return
    for descriptor in descriptors:
        try:
            file = descriptor.readlink()
            if file.is_absolute() and _may_write(process / "fdinfo" / descriptor.name):
                yield file
        except OSError:  # closed meanwhile, which says nothing of its other files
            continue


def _may_write(facts: Path) -> bool:
    """By what /proc/<pid>/fdinfo/<fd> says: proc(5)."""
    flags = re.search(r"^flags:\s*(\d+)$", facts.read_text(), re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY


def newest_in(listing: Listing) -> float:
    """When a file of it was changed last, in seconds since 1970."""
    return max((changed for _, changed in listing.values()), default=0) / 1e9


def fingerprint(listing: Listing) -> str:
    """Tells one state of a folder from another."""
    return hashlib.sha256(repr(sorted(listing.items())).encode()).hexdigest()


def holds_something(listing: Listing) -> bool:
    """Whether there is more than what a session of TensorFlow writes before it saves for the first time."""
    return any(size for name, (size, _) in listing.items() if not NO_STATE.fullmatch(name.rpartition("/")[2]))


def size_of(listing: Listing) -> int:
    """Bytes."""
    return sum(size for size, _ in listing.values())


def stage(listing: Listing, folder: Path, target: Path, *, as_copies: bool) -> None:
    """The folder as it was seen, as links: they cost no room, and files that the program replaces stay. Copies stay
    even when the program writes into the same files again."""
    shutil.rmtree(target, ignore_errors=True)
    for name in listing:
        taken = target / name
        taken.parent.mkdir(parents=True, exist_ok=True)
        source = (folder / name).resolve()
        if as_copies or not _is_linked(source, taken):
            shutil.copy2(source, taken)


def _is_linked(source: Path, taken: Path) -> bool:
    """No link is made to what is another's (protected_hardlinks in proc(5)) or lies on another disk."""
    try:
        taken.hardlink_to(source)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EXDEV):
            return False
        raise
    return True


def step_of(folder: Path) -> int | None:
    """The step that TensorFlow's newest `checkpoint` file names; None when there is none."""
    steps = [int(match[2]) for _, match in _named_by_tensorflow(folder) if match[2]]
    return steps[-1] if steps else None


def missing(folder: Path) -> str | None:
    """A checkpoint that a `checkpoint` file of TensorFlow's names and whose index does not lie beside that file.

    A sharded saver, the default of MonitoredTrainingSession, writes where the variables are: on the disks of the
    parameter servers.
    """
    for state, match in _named_by_tensorflow(folder):
        name = Path(match[1]).name + (f"-{match[2]}" if match[2] else "")
        if not (state.parent / f"{name}.index").is_file():
            return name
    return None


def _named_by_tensorflow(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    """Every `checkpoint` file of TensorFlow's in there, the latest last, and the newest checkpoint that it names."""
    states = sorted(folder.rglob("checkpoint"), key=lambda path: path.stat().st_mtime_ns)
    found = [
        (path, NEWEST_OF_TENSORFLOW.search(path.read_text(errors="replace")))
        for path in states
        if path.is_file()
    ]
    return [(path, match) for path, match in found if match]
