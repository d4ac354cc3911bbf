"""Two things that are done to folders everywhere on the host."""

import shutil
from pathlib import Path, PurePosixPath

from training.host.errors import ProgramFault


def inside(folder: Path, relative: str) -> Path:
    """`folder / relative`, refused when it would lie elsewhere."""
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or relative.startswith("/"):
        raise ProgramFault(f"{relative!r} points outside its folder")
    return folder.joinpath(*parts)


def fresh(folder: Path) -> None:
    """An empty folder, whatever was there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
