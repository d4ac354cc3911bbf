"""Unpack the program's source archive so that it cannot write outside its folder."""

import errno
import shutil
import tarfile
from pathlib import Path
from typing import Any

from training.host.errors import HostTrouble, ProgramFault
from trainyard import archives

FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python's own filter in addition to our check. Debian 12's Python 3.11.2 lacks it."""
OF_THE_HOST = (errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM)
"""Errors that no name or size in the source archive can cause."""
LEFT_FREE = 64 * 2**20
FIRST_SECOND, LAST_SECOND = 315_619_200, 4_354_732_800
"""The times that a zip file can hold, in any time zone: 1980-01-02 to 2107-12-31."""


def unpack(archive: Path, folder: Path, *, source: str) -> int:
    """Unpack a tar (plain, gz, bz2, xz) into `folder` and return the number of files.

    Raises ProgramFault for a member that must not be unpacked (trainyard.archives), for a file that is not a tar, and
    for an empty one. Raises a final HostTrouble if the disk has no room.
    """
    try:
        with archive.open("rb") as file, archives.open_tar(file) as tar:
            files = _unpack_all(tar, folder, source)
    except archives.NotAllowedError as danger:
        raise ProgramFault(f"{source} has a member that must not be unpacked: {danger}") from danger
    except archives.BROKEN as error:
        why = str(error).splitlines()[0].rstrip(":") if str(error) else type(error).__name__
        raise ProgramFault(
            f"{source} is not a complete tar archive ({archives.show_name(why)}); make it with "
            "`tar -czf program.tar.gz -C FOLDER .`"
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room(source) from error
        if error.errno in OF_THE_HOST:
            raise HostTrouble(f"unpacking {source} failed: {error}") from error
        raise ProgramFault(f"{source} has a member that cannot be unpacked on this host: {error}") from error
    if files == 0:
        raise ProgramFault(f"{source} is an empty archive; put the program into it")
    return files


def _unpack_all(tar: tarfile.TarFile, folder: Path, source: str) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    files, room, owner = 0, shutil.disk_usage(folder).free - LEFT_FREE, folder.stat()
    for member in archives.members(tar):
        room -= member.size
        if room < 0:
            raise _no_room(source)
        member.mode = (member.mode & 0o755) | (0o700 if member.isdir() else 0o600)
        member.uid, member.gid = owner.st_uid, owner.st_gid
        member.uname = member.gname = ""
        # a comparison with NaN is always False
        is_storable = FIRST_SECOND <= member.mtime <= LAST_SECOND
        member.mtime = (
            member.mtime if is_storable else LAST_SECOND if member.mtime > LAST_SECOND else FIRST_SECOND
        )
        if not member.isdir():
            (folder / member.name).unlink(missing_ok=True)
        tar.extract(member, folder, set_attrs=not member.issym(), **FILTER)
        files += not member.isdir() and not member.issym()
    return files


def _no_room(source: str) -> HostTrouble:
    return HostTrouble(
        f"the host's disk has no room for what is in {source}; pack less (data belongs in the job's data), or bake "
        "an image with a larger root_gib",
        final=True,
    )
