"""Enter a container: make an image's folder the root of this process, which then becomes the program.

The agent starts this file as a program of its own, with only the standard library. The process id stays the same, so
signals reach the program itself, and the exit code is the program's own. The process starts with the agent's rights,
because Ubuntu lets only a process with CAP_SYS_ADMIN create a user namespace. The namespace has one account: the
image's user is the account for programs (account.py), so a program that is root in its image has no rights of root.
"""

import ctypes
import errno
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 0x1
SYS_MOUNT_SETATTR = 442
"""The number is the same on every architecture."""
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
CAPABILITY_VERSION = 0x20080522
OPEN_FILES = 1_048_576
FAILED = 125
"""The exit code if the container cannot be entered, as `docker run` has it."""
NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""The exit codes of a shell."""
MARK = "container: "
"""The beginning of every line that this program prints."""
CANNOT = f"{MARK}this host cannot enter the image: "
ADDED_USER = "trainyard"
"""The name of a user that the image does not list."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host that the container shows."""

    source: str
    """Its path on the host, without links."""
    target: str
    read_only: bool = False
    optional: bool = False
    """True if the program can run without it. A missing source, or a place that the image does not allow, is
    skipped."""


@dataclass(frozen=True, kw_only=True)
class Entrance:
    """Everything that a start in a container needs."""

    image: str
    """The folder of the unpacked image, which stays as it is."""
    changes: tuple[str, ...]
    """Folders for what the program changes, in the order of preference. A file system that cannot hold the changes of
    an overlay is passed over."""
    account: tuple[int, int]
    """The host's user and group for programs."""
    user: tuple[int, int]
    """The image's user and group, which the program sees."""
    mounts: tuple[Mount, ...]
    folder: str
    """The working directory."""
    home: str
    most_tasks: int

    def to_json(self) -> str:
        return json.dumps({**vars(self), "mounts": [vars(mount) for mount in self.mounts]})

    @staticmethod
    def of_json(text: str) -> "Entrance":
        fields = json.loads(text)
        pairs = {name: tuple(fields[name]) for name in ("changes", "account", "user")}
        mounts = tuple(Mount(**mount) for mount in fields["mounts"])
        return Entrance(**{**fields, **pairs, "mounts": mounts})


class CannotEnter(Exception):  # noqa: N818 - `raise CannotEnter(why)` is the sentence
    """The container cannot be entered. The text tells why."""


class UnusableImage(Exception):  # noqa: N818 - as above
    """No host can start a program in this image. The text tells why."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Enter the container that the first argument describes, and become the program of the other ones. The program's
    environment arrives by standard input, in the format of /proc."""
    entrance, words = Entrance.of_json(arguments[0]), list(arguments[1:])
    given = _read_environment()
    try:
        limit(entrance.most_tasks)
        become(entrance)
        root = put_together(entrance)
        enter(root, entrance.mounts)
        name_user(entrance)
        give_up_rights()
        go_to(entrance.folder)
    except UnusableImage as error:
        print(f"{MARK}{error}", file=sys.stderr, flush=True)
        os._exit(NOT_EXECUTABLE)
    except (CannotEnter, OSError) as error:
        print(f"{CANNOT}{error}", file=sys.stderr, flush=True)
        os._exit(FAILED)
    execute(words, given)


def _read_environment() -> dict[bytes, bytes]:
    given = sys.stdin.buffer.read()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    pairs = (each.partition(b"=") for each in given.split(b"\0") if each)
    return {name: value for name, _, value in pairs}


# ---------------------------------------------------------------------------------------------------------------- steps


def limit(most_tasks: int) -> None:
    """Set the limits of the program. NCCL and EFA pin memory, and a loader of data opens many files."""
    for kind, wanted in (
        (resource.RLIMIT_NPROC, most_tasks),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY),
    ):
        try:
            resource.setrlimit(kind, (wanted, wanted))
        except (ValueError, OSError):  # the agent may not raise its own limit: give the program all of that
            hard = resource.getrlimit(kind)[1]
            if kind != resource.RLIMIT_NPROC:
                resource.setrlimit(kind, (hard, hard))
            else:
                most = wanted if hard < 0 else min(wanted, hard)
                resource.setrlimit(kind, (most, most))
    os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))


