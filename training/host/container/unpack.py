"""Unpack the layers of an image into one folder, so that nothing is written outside it.

GNU tar moves the bytes. Before that, each layer's list of members is read: it shows what the layer removes
(whiteouts), what must not be unpacked (device nodes), and which members lie behind a link of the image. tar would
follow such a link on this host, so these few members are unpacked here, at the place where a process inside the image
would find them.
"""

import errno
import logging
import math
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from training.host.account import as_this_thread, remove_tree
from training.host.container.configuration import Layer, resolve
from training.host.errors import HostTrouble

WHITEOUT, OPAQUE, WHITEOUTS_OWN = ".wh.", ".wh..wh..opq", ".wh..wh."
MOST_FILES = 1_000_000
END = bytes(10240)
"""The end mark of a tar. Some tools write none, and tar would report an unexpected end."""
PIECE = 1 << 20
LEFT_FREE = 256 << 20
OWNERS_FOLDER, OWNERS_FILE = stat.S_IRWXU, stat.S_IRUSR | stat.S_IWUSR
SHOWN = 200
GIB = 1 << 30

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Contents:
    """The list of a layer's members."""

    bytes: int = 0
    members: int = 0
    removed: list[PurePosixPath] = field(default_factory=list)
    """Files of lower layers that this layer removes."""
    emptied: list[PurePosixPath] = field(default_factory=list)
    """Folders whose files of lower layers this layer removes."""
    left_out: list[str] = field(default_factory=list)
    """Members that tar skips, by their names in the archive."""
    replacing: list[PurePosixPath] = field(default_factory=list)
    """Members that are not folders."""
    folders: set[PurePosixPath] = field(default_factory=set)
    links: set[PurePosixPath] = field(default_factory=set)
    """The links of this layer."""
    without_rights: list[tuple[PurePosixPath, int]] = field(default_factory=list)
    """Members that their own owner could not use, with the mode that they get. Root may use them in Docker."""
    names: dict[PurePosixPath, tuple[str, PurePosixPath | None]] = field(default_factory=dict)
    """Every member to unpack, with its name in the archive, and the path of the file that a hard link leads to."""


class TooLargeError(Exception):
    """The layer has more bytes than the disk."""


def read_contents(layer: Layer, blob: Path, *, room: float = math.inf) -> Contents:
    """Read a layer's list of members. Raises a final HostTrouble for a layer that must not be unpacked, and
    TooLargeError once its files have more than `room` bytes."""
    contents = Contents()
    with _opened(layer, blob) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r|", errorlevel=1) as tar:
                for member in tar:
                    _add(contents, member, layer)
                    if contents.bytes > room:
                        raise TooLargeError
        except (tarfile.TarError, EOFError) as error:
            if not (isinstance(error, tarfile.ReadError) and contents.members == 0 and "empty" in str(error)):
                raise HostTrouble(
                    f"the layer {layer.digest} is not a complete tar archive ({error})", final=True
                ) from error
    return contents


def _add(contents: Contents, member: tarfile.TarInfo, layer: Layer) -> None:
    path = _inside(member.name, layer)
    contents.members += 1
    contents.bytes += member.size
    if contents.members > MOST_FILES:
        raise HostTrouble(
            f"the layer {layer.digest} has more than {MOST_FILES:,} files: put data into the job's section data, and "
            "leave caches of packages out of the image",
            final=True,
        )
    name = path.name
    if name == OPAQUE:
        contents.emptied.append(path.parent)
    elif name.startswith(WHITEOUT):
        if not name.startswith(WHITEOUTS_OWN):
            contents.removed.append(path.parent / name.removeprefix(WHITEOUT))
    elif member.ischr() or member.isblk() or member.isfifo():
        contents.left_out.append(member.name)
    elif str(path) not in ("", "."):
        target = _inside(member.linkname, layer) if member.islnk() else None
        contents.names[path] = (member.name, target)
        if member.isdir():
            contents.folders.add(path)
        else:
            contents.replacing.append(path)
        if member.issym():
            contents.links.add(path)
        needed = OWNERS_FOLDER if member.isdir() else OWNERS_FILE if member.isreg() else 0
        if member.mode & needed != needed:
            contents.without_rights.append((path, stat.S_IMODE(member.mode) | needed))


