"""Put a fetched checkpoint into the program's folder: files, links, and folders with their times and permissions.

Programs find their newest checkpoint by time. Many use the time of an inode's last change (`getctime`), which cannot be
set. Therefore times are set in their order, from the oldest to the newest.
"""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from training.host.account import remove_tree
from training.host.checkpoints.catalogue import Manifest
from training.host.checkpoints.fetching import Fetched
from training.host.disk import inside

APART_SECONDS = 0.01
"""The clock of a file system moves in steps of at most this size."""
APART_AT_MOST = 300
"""Number of newest times with a pause between them. Older times are set without pauses."""


def move_into(fetched: Fetched, folder: Path) -> None:
    """Move the whole checkpoint into `folder`, which is empty."""
    manifest = fetched.manifest
    for path in fetched.folder.iterdir():
        path.replace(folder / path.name)
    add_folders(manifest, folder)
    for name in manifest.links:
        add_link(manifest, name, folder)
    set_times(manifest, folder)


def add_folders(manifest: Manifest, folder: Path) -> None:
    """Create the missing folders. The owner may write to them until their permissions are set."""
    for name in manifest.folders:
        path = inside(folder, name)
        if not path.is_dir() or path.is_symlink():
            remove(path)
            path.mkdir(parents=True)


def add_link(manifest: Manifest, name: str, folder: Path) -> None:
    """Create the link. A link to a file outside the folder, which this host lacks, becomes the file itself."""
    path = inside(folder, name)
    content = manifest.files.get(name)
    target = manifest.links[name].target
    if content and not (path.parent / target).is_file():
        return
    remove(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all below it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def set_times(manifest: Manifest, folder: Path) -> None:
    """Set the times and permissions of everything, the oldest first."""
    known = sorted(_times(manifest, folder), key=lambda known: known[0])
    changed_before = 0
    for number, (mtime, path, mode) in enumerate(known):
        is_newer = number > 0 and mtime > known[number - 1][0]
        if is_newer and len(known) - number <= APART_AT_MOST:
            _await_clock(path, changed_before)
        if mode is not None:
            path.chmod(mode)
        os.utime(path, ns=(mtime, mtime), follow_symlinks=False)
        changed_before = path.lstat().st_ctime_ns


def _times(manifest: Manifest, folder: Path) -> Iterable[tuple[int, Path, int | None]]:
    """Yield the time (ns), path, and permissions of everything that is in the folder now."""
    for name, link in manifest.links.items():
        if (folder / name).is_symlink():
            yield link.mtime, folder / name, None
    for name, stored in manifest.files.items():
        if not (folder / name).is_symlink():
            yield stored.mtime, folder / name, stored.mode
    for name, (mtime, mode) in manifest.folders.items():
        yield mtime, folder / name, mode | 0o700


def _await_clock(path: Path, before: int) -> None:
    """Wait until a change of an inode gets a later time than `before` (ns)."""
    end = time.monotonic() + APART_SECONDS
    while time.monotonic() < end:
        os.utime(path, follow_symlinks=False)
        if path.lstat().st_ctime_ns > before:
            return
        time.sleep(APART_SECONDS / 10)
