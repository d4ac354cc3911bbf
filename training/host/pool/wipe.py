"""Wipe a host after a run, so that the next run's program finds nothing of it.

Programs run as an account without rights (account.py). It can leave processes, files, and objects that the kernel keeps
for an account without a process. If something cannot be removed, the host ends.
"""

import logging
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.host.account import ONE_ACCOUNT_ONLY, Account, remove_tree
from training.host.container import kept
from training.host.errors import HostTrouble
from training.host.mounts.mounting import unmount_all
from training.host.paths import Paths
from training.host.pool import retained

END_SECONDS = 10.0
LOOK_SECONDS = 0.1
SYSTEM_V = {"shm": "shmid", "msg": "msqid", "sem": "semid"}
"""The tables of /proc/sysvipc, with the column of the id."""
ELSEWHERE = (
    "var/spool/cron/crontabs/{name}",
    "var/spool/cron/{name}",
    "var/spool/cron/atjobs",
    "var/mail/{name}",
    "var/lib/systemd/linger/{name}",
    "run/user/{uid}",
)
"""Paths that privileged programs write for an account. Our programs cannot call these (no_new_privs), but the paths
are checked anyway."""
AS_ACCOUNT = """\
import ctypes, os, pathlib, platform, sys
libc, mine = ctypes.CDLL(None, use_errno=True), os.getuid()
for kind, called in (("shm", "shmid"), ("msg", "msqid"), ("sem", "semid")):
    table = pathlib.Path("/proc/sysvipc", kind)
    head, *rows = (line.split() for line in table.read_text().splitlines()) if table.exists() else ([],)
    for row in rows:
        if str(mine) in (row[head.index("uid")], row[head.index("cuid")]):
            number = int(row[head.index(called)])
            libc.semctl(number, 0, 0, 0) if kind == "sem" else getattr(libc, f"{kind}ctl")(number, 0, None)
for folder in map(pathlib.Path, sys.argv[1:]):
    for queue in folder.iterdir():
        if queue.lstat().st_uid == mine:
            queue.unlink()
number = {"x86_64": 250, "aarch64": 219}[platform.machine()]
CLEAR, GET_PERSISTENT, PROCESS, USER, USER_SESSION = 7, 22, -2, -4, -5
found = libc.syscall(number, GET_PERSISTENT, -1, PROCESS)
for ring in (USER, USER_SESSION, *([found] if found > 0 else [])):
    libc.syscall(number, CLEAR, ring)
"""
"""Removes, as the account: shared memory, queues, and semaphores of System V (IPC_RMID is 0), POSIX queues in the given
folders, and the keys on its keyrings. A kernel without keyrings has none."""

logger = logging.getLogger(__name__)


def wipe(paths: Paths, account: Account, *, name: str) -> None:
    """Remove everything of the last run. `name` is the name of its account. Files that may be retained (retained.py)
    move to a folder that only root can read. Only call this in an agent that has not worked for that run: its threads
    would still write, and its memory would hold secrets. A second call is harmless. Raises HostTrouble or OSError if
    something remains."""
    if not account.is_another:
        raise HostTrouble(f"{ONE_ACCOUNT_ONLY}, so its files cannot be told from others")
    began = time.monotonic()
    end_processes(paths, account)
    unmount_all(paths)
    retained.take(paths)
    kept.take(paths)
    for leftover in (paths.work, paths.log, paths.orders):
        if leftover.exists():
            remove_tree(leftover)
    for file in (paths.credentials, paths.aws_config, paths.aws_config_without_cat, paths.started_again):
        file.unlink(missing_ok=True)
    account.remove_traces(paths.root)
    _remove_elsewhere(paths, account, name)
    _remove_kept_by_kernel(paths, account)
    logger.info("wiped in %.1f s", time.monotonic() - began)


def end_processes(paths: Paths, account: Account) -> None:
    """Kill the account's processes until none remains. Raises HostTrouble if one does not end."""
    end = time.monotonic() + END_SECONDS
    account.end_all()
    while left := sorted(_processes(paths.root / "proc", account.uid)):
        if time.monotonic() >= end:
            raise HostTrouble(f"processes of the last run do not end: {', '.join(map(str, left[:5]))}")
        time.sleep(LOOK_SECONDS)
        account.end_all()


def _processes(proc: Path, uid: int) -> Iterator[int]:
    """Yield the account's processes, without zombies."""
    for folder in proc.glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        is_gone = fields.get("State", "").split()[:1] in (["Z"], ["X"])
        if str(uid) in fields.get("Uid", "").split() and not is_gone:
            yield int(folder.name)


def _remove_elsewhere(paths: Paths, account: Account, name: str) -> None:
    for pattern in ELSEWHERE:
        path = paths.root / pattern.format(name=name, uid=account.uid)
        if path.is_symlink() or not path.exists():
            continue
        if path.is_file():
            path.unlink()
            continue
        for each in path.iterdir():
            if each.lstat().st_uid == account.uid:
                remove_tree(each)


def _remove_kept_by_kernel(paths: Paths, account: Account) -> None:
    """Remove kernel objects that outlive the account's processes. Raises HostTrouble if some remain."""
    with _queues(paths) as folders:
        done = subprocess.run(
            [str(paths.python), "-I", "-S", "-c", AS_ACCOUNT, *map(str, folders)],
            check=False,
            capture_output=True,
            text=True,
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            env={},
            cwd="/",
        )
        if done.returncode:
            raise HostTrouble(f"kernel objects of the last run cannot be removed: {done.stderr[-500:]}")
        left = [str(queue) for folder in folders for queue in folder.iterdir() if _is_of(queue, account)]
    left += _system_v(paths.root / "proc/sysvipc", account)
    if left:
        raise HostTrouble(f"kernel objects of the last run remain: {', '.join(left[:5])}")


def _is_of(path: Path, account: Account) -> bool:
    return path.lstat().st_uid == account.uid


def _system_v(tables: Path, account: Account) -> list[str]:
    """Return the account's objects of System V, each as kind and id."""
    found = []
    for kind, called in SYSTEM_V.items():
        lines = (tables / kind).read_text().splitlines() if (tables / kind).exists() else [""]
        head, *rows = (line.split() for line in lines)
        for row in rows:
            fields = dict(zip(head, row, strict=True))
            if str(account.uid) in (fields["uid"], fields["cuid"]):
                found.append(f"{kind} {fields[called]}")
    return found


@contextmanager
def _queues(paths: Paths) -> Iterator[tuple[Path, ...]]:
    """Yield the folders that show POSIX queues as files; none on a kernel without queues."""
    if "mqueue" not in (paths.root / "proc/filesystems").read_text():
        yield ()
        return
    folder = paths.root / "dev/mqueue"
    if os.path.ismount(folder):
        yield (folder,)
        return
    folder = paths.run / "queues"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "mqueue", "mqueue", str(folder)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise HostTrouble(f"POSIX queues of the last run cannot be listed: {done.stderr.strip()}")
    try:
        yield (folder,)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