def _inside(name: str, layer: Layer) -> PurePosixPath:
    """Return a member's path below the root. Raises a final HostTrouble for a path that leads out of it."""
    parts = PurePosixPath(name.lstrip("/")).parts
    if ".." in parts or "\n" in name or "\0" in name:
        raise HostTrouble(
            f"the layer {layer.digest} has a file with the path {name[:SHOWN]!r}, which is outside the image or has a "
            "line break: no host unpacks it. Build the image with another tool",
            final=True,
        )
    return PurePosixPath(*parts)


def unpack(layer: Layer, blob: Path, contents: Contents, root: Path) -> None:
    """Unpack a layer on top of the lower ones. Raises a final HostTrouble if the disk is full, or for a member that
    cannot be unpacked."""
    try:
        _remove(contents, root)
        behind = _behind_links(contents, root)
        _make_way(contents, root, behind)
        left_out = [*contents.left_out, *(contents.names[path][0] for path in behind)]
        _run_tar(layer, blob, root, left_out)
        if behind:
            _unpack_behind(layer, blob, root, behind)
        for path, mode in contents.without_rights:
            resolve(root, path.parent).joinpath(path.name).chmod(mode)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_room(root, contents.bytes) from error
        raise HostTrouble(f"the layer {layer.digest} cannot be unpacked: {error}") from error


def _remove(contents: Contents, root: Path) -> None:
    """Remove what the layer removes, before its own files arrive."""
    for path in contents.emptied:
        folder = resolve(root, path)
        for each in folder.iterdir() if folder.is_dir() else ():
            _remove_path(each)
    for path in contents.removed:
        _remove_path(resolve(root, path.parent) / path.name)


