"""Leave files, processes and other remains on the host, or print the remains of an earlier program."""

import argparse
import ctypes
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--do", choices=("leave", "look"), required=True)
flags = parser.parse_args()
MARK = "left-by-the-first-run"
KEYS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[platform.machine()]
USER_KEYRING, READ = -4, 11
IPC_CREAT, MOST = 0o1000, 64 * 1024
WRITABLE = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")
libc = ctypes.CDLL(None, use_errno=True)
os.environ["HOME"] = home = str(Path("~").expanduser())


def leave() -> None:
    for folder in WRITABLE:
        if os.access(folder, os.W_OK):
            Path(folder, MARK).write_text(MARK)
            Path(folder, f"{MARK}-folder").mkdir(exist_ok=True)
    Path(home, MARK).write_text(MARK)
    Path(os.environ["TRAINYARD_DATA_FEW"], MARK).write_text(MARK)
    assert libc.shmget(0x7247, MOST, IPC_CREAT | 0o600) >= 0
    assert libc.msgget(0x7247, IPC_CREAT | 0o600) >= 0
    assert libc.semget(0x7247, 1, IPC_CREAT | 0o600) >= 0
    queue = ctypes.CDLL("librt.so.1", use_errno=True).mq_open(
        f"/{MARK}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None
    )
    print(f"left a queue: {queue >= 0}")
    key = libc.syscall(KEYS[0], b"user", MARK.encode(), b"secret", 6, USER_KEYRING)
    print(f"left a key: {key > 0}")
    subprocess.Popen(["/bin/sh", "-c", f"exec setsid sleep 9999 # {MARK}"], start_new_session=True)


def found() -> Iterator[str]:
    uid = os.getuid()
    for folder in WRITABLE:
        yield from (str(path) for path in Path(folder).rglob("*") if path.lstat().st_uid == uid)
    for place, folders, names in os.walk("/var/lib/trainyard"):
        yield from (f"{place}/{name}" for name in (*folders, *names) if MARK in name)
    yield from (f"readable: {path}" for path in ("/var/lib/trainyard-kept",) if os.access(path, os.R_OK))
    mine = {os.getpid(), os.getppid()}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) not in mine and folder.stat().st_uid == uid:
            yield f"process {folder.name}: {(folder / 'cmdline').read_bytes()!r}"
    for kind in ("shm", "msg", "sem"):
        head, *rows = (line.split() for line in Path("/proc/sysvipc", kind).read_text().splitlines())
        yield from (f"{kind} {row}" for row in rows if row[head.index("uid")] == str(uid))
    queue = ctypes.CDLL("librt.so.1", use_errno=True).mq_open(f"/{MARK}".encode(), os.O_RDWR)
    if queue >= 0:
        yield "a queue"
    key = libc.syscall(KEYS[1], b"user", MARK.encode(), None, 0)
    if key > 0:
        yield "a key"
    yield from (
        f"environment: {name}" for name, value in os.environ.items() if "FIRST" in name or MARK in value
    )


if flags.do == "leave":
    leave()
    print("left")
else:
    print(f"few: {sorted(path.name for path in Path(os.environ['TRAINYARD_DATA_FEW']).iterdir())}")
    for what in found():
        print(f"found: {what}")
    print("looked")
sys.stdout.flush()
time.sleep(1)
