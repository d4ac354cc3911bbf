"""The folders that a host gives a program: whether the program has left their owner the rights to them."""

import stat
from collections.abc import Iterable
from pathlib import Path

from training.host.paths import Paths

OWNERS = stat.S_IRWXU


def given_to_program(paths: Paths, attempt: int) -> tuple[Path, ...]:
    """Return the folders that a host makes for a program and reads again, each after the one that holds it."""
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
    lacked some, each with its mode."""
    lacked = []
    for folder in folders:
        try:
            mode = folder.lstat().st_mode
            if not stat.S_ISDIR(mode) or mode & OWNERS == OWNERS:
                continue
            folder.chmod(stat.S_IMODE(mode) | OWNERS)
        except (
            OSError
        ):  # the program has removed it, or lets another account have it: whoever reads it says so
            continue
        lacked.append(f"{folder} (mode {stat.S_IMODE(mode):03o})")
    return tuple(lacked)


def why_failed(lacked: tuple[str, ...]) -> str:
    """Say in one sentence each what the program has done to its folders, what that means, and what to change."""
    return (
        f"the program ended with 0, but it has taken its own rights to {' and '.join(lacked)} away, where this host "
        "reads what a run has left. The host has given them back and uploaded what is there; another attempt would end "
        "alike, so none follows. Remove the chmod or umask from the program"
    )
