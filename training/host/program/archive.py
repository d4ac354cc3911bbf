"""The program's archive, unpacked without letting it write anywhere else."""

import gzip
import lzma
import os.path
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from training.host.errors import HostTrouble, ProgramFault

UNFILTERED: dict[str, Any] = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
"""`leaving` is the filter: Debian 12's Python 3.11.2 has none, and newer ones want to be told."""


def leaving(members: Iterable[tarfile.TarInfo]) -> str | None:
    """The first member that would write, or point, outside the folder it is unpacked into, and why."""
    links: set[PurePosixPath] = set()
    for member in members:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            return f"{member.name} is outside the archive's folder"
        if links & set(path.parents):
            return f"{member.name} is written through a link"
        if member.issym() or member.islnk():
            base = path.parent if member.issym() else PurePosixPath()
            target = os.path.normpath(base / member.linkname)
            if target.startswith(("/", "..")):
                return f"{member.name} is a link to {member.linkname}, outside the archive's folder"
            links.add(path)
        elif not (member.isreg() or member.isdir()):
            return f"{member.name} is neither a file, a folder nor a link"
    return None


def unpack(archive: Path, folder: Path, *, source: str) -> int:
    """Unpack a tar (plain, gz, bz2, xz) into `folder`; how many files there were.

    Members that would leave the folder, devices and links to the outside end it with ProgramFault, and so
    does what is not a tar, or an empty one.
    """
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            if danger := leaving(members):
                raise ProgramFault(f"{source} holds a member that may not be unpacked: {danger}")
            for member in members:
                member.mode = (member.mode & 0o755) | 0o600
                member.uid = member.gid = 0
                member.uname = member.gname = "root"
                tar.extract(member, folder, set_attrs=not member.issym(), **UNFILTERED)
    except (tarfile.TarError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        why = str(error).splitlines()[0].rstrip(":") if str(error) else type(error).__name__
        raise ProgramFault(
            f"{source} is not a whole tar archive ({why}); make it with `tar -czf program.tar.gz -C FOLDER .`"
        ) from error
    except OSError as error:
        raise HostTrouble(f"unpacking {source} failed: {error}") from error
    files = sum(1 for path in folder.rglob("*") if path.is_file())
    if files == 0:
        raise ProgramFault(f"{source} is an empty archive; put the program into it")
    return files