def become(entrance: Entrance) -> None:
    """Enter new namespaces, where the account for programs has the number of the image's user. A child that stays
    outside writes the map of accounts, because only a process outside may map an account other than its own."""
    if entrance.account[0] != os.geteuid():
        os.setgroups([])
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(writer)
        _write_maps(parent, entrance, reader)
    os.close(reader)
    _check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "create its namespaces")
    os.write(writer, b"1")
    os.close(writer)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise CannotEnter("the map of its accounts could not be written")
    user, group = entrance.user
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)


def _write_maps(parent: int, entrance: Entrance, ready: int) -> NoReturn:
    code = 1
    try:
        if os.read(ready, 1):
            process = Path("/proc", str(parent))
            (process / "setgroups").write_text("deny")
            for name, inside, outside in zip(
                ("uid_map", "gid_map"), entrance.user, entrance.account, strict=True
            ):
                (process / name).write_text(f"{inside} {outside} 1")
            code = 0
    except OSError as error:
        print(f"{MARK}{error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def put_together(entrance: Entrance) -> Path:
    """Mount the image under the program's changes, and return the folder."""
    _mount("none", "/", flags=MS_REC | MS_PRIVATE)
    reasons = []
    for folder in map(Path, entrance.changes):
        upper, work, root = (folder / name for name in ("upper", "work", "root"))
        try:
            for each in (upper, work, root):
                each.mkdir(parents=True, exist_ok=True)
            _check_whiteouts(folder)
            options = f"lowerdir={entrance.image},upperdir={upper},workdir={work},userxattr"
            _mount("overlay", str(root), "overlay", MS_NOSUID | MS_NODEV, options)
        except (CannotEnter, OSError) as error:
            reasons.append(f"{folder}: {error}")
            continue
        return root
    raise CannotEnter(f"no folder can hold the changes of the program ({'; '.join(reasons)})")


def _check_whiteouts(folder: Path) -> None:
    """Raise OSError if files of the image could not be removed with changes in this folder. An overlay is such a file
    system, and the root of a host of the local cloud is an overlay."""
    mark = folder / "whiteout"
    mark.unlink(missing_ok=True)
    os.mknod(mark, 0o600 | 0o020000, 0)
    mark.unlink()


def enter(root: Path, mounts: Iterable[Mount]) -> None:
    """Make the folder the root, with these mounts, and detach the host's root. All paths of the container are resolved
    after the change of the root, so that no link of the image leads out of it."""
    before = f".trainyard-{os.urandom(8).hex()}"
    os.chdir(root)
    Path(before).mkdir(0o700)
    machine = platform.machine()
    if machine not in SYS_PIVOT_ROOT:
        raise CannotEnter(f"a {machine} machine has no known number of pivot_root")
    _check(libc.syscall(SYS_PIVOT_ROOT[machine], b".", before.encode()), "change its root")
    os.chdir("/")
    for mount in mounts:
        try:
            _show(mount, Path("/", before))
        except OSError as error:
            if not mount.optional:
                raise CannotEnter(f"{mount.target} cannot be shown in it: {error}") from error
    _check(libc.umount2(f"/{before}".encode(), MNT_DETACH), "detach the host's root")
    Path("/", before).rmdir()


def _show(mount: Mount, before: Path) -> None:
    source = before / mount.source.lstrip("/")
    try:
        _make_point(Path(mount.target), is_folder=source.is_dir())
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        if mount.optional:
            raise
        raise UnusableImage(
            f"the image has {error.filename}, where programs find {mount.target}: {error.strerror}; remove it from "
            "the image"
        ) from error
    source.lstat()
    _mount(str(source), mount.target, flags=MS_BIND | MS_REC)
    if mount.read_only:
        attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
        size = ctypes.c_size_t(len(attributes))
        done = libc.syscall(
            SYS_MOUNT_SETATTR, AT_FDCWD, mount.target.encode(), AT_RECURSIVE, attributes, size
        )
        _check(done, f"make {mount.target} read-only")


def _make_point(target: Path, *, is_folder: bool) -> None:
    """Create the file or folder to mount on. A link that leads nowhere gives way."""
    for path in (*reversed(target.parents), target):
        if path.is_symlink() and not path.exists():
            path.unlink()
    if is_folder:
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def name_user(entrance: Entrance) -> None:
    """Add the user and its group to the image's lists if they lack them. Many libraries ask for the user's name."""
    user, group = entrance.user
    for file, number, line in (
        (Path("/etc/passwd"), user, f"{ADDED_USER}:x:{user}:{group}::{entrance.home}:/bin/sh\n"),
        (Path("/etc/group"), group, f"{ADDED_USER}:x:{group}:\n"),
    ):
        text = file.read_text(errors="surrogateescape") if file.is_file() else ""
        if any(each.split(":")[2:3] == [str(number)] for each in text.splitlines()):
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        before = text if text.endswith("\n") or not text else f"{text}\n"
        file.write_text(f"{before}{line}", errors="surrogateescape")


def give_up_rights() -> None:
    """Drop all rights of root, for this process and for all that it starts."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    for capability in range(last + 1):
        done = libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
        _check(done, f"drop capability {capability}")
    _check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "drop its ambient capabilities")
    header, none = struct.pack("=Ii", CAPABILITY_VERSION, 0), bytes(24)
    _check(libc.capset(header, none), "drop its capabilities")
    _check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges")


def go_to(folder: str) -> None:
    """Change to the working directory, which is created if the image lacks it."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
    except OSError as error:
        raise UnusableImage(
            f"the working directory {folder} is not a folder of the image: {error.strerror}; change its WORKDIR"
        ) from error


def execute(words: list[str], environment: dict[bytes, bytes]) -> NoReturn:
    """Become the program. A program that cannot be started ends with a shell's exit code and a line with the reason."""
    try:
        os.execvpe(words[0], words, environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        code, reason = explain(words[0], error, os.fsdecode(environment.get(b"PATH", DEFAULT_PATH.encode())))
        print(f"{MARK}{reason}", file=sys.stderr, flush=True)
        os._exit(code)


def explain(word: str, error: OSError, path: str) -> tuple[int, str]:
    """Return the exit code and the reason for a program that cannot be executed."""
    found = _find(word, path)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if found is None:
            where = "the image has no such file" if "/" in word else f"it is in no folder of PATH ({path})"
            return NOT_FOUND, f"{word}: command not found: {where}"
        needed = _interpreter(found)
        return NOT_FOUND, f"{word}: cannot execute: the image lacks {needed}, which {found} needs"
    if error.errno == errno.ENOEXEC:
        return NOT_EXECUTABLE, (
            f"{word}: exec format error: it is a program for another architecture than {platform.machine()}, or a "
            "script without a line #!"
        )
    return NOT_EXECUTABLE, f"{word}: cannot execute: {error.strerror}"


def _find(word: str, path: str) -> Path | None:
    folders = [""] if "/" in word else path.split(os.pathsep)
    candidates = (Path(folder, word) for folder in folders)
    return next((each for each in candidates if os.path.lexists(each)), None)


def _interpreter(found: Path) -> str:
    """Return the interpreter of a script, or another name for the loader of a program."""
    try:
        with found.open("rb") as file:
            first = file.readline(256)
    except OSError:
        return "the file that this link leads to"
    if first.startswith(b"#!"):
        return first[2:].strip().split(b" ")[0].decode(errors="replace") or "an interpreter"
    return "the loader of shared libraries"


# --------------------------------------------------------------------------------------------------------- system calls


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    done = libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        os.fsencode(options) or None,
    )
    _check(done, f"mount {kind or source} on {target}")


def _check(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {doing}: {os.strerror(number)}")


if __name__ == "__main__":
    main(sys.argv[1:])
