"""Folders with the files of small container images, made of this machine's own commands and their libraries."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

COMMANDS = ("sh", "cat", "chmod", "chown", "env", "id", "ls", "mkdir", "mount", "rm", "sed", "sleep", "touch")
PASSWD = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:50:Ann:/home/ann:/bin/sh\n"
GROUP = "root:x:0:\nstaff:x:50:\n"


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
        listed = subprocess.run(["ldd", str(real)], check=False, capture_output=True, text=True).stdout
        for library in map(Path, re.findall(r"/\S+", listed)):
            copy = folder / library.relative_to("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            if not copy.exists():
                shutil.copy(library, copy)
    return folder
