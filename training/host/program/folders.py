"""The folders that a host gives a program, and their owner's rights, which a program may remove."""

import stat
from collections.abc import Iterable
from pathlib import Path

from training.host.paths import Paths

OWNERS = stat.S_IRWXU


def list_program_folders(paths: Paths, attempt: int) -> tuple[Path, ...]:
    """Return the folders that a host creates for a program and reads later, each after its parent."""
    return (
        paths.home,
        paths.program,
        paths.checkpoints,
        paths.results,
        paths.model,
        paths.tensorboard,
        paths.notebook,
        paths.progress(attempt).parent,
    )


def give_back_rights(folders: Iterable[Path]) -> tuple[str, ...]:
    """Give the owner of each folder its rights back, as the account that this thread acts as. Return the folders that
    lacked rights, each with its mode."""
    lacked = []
    for folder in folders:
        try:
            mode = folder.lstat().st_mode
            if not stat.S_ISDIR(mode) or mode & OWNERS == OWNERS:
                continue
            folder.chmod(stat.S_IMODE(mode) | OWNERS)
        except OSError:  # removed, or given to another account: the reader of the folder reports that
            continue
        lacked.append(f"{folder} (mode {stat.S_IMODE(mode):03o})")
    return tuple(lacked)


def why_failed(lacked: tuple[str, ...]) -> str:
    """Explain what the program has done to its folders, what that means, and what to change."""
    return (
        f"the program ended with 0, but it has removed its permissions for {' and '.join(lacked)}, from where this "
        "host uploads a run's files. The host has restored the rights and uploaded the files; another attempt would "
        "end in the same way, so none follows. Remove the chmod or umask from the program"
    )
