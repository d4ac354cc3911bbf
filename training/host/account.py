"""The account that programs run as. The agent uses it, too, when it touches files of a program.

A program is not root: it cannot read the agent's files, send signals to its processes, or reach the metadata service
(fence.py). In its home a program may do anything, for example replace a folder by a link. Therefore the agent reads and
writes there only inside `acting`, with the rights of that account.
"""

import ctypes
import errno
import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.host.errors import HostTrouble

NAME = "trainyard"
"""The bake creates it (training/baking/install.py)."""
OPEN_TO_ALL = ("tmp", "var/tmp", "var/crash", "dev/shm", "run/lock")
"""Folders below the root that every account may write to. Their files are part of an image of the disk, too."""
UID_MAP = Path("/proc/self/uid_map")
ONE_ACCOUNT_ONLY = (
    "this machine has only one account (as in a user namespace): the program runs as the agent does"
)
LAUNCH = """\
import os, resource, sys
most, (_, hard) = int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NPROC)
most = most if hard < 0 else min(most, hard)
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0)))
given = sys.stdin.buffer.read()
null = os.open(os.devnull, os.O_RDONLY)
os.dup2(null, 0)
os.close(null)
os.execvpe(sys.argv[2], sys.argv[2:], dict(each.split(b"=", 1) for each in given.split(b"\\0") if each))
"""
"""Starts a program as its account. Its environment arrives by standard input. No process of root ever has the variables
that a job sets (such as LD_PRELOAD), and no command line shows a secret. The program has a limit of processes and
threads, and does not inherit the agent's priority."""
NO_RIGHTS = (
    "--init-groups",
    "--no-new-privs",
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--bounding-set=-all",
)

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int

    @property
    def is_another(self) -> bool:
        """Return True if the agent runs as a different account."""
        return self.uid != os.geteuid()

    @contextmanager
    def act(self) -> Iterator[None]:
        """Give this thread, the threads that it starts, and commands with `as_this_thread` this account's rights to
        files (setfsuid(2)), and take root's rights from them. Raises OSError if that fails."""
        before = _files_of_thread()
        _become(self.uid, self.gid)
        try:
            yield
        finally:
            _become(*before)

    def give(self, path: Path) -> None:
        """Make this account the owner of the file or folder."""
        if self.is_another:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def may_read(self, path: Path) -> None:
        """Let only this account and the agent read the file."""
        if self.is_another:
            os.chown(path, -1, self.gid, follow_symlinks=False)
            path.chmod(0o640)

    def command(self, arguments: Sequence[str], *, python: Path, most_tasks: int) -> list[str]:
        """Return the command that starts the program as this account, with at most `most_tasks` processes and threads.
        The program reads its environment from standard input, in the format of /proc."""
        launch = [str(python), "-I", "-S", "-c", LAUNCH, str(most_tasks), *arguments]
        if not self.is_another:
            return launch
        return ["/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", *NO_RIGHTS, *launch]

    def end_all(self) -> None:
        """Kill every process of this account: one of them calls kill(2) with -1."""
        if self.is_another:
            subprocess.run(
                ["/bin/sh", "-c", "kill -KILL -1"],
                check=False,
                user=self.uid,
                group=self.gid,
                extra_groups=[],
            )

    def remove_traces(self, root: Path) -> None:
        """Remove all files of this account in folders where every account may write. Call it while the account has no
        process. Raises OSError for files that cannot be removed. Keep all files if programs run as the agent does,
        because a program's files look like the agent's own then."""
        if not self.is_another:
            return
        for folder in OPEN_TO_ALL:
            for place, folders, files in os.walk(root / folder, onerror=_raise_unless_gone):
                mine = [name for name in folders if self._has(Path(place, name))]
                folders[:] = [name for name in folders if name not in mine]
                for name in (*mine, *(name for name in files if self._has(Path(place, name)))):
                    remove_tree(Path(place, name))

    def _has(self, path: Path) -> bool:
        """Return True if this account owns the file. Return False if the file has just been removed."""
        try:
            return path.lstat().st_uid == self.uid
        except FileNotFoundError:
            return False


def own() -> Account:
    """Return the account that runs the agent."""
    return Account(os.geteuid(), os.getegid())


def find() -> Account:
    """Return the account for programs, or the agent's own if the machine has only one. Raises HostTrouble if the image
    lacks it."""
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError as error:
        raise HostTrouble(
            f"this host's image has no account {NAME}, which programs run as: bake an image with this yard's version",
            final=True,
        ) from error
    if not _is_mapped(entry.pw_uid):
        return own()
    os.setgroups([])  # `acting` must not keep the rights of root's groups
    return Account(entry.pw_uid, entry.pw_gid)


def has_one_account() -> bool:
    """Return True if this machine has only the account of this process, as in a user namespace."""
    return sum(count for _, count in _read_ranges()) <= 1


def as_this_thread() -> dict[str, Any]:
    """Return arguments of subprocess.run that let a command run as the account that this thread acts as."""
    uid, gid = _files_of_thread()
    return {} if uid == os.geteuid() else {"user": uid, "group": gid, "extra_groups": []}


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder with all below it, as the account that this thread acts as. rm can remove
    folders that are nested deeper than Python can follow; chmod restores rights that their owner took away. Raises
    OSError for files that remain."""
    remove = ["rm", "-rf", "--", str(path)]
    if _run(remove).returncode == 0:
        return
    _run(["chmod", "-R", "u+rwX", "--", str(path)])
    done = _run(remove)
    if done.returncode:
        raise OSError(errno.ENOTEMPTY, f"cannot be removed: {done.stderr.strip()[-500:]}", str(path))


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", **as_this_thread()
    )


def _is_mapped(uid: int) -> bool:
    return any(first <= uid < first + count for first, count in _read_ranges())


def _read_ranges() -> list[tuple[int, int]]:
    """Return ranges of accounts as pairs of the first id and the count."""
    ranges = (line.split() for line in UID_MAP.read_text().splitlines())
    return [(int(first), int(count)) for first, _, count in ranges]


def _files_of_thread() -> tuple[int, int]:
    """Return user and group for this thread's file access. A call with an unknown id changes nothing."""
    return _libc.setfsuid(-1), _libc.setfsgid(-1)


def _become(uid: int, gid: int) -> None:
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    if _files_of_thread() != (uid, gid):
        raise PermissionError(f"this process may not act as user {uid} and group {gid}")
