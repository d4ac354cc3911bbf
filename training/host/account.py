"""The account that programs run as, and as which the agent touches what a program owns.

A program is not root: it cannot read what the agent reads, signal what it signals or speak to the metadata service
(fence.py). Its home holds all that is its own, and it may do there what it likes: put a link in the place of a folder,
for one. So whatever the agent reads or writes there it does inside `acting`, with that account's rights and no more.
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
"""As the bake makes it (training/baking/install.py)."""
OPEN_TO_ALL = ("tmp", "var/tmp", "var/crash", "dev/shm", "run/lock")
"""Folders below the root in which every account may write. What a disk has there is in an image of it, too."""
UID_MAP = Path("/proc/self/uid_map")
NOBODY_ELSE = (
    "this machine knows one account only (as in a user namespace): the program runs as the agent does"
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
"""A program's first moments, as its account: its environment comes by standard input, so that no process of root's ever
has what a job puts there (LD_PRELOAD, say), and no command line a secret. Its processes and threads are limited, and it
does not inherit the agent's priority."""
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
        """Whether it is not whoever runs the agent."""
        return self.uid != os.geteuid()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Inside, this thread, those that it starts and the commands that it runs by `as_this_thread` have this
        account's rights to files: setfsuid(2), which takes root's from the thread. Raises OSError where that fails."""
        before = _files_of_thread()
        _become(self.uid, self.gid)
        try:
            yield
        finally:
            _become(*before)

    def give(self, path: Path) -> None:
        """Give it the file or folder."""
        if self.is_another:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def may_read(self, path: Path) -> None:
        """Let it read the file of the agent's, and nobody else."""
        if self.is_another:
            os.chown(path, -1, self.gid, follow_symlinks=False)
            path.chmod(0o640)

    def command(self, arguments: Sequence[str], *, python: Path, most_tasks: int) -> list[str]:
        """Return the command that starts the program as this account, with at most `most_tasks` processes and threads.
        The program's environment comes by standard input, in the format of /proc."""
        launch = [str(python), "-I", "-S", "-c", LAUNCH, str(most_tasks), *arguments]
        if not self.is_another:
            return launch
        return ["/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", *NO_RIGHTS, *launch]

    def end_all(self) -> None:
        """Kill every process of this account, wherever it has hidden: kill(2) of -1, by a process of it."""
        if self.is_another:
            subprocess.run(
                ["/bin/sh", "-c", "kill -KILL -1"],
                check=False,
                user=self.uid,
                group=self.gid,
                extra_groups=[],
            )

    def remove_traces(self, root: Path) -> None:
        """Remove all files of this account in the folders where everybody may write; of others nothing. To be called
        while no process of it runs. Raises OSError for what cannot be removed. Where programs run as the agent does
        nobody can tell theirs, and all stays."""
        if not self.is_another:
            return
        for folder in OPEN_TO_ALL:
            for place, folders, files in os.walk(root / folder, onerror=_raise_unless_gone):
                mine = [name for name in folders if self._has(Path(place, name))]
                folders[:] = [name for name in folders if name not in mine]
                for name in (*mine, *(name for name in files if self._has(Path(place, name)))):
                    remove_tree(Path(place, name))

    def _has(self, path: Path) -> bool:
        """Whether the file is its own; not one that somebody else has just removed."""
        try:
            return path.lstat().st_uid == self.uid
        except FileNotFoundError:
            return False


def own() -> Account:
    """Whoever runs the agent."""
    return Account(os.geteuid(), os.getegid())


def find() -> Account:
    """That of this host's programs; the agent's own where the machine can have no other. Raises HostTrouble when the
    image has none."""
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError as error:
        raise HostTrouble(
            f"this host's image has no account {NAME}, which programs run as: bake an image with this yard's version",
            final=True,
        ) from error
    if not _is_mapped(entry.pw_uid):
        return own()
    os.setgroups([])  # what root's groups may read, nobody acts with
    return Account(entry.pw_uid, entry.pw_gid)


def is_alone() -> bool:
    """Whether this machine knows no other account than the one that asks, as in a user namespace."""
    return sum(count for _, count in _mapped()) <= 1


def as_this_thread() -> dict[str, Any]:
    """For subprocess: the command runs as the account that this thread acts as."""
    uid, gid = _files_of_thread()
    return {} if uid == os.geteuid() else {"user": uid, "group": gid, "extra_groups": []}


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder with all below it, as the account that this thread acts as. Folders may be
    nested deeper than Python follows (rm keeps no path), and their owner may have taken its own rights to them away.
    Raises OSError for what is left."""
    remove = ["rm", "-rf", "--", str(path)]
    if _run(remove).returncode == 0:
        return
    _run(["chmod", "-R", "u+rwX", "--", str(path)])
    done = _run(remove)
    if done.returncode:
        raise OSError(errno.ENOTEMPTY, f"it cannot be removed: {done.stderr.strip()[-500:]}", str(path))


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", **as_this_thread()
    )


def _is_mapped(uid: int) -> bool:
    return any(first <= uid < first + count for first, count in _mapped())


def _mapped() -> list[tuple[int, int]]:
    """Ranges of accounts: the first, and how many."""
    ranges = (line.split() for line in UID_MAP.read_text().splitlines())
    return [(int(first), int(count)) for first, _, count in ranges]


def _files_of_thread() -> tuple[int, int]:
    """glibc's calls are the thread's own. One with an id that there is not changes nothing and answers what is."""
    return _libc.setfsuid(-1), _libc.setfsgid(-1)


def _become(uid: int, gid: int) -> None:
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    if _files_of_thread() != (uid, gid):
        raise PermissionError(f"this process may not act as user {uid} and group {gid}")
