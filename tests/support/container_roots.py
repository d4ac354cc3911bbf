"""Folders with the files of small container images, made of this machine's own commands and their libraries."""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

COMMANDS = ("sh", "cat", "chmod", "chown", "env", "id", "ls", "mkdir", "mount", "rm", "sed", "sleep", "touch")
PASSWD = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:50:Ann:/home/ann:/bin/sh\n"
GROUP = "root:x:0:\nstaff:x:50:\n"


def add_python(folder: Path) -> Path:
    """Add this interpreter to the files of an image, with its standard library and pip."""
    library = Path(sysconfig.get_path("stdlib"))
    inside = folder / library.relative_to("/")
    unused = shutil.ignore_patterns(
        "__pycache__", "test", "idlelib", "tkinter", "site-packages", "dist-packages"
    )
    shutil.copytree(library, inside, ignore=unused)
    (inside / "EXTERNALLY-MANAGED").unlink(missing_ok=True)
    pip = Path(str(find_spec("pip").origin)).parent  # type: ignore[union-attr]
    shutil.copytree(pip, inside / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    binary = Path(sys.executable).resolve()
    command = folder / sys.base_prefix.lstrip("/") / "bin" / library.name
    command.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(binary, command)
    command.with_name("python3").symlink_to(command.name)
    for each in (binary, *inside.glob("lib-dynload/*.so")):
        _add_libraries(folder, each)
    return folder


def make_root(folder: Path, *, commands: Sequence[str] = COMMANDS) -> Path:
    """Make the files of an image with these commands of this machine."""
    for each in ("bin", "etc", "root", "home/ann"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    (folder / "root").chmod(0o700)
    (folder / "etc/passwd").write_text(PASSWD)
    (folder / "etc/group").write_text(GROUP)
    for command in commands:
        found = shutil.which(command)
        assert found is not None, f"this machine has no {command}"
        real = Path(found).resolve()
        shutil.copy(real, folder / "bin" / command)
        _add_libraries(folder, real)
    return folder


def _add_libraries(folder: Path, program: Path) -> None:
    listed = subprocess.run(["ldd", str(program)], check=False, capture_output=True, text=True).stdout
    for library in map(Path, re.findall(r"/\S+", listed)):
        copy = folder / library.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() and library.exists():
            shutil.copy(library, copy)