def _remove_path(path: Path) -> None:
    """Remove a file, or a folder with all below it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def _behind_links(contents: Contents, root: Path) -> set[PurePosixPath]:
    """Return the members that lie behind a link: of a lower layer, or of this one."""
    known: dict[PurePosixPath, bool] = {PurePosixPath("."): False}

    def passes_link(folder: PurePosixPath) -> bool:
        if folder not in known:
            known[folder] = (
                passes_link(folder.parent)
                or folder in contents.links
                or (folder not in contents.folders and (root / folder).is_symlink())
            )
        return known[folder]

    return {
        path
        for path, (_, target) in contents.names.items()
        if passes_link(path.parent) or (target is not None and passes_link(target.parent))
    }


def _make_way(contents: Contents, root: Path, behind: set[PurePosixPath]) -> None:
    """Remove folders that a file of this layer replaces, and files that a folder replaces."""
    for path in contents.replacing:
        file = root / path
        if path not in behind and file.is_dir() and not file.is_symlink():
            remove_tree(file)
    for path in contents.folders:
        file = root / path
        if path not in behind and os.path.lexists(file) and (file.is_symlink() or not file.is_dir()):
            file.unlink()


def _run_tar(layer: Layer, blob: Path, root: Path, left_out: list[str]) -> None:
    skipped = blob.with_suffix(".skipped")
    skipped.write_text("".join(f"{name}\n" for name in left_out), errors="surrogateescape")
    command = [
        *("tar", "--extract", "--file=-", f"--directory={root}", "--no-same-owner", "--same-permissions"),
        *("--delay-directory-restore", "--warning=no-timestamp", "--anchored", "--no-wildcards"),
        *(f"--exclude-from={skipped}", "--no-anchored", "--wildcards", f"--exclude={WHITEOUT}*"),
    ]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TAR_OPTIONS": ""}
    with (
        _opened(layer, blob) as stream,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            **as_this_thread(),
        ) as tar,
    ):
        assert tar.stdin
        assert tar.stderr
        try:
            shutil.copyfileobj(stream, tar.stdin, PIECE)
            tar.stdin.write(END)
            tar.stdin.close()
        except BrokenPipeError:
            pass  # tar has ended, and tells why
        said = tar.stderr.read().decode(errors="replace").strip()
    if tar.returncode:
        if "No space left on device" in said or "Disk quota exceeded" in said:
            raise OSError(errno.ENOSPC, "No space left on device")
        raise HostTrouble(
            f"the layer {layer.digest} cannot be unpacked: {said.splitlines()[0][:500]}", final=True
        )


def _unpack_behind(layer: Layer, blob: Path, root: Path, behind: set[PurePosixPath]) -> None:
    """Unpack members behind links, each where a process inside the image would find it."""
    with _opened(layer, blob) as stream, tarfile.open(fileobj=stream, mode="r|", errorlevel=1) as tar:
        for member in tar:
            path = _inside(member.name, layer)
            if path not in behind:
                continue
            folder = resolve(root, path.parent)
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / path.name
            if member.isdir():
                if file.is_symlink() or not file.is_dir():
                    file.unlink(missing_ok=True)
                    file.mkdir()
                file.chmod(stat.S_IMODE(member.mode) | OWNERS_FOLDER)
                continue
            _remove_path(file)
            _unpack_file(tar, member, file, root, layer)


def _unpack_file(tar: tarfile.TarFile, member: tarfile.TarInfo, file: Path, root: Path, layer: Layer) -> None:
    if member.issym():
        file.symlink_to(member.linkname)
    elif member.islnk():
        target = _inside(member.linkname, layer)
        os.link(resolve(root, target.parent) / target.name, file, follow_symlinks=False)
    elif member.isreg():
        source = tar.extractfile(member)
        assert source is not None
        with file.open("xb") as copy:
            shutil.copyfileobj(source, copy, PIECE)
        file.chmod(stat.S_IMODE(member.mode) | OWNERS_FILE)
        os.utime(file, (member.mtime, member.mtime))


@contextmanager
def _opened(layer: Layer, blob: Path) -> Iterator[IO[bytes]]:
    """Yield the tar of a layer, which a command decompresses."""
    if shutil.which(layer.opened_by) is None:
        raise HostTrouble(
            f"the layer {layer.digest} is compressed with {layer.opened_by}, and this host's image has no such "
            f"command: add {layer.opened_by} to apt in the recipe, or push the image with compression=gzip",
            final=True,
        )
    options = ["-dc"] if layer.opened_by != "cat" else []
    process = subprocess.Popen(
        [layer.opened_by, *options, str(blob)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **as_this_thread(),
    )
    assert process.stdout
    assert process.stderr
    is_read = False
    try:
        yield process.stdout
        while process.stdout.read(PIECE):
            pass
        is_read = True
    finally:
        process.stdout.close()
        if not is_read:
            process.terminate()
        said = process.stderr.read().decode(errors="replace").strip()
        process.stderr.close()
        process.wait()
    if process.returncode:
        raise HostTrouble(f"the layer {layer.digest} cannot be decompressed: {said[:500]}", final=True)


def no_room(folder: Path, needed: int) -> HostTrouble:
    """Return the trouble of a disk that is too small for an image, with the size that would do."""
    usage = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.is_dir()))
    whole = math.ceil((usage.used + needed + LEFT_FREE) * 1.2 / GIB / 10) * 10
    return HostTrouble(
        f"the image needs {needed / GIB:.1f} GiB on this host's disk, which has {usage.free / GIB:.1f} GiB left of "
        f"{usage.total / GIB:.0f}: write hardware.disk_gib: {whole} into the job file",
        final=True,
    )
