"""Container images that a warm host keeps for its next run.

No container sees the folder of its image. Root also notes each file before a program runs. An image with any change is
removed.
"""

import errno
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from training.host.account import Account, remove_tree
from training.host.container.pull import ARRIVING, folder_of
from training.host.paths import Paths

MOST_NOTED = 400_000
"""Limit of files. For more files, the notes take longer than a pull."""
LEAST_FREE = 0.25
"""The part of the disk that stays free of images of earlier runs."""

logger = logging.getLogger(__name__)
Note = tuple[int, int, int, int]


def note(digest: str, paths: Paths) -> None:
    """Note all files of the run's image. Call this before a program of the run starts."""
    noted = dict(_look(folder_of(paths.containers, digest)))
    if len(noted) > MOST_NOTED:
        noted = {}
    paths.image_notes.touch(mode=0o600)
    paths.image_notes.write_text(json.dumps({"digest": digest, "files": noted}))


def take(paths: Paths) -> None:
    """Move the image to the folder for the next run if nothing of it has changed. Call this while no process of the
    account runs."""
    try:
        noted = json.loads(paths.image_notes.read_text())
    except (FileNotFoundError, ValueError):
        return
    folder = folder_of(paths.containers, noted["digest"])
    before = {name: tuple(values) for name, values in noted["files"].items()}
    if not before or dict(_look(folder)) != before:
        logger.info("the image %s is not kept: it has changed, or has too many files", noted["digest"])
        return
    store(noted["digest"], paths)
    logger.info("the image %s is kept", noted["digest"])


def store(digest: str, paths: Paths) -> None:
    """Move the run's image to the folder for the next run, which only root can read."""
    paths.kept_images.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = folder_of(paths.kept_images, digest)
    if target.exists():
        remove_tree(target)
    _move(folder_of(paths.containers, digest), target)
    os.utime(target)


def give(digest: str, paths: Paths, account: Account) -> None:
    """Move an image that an earlier run has left to where this run's pull looks for it."""
    folder = folder_of(paths.kept_images, digest)
    paths.containers.mkdir(parents=True, exist_ok=True)
    account.give(paths.containers)
    if digest and folder.is_dir() and not folder_of(paths.containers, digest).exists():
        _move(folder, folder_of(paths.containers, digest))


def _move(folder: Path, target: Path) -> None:
    """Move an image. The root of a host of the local cloud is an overlay: a folder of the host's image cannot be
    renamed there, so it is copied, under a name that no run takes for a whole image."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        arriving = target.with_name(f"{ARRIVING}{target.name}")
        if arriving.exists():
            remove_tree(arriving)
        subprocess.run(["mv", "--no-target-directory", "--", str(folder), str(arriving)], check=True)
        arriving.rename(target)


def make_room(paths: Paths) -> None:
    """Remove images of earlier runs, the oldest first, until a part of the disk is free."""
    folders = sorted(paths.kept_images.glob("*"), key=lambda each: each.stat().st_mtime)
    for folder in folders:
        usage = shutil.disk_usage(paths.kept_images)
        if usage.free >= LEAST_FREE * usage.total:
            return
        logger.info("the image %s of an earlier run is removed: the disk is short", folder.name)
        remove_tree(folder)


def _look(folder: Path) -> Iterator[tuple[str, Note]]:
    """Yield every file, link and folder with its inode, size, mode and the time of its last change. The time of a
    folder shows that a file was added."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            status = path.lstat()
            yield (
                str(path.relative_to(folder)),
                (status.st_ino, status.st_size, status.st_mode, status.st_ctime_ns),
            )
