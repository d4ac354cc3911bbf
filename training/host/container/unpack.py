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
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, cast

from training.host.account import as_this_thread, remove_tree
from training.host.container.configuration import Layer, resolve
from training.host.disk import GIB, disk_gib_for
from training.host.errors import HostTrouble

WHITEOUT, OPAQUE, WHITEOUTS_OWN = ".wh.", ".wh..wh..opq", ".wh..wh."
MOST_FILES = 1_000_000
END = bytes(10240)
"""The end mark of a tar. Some tools write none, and tar would report an unexpected end."""
PIECE = 1 << 20
LEFT_FREE = 256 << 20
COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of a compressed layer, and the command that decompresses it. Manifests often name another one."""
PLAIN = "cat"
OF_THE_HOST = (errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors that the bytes of a layer do not cause: another host may have none."""
OWNERS_FOLDER, OWNERS_FILE = stat.S_IRWXU, stat.S_IRUSR | stat.S_IWUSR
SHOWN = 200

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
    names: dict[PurePosixPath, PurePosixPath | None] = field(default_factory=dict)
    """Every member to unpack, with the path of the file that a hard link leads to."""
    written: dict[PurePosixPath, list[str]] = field(default_factory=dict)
    """The names in the archive of the members to unpack. One file may have several, such as `a` and `./a`."""
    nodes: set[PurePosixPath] = field(default_factory=set)
    """Members that are not unpacked: device nodes, pipes, and hard links to them."""


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
        except (tarfile.TarError, EOFError, OverflowError, ValueError) as error:
            if not (isinstance(error, tarfile.ReadError) and contents.members == 0 and "empty" in str(error)):
                raise HostTrouble(
                    f"the layer {layer.digest} is not a complete tar archive ({error})", final=True
                ) from error
    return contents


def _add(contents: Contents, member: tarfile.TarInfo, layer: Layer) -> None:
    path = _inside(member.name, layer)
    contents.members += 1
    contents.bytes += _data_bytes(member)
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
        _add_whiteout(contents, path, layer)
    else:
        target = _inside(member.linkname, layer) if member.islnk() else None
        if member.ischr() or member.isblk() or member.isfifo() or target in contents.nodes:
            contents.nodes.add(path)
            contents.left_out.append(member.name)
        else:
            _add_member(contents, member, path, target)


def _data_bytes(member: tarfile.TarInfo) -> int:
    """Return the bytes that a member needs on the disk. A sparse file needs none for its holes."""
    pieces = cast("list[tuple[int, int]] | None", member.sparse)
    return member.size if pieces is None else sum(count for _, count in pieces)


def _add_whiteout(contents: Contents, path: PurePosixPath, layer: Layer) -> None:
    removed = path.name.removeprefix(WHITEOUT)
    if removed in ("", ".", ".."):
        raise HostTrouble(
            f"the layer {layer.digest} removes the folder that its own entry {str(path)!r} is in: no host unpacks it. "
            "Build the image with another tool",
            final=True,
        )
    if not path.name.startswith(WHITEOUTS_OWN):
        contents.removed.append(path.parent / removed)


def _add_member(
    contents: Contents, member: tarfile.TarInfo, path: PurePosixPath, target: PurePosixPath | None
) -> None:
    needed = OWNERS_FOLDER if member.isdir() else OWNERS_FILE if member.isreg() else 0
    if member.mode & needed != needed:
        contents.without_rights.append((path, stat.S_IMODE(member.mode) | needed))
    if str(path) in ("", "."):
        return
    contents.names[path] = target
    contents.written.setdefault(path, []).append(member.name)
    contents.folders.discard(path)
    if member.isdir():
        contents.folders.add(path)
    else:
        contents.replacing.append(path)
    if member.issym():
        contents.links.add(path)


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
        left_out = [*contents.left_out, *(name for path in behind for name in contents.written[path])]
        _run_tar(layer, blob, root, left_out)
        if behind:
            _unpack_behind(layer, blob, root, behind)
        for path, mode in contents.without_rights:
            resolve(root, path.parent).joinpath(path.name).chmod(mode)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_room(root, contents.bytes) from error
        final = error.errno not in OF_THE_HOST
        raise HostTrouble(f"the layer {layer.digest} cannot be unpacked: {error}", final=final) from error


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
        with suppress(NotADirectoryError):  # a folder of its path is a file, so the path does not exist
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
        for path, target in contents.names.items()
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
    skipped.write_bytes(b"".join(os.fsencode(f"{_pattern(name)}\n") for name in left_out))
    command = [
        *("tar", "--extract", "--file=-", f"--directory={root}", "--no-same-owner", "--same-permissions"),
        *("--delay-directory-restore", "--warning=no-timestamp", "--anchored", "--wildcards"),
        *(f"--exclude-from={skipped}", "--no-anchored", f"--exclude={WHITEOUT}*"),
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


def _pattern(name: str) -> str:
    """Return the pattern of tar for one name. tar drops blanks at the end of a line."""
    escaped = re.sub(r"[\\*?\[]", r"\\\g<0>", name.rstrip("/"))
    return f"{escaped[:-1]}[{escaped[-1]}]" if escaped[-1:].isspace() else escaped


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
        with suppress(OverflowError):
            os.utime(file, (member.mtime, member.mtime))


@contextmanager
def _opened(layer: Layer, blob: Path) -> Iterator[IO[bytes]]:
    """Yield the tar of a layer, which a command decompresses."""
    command = _opener(blob)
    if shutil.which(command) is None:
        raise HostTrouble(
            f"the layer {layer.digest} is compressed with {command}, and this host's image has no such command: add "
            f"{command} to apt in the recipe, or push the image with compression=gzip",
            final=True,
        )
    options = ["-dc"] if command != PLAIN else []
    process = subprocess.Popen(
        [command, *options, str(blob)],
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


def _opener(blob: Path) -> str:
    """Return the command that writes the tar of a layer to its standard output."""
    with blob.open("rb") as file:
        first = file.read(4)
    return next((command for magic, command in COMPRESSED.items() if first.startswith(magic)), PLAIN)


def no_room(folder: Path, needed: int) -> HostTrouble:
    """Return the trouble of a disk that is too small for an image, with the size that would do."""
    existing = next(each for each in (folder, *folder.parents) if each.is_dir())
    usage = shutil.disk_usage(existing)
    return HostTrouble(
        f"the image needs {needed / GIB:.1f} GiB on this host's disk, which has {usage.free / GIB:.1f} GiB left of "
        f"{usage.total / GIB:.0f}: write {disk_gib_for(existing, needed)} into the job file",
        final=True,
    )
