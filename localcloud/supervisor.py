"""Process lifetime: the whole local cloud lives in namespaces that end with one process, so `down` always works.

    up ──► supervisor (outside; owns the listening socket, the lock and the pid file)
             └─► init (PID 1 of a new pid namespace, in new net and mount namespaces)
                   └─► server ──► Lambdas, hosts (in pid namespaces of their own), ...

When init ends, the kernel kills every process of its pid namespace, and the net and mount namespaces vanish. Init ends
with the server, on SIGTERM, and (parent-death signal) when the supervisor is killed. So no cleanup is necessary.

The listening socket is created before the namespaces are entered. A socket stays in its original
namespace, where the user's clients are.

For an ordinary user, all this happens inside a user namespace with the user as root.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1

PATIENCE = 12.0
"""Seconds for the server to write its state before it is killed."""

_libc = ctypes.CDLL(None, use_errno=True)


class CannotStart(Exception):  # noqa: N818 - `raise CannotStart(why)` is the sentence
    """The local cloud cannot start on this machine. The message says how to correct that."""


@dataclass(frozen=True)
class Running:
    """A running local cloud, as described by its pid file."""

    supervisor: int
    supervisor_started: int
    init: int
    init_started: int
    port: int


def pid_file(state: Path) -> Path:
    """Return the path of the supervisor's pid file."""
    return state / "supervisor.json"


def running(state: Path) -> Running | None:
    """Return the local cloud of this state folder if its supervisor or its init is alive."""
    try:
        found = Running(**json.loads(pid_file(state).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return found if _alive(found) else None


def stop(state: Path) -> bool:
    """Stop the local cloud of this state folder in any condition. Return False if none was running.

    SIGTERM comes first, so that the state is written; SIGKILL follows after `PATIENCE`.
    """
    found = running(state)
    if found is None:
        pid_file(state).unlink(missing_ok=True)
        return False
    _send(found.supervisor, found.supervisor_started, signal.SIGTERM)
    if not _wait(lambda: not _alive(found), PATIENCE + 3):
        _send(found.supervisor, found.supervisor_started, signal.SIGKILL)
        _send(found.init, found.init_started, signal.SIGKILL)
        _wait(lambda: not _alive(found), 5)
    pid_file(state).unlink(missing_ok=True)
    return True


def listen(port: int) -> socket.socket:
    """Return the listening socket for the user's clients. Raise CannotStart if the port is in use."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(256)
    except OSError as error:
        listening.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise CannotStart(
            f"127.0.0.1:{port} is in use by another program. Choose another port with --port, "
            f"or end what listens there (`ss -ltnp 'sport = :{port}'` names it)."
        ) from error
    return listening


def supervise(state: Path, port: int, settings: Path | None, listening: socket.socket) -> int:
    """Run a local cloud until a signal ends it. Return the server's exit code.

    Blocks. SIGTERM and SIGINT stop it in order, SIGKILL at once. Both leave no process behind.
    """
    lock = _lock(state)
    _enter_namespaces()
    arguments = ["--state", str(state), "--port", str(port), "--socket", str(listening.fileno())]
    arguments += ["--settings", str(settings)] if settings else []
    init = os.fork()
    if init == 0:
        _be_init(arguments, listening)
    listening.close()
    _write_pid_file(state, init, port)
    try:
        return _wait_for_init(init)
    finally:
        pid_file(state).unlink(missing_ok=True)
        lock.close()


# ------------------------------------------------------------------------------------ the supervisor itself


def _lock(state: Path) -> TextIO:
    """Lock the state folder, because two local clouds would overwrite each other's state."""
    handle = (state / "lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise CannotStart(
            f"{state} is in use by another local cloud: `python -m localcloud down` ends it."
        ) from error
    return handle


def _wait_for_init(init: int) -> int:
    asked_at: float | None = None

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked_at
        if asked_at is None:
            asked_at = time.monotonic()
            os.kill(init, signal.SIGTERM)

    signal.signal(signal.SIGTERM, ask)
    signal.signal(signal.SIGINT, ask)
    while True:
        ended, status = os.waitpid(init, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if asked_at is not None and time.monotonic() - asked_at > PATIENCE:
            os.kill(init, signal.SIGKILL)
        time.sleep(0.1)


def _write_pid_file(state: Path, init: int, port: int) -> None:
    me = os.getpid()
    content = Running(me, _start_time(me) or 0, init, _start_time(init) or 0, port)
    new = pid_file(state).with_suffix(".new")
    new.write_text(json.dumps(asdict(content)))
    new.replace(pid_file(state))


# ----------------------------------------------------------------------------------------------- namespaces


def _enter_namespaces() -> None:
    """Enter a new net namespace and, for children, a new pid namespace; inside a user namespace if necessary.

    Init creates the mount namespace, because its /proc would show the supervisor the wrong processes.
    """
    wanted = CLONE_NEWNET | CLONE_NEWPID
    if os.geteuid() == 0 and _unshare(wanted) == 0:
        return
    user, group = os.geteuid(), os.getegid()
    failed = _unshare(CLONE_NEWUSER | wanted)
    if failed:
        raise CannotStart(_why_no_namespaces(failed))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _why_no_namespaces(number: int) -> str:
    switches = {
        "/proc/sys/kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone=1"),
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        "/proc/sys/user/max_user_namespaces": ("0", "user.max_user_namespaces=15000"),
    }
    cures = [
        f"sudo sysctl -w {cure}"
        for path, (bad, cure) in switches.items()
        if Path(path).exists() and Path(path).read_text().strip() == bad
    ]
    cure = " and ".join(cures) or "run it as root, or in a container that may make namespaces (--privileged)"
    return (
        f"This kernel does not let you make namespaces ({os.strerror(number)}), and a local cloud's hosts are "
        f"namespaces. Remedy: {cure}."
    )


def _unshare(flags: int) -> int:
    """Return 0 or the errno."""
    return 0 if _libc.unshare(flags) == 0 else ctypes.get_errno()


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, data)]
    if _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or ''} on {target}: {os.strerror(number)}")


# --------------------------------------------------------------------------------------------- init (PID 1)


def _be_init(arguments: list[str], listening: socket.socket) -> NoReturn:
    """Run as PID 1: mount, start the server, and reap. Its end ends everything, so it is kept small."""
    code = 1
    try:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # Ctrl-C reaches the whole group; the supervisor forwards it
        if failed := _unshare(CLONE_NEWNS):
            raise CannotStart(_why_no_namespaces(failed))
        _mount("none", "/", None, MS_REC | MS_PRIVATE)
        _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        _mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
        code = _run_server(arguments, listening)
    except BaseException as error:  # noqa: BLE001 - nobody is above PID 1
        print(f"the local cloud could not start: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _run_server(arguments: list[str], listening: socket.socket) -> int:
    server = os.fork()
    if server == 0:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        listening.set_inheritable(True)
        command = [sys.executable, "-m", "localcloud.server.main", *arguments]
        os.execve(sys.executable, command, _server_environment())  # noqa: S606 - no shell is wanted

    def pass_on(number: int, frame: FrameType | None) -> None:
        os.kill(server, number)

    signal.signal(signal.SIGTERM, pass_on)
    while True:
        ended, status = os.wait()  # reaps orphans too
        if ended == server:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _server_environment() -> dict[str, str]:
    """Return the variables that the server needs. The caller's credentials and settings are left out."""
    wanted = ("PATH", "HOME", "LANG", "LC_ALL", "LOCALCLOUD_LOG")
    kept = {name: os.environ[name] for name in wanted if name in os.environ}
    package = Path(__file__).resolve().parent.parent
    return {**kept, "PYTHONPATH": str(package), "PYTHONUNBUFFERED": "1"}


# ------------------------------------------------------------------------------------------------ processes


def _start_time(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot, which with the pid identifies it; None if it ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, started = fields[0], int(fields[19])
    return None if state == "Z" else started


def _alive(found: Running) -> bool:
    anchors = ((found.supervisor, found.supervisor_started), (found.init, found.init_started))
    return any(_start_time(pid) == started for pid, started in anchors)


def _send(pid: int, started: int, number: signal.Signals) -> None:
    if _start_time(pid) == started:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it ended between the check and the signal


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def _main() -> None:
    """`python -m localcloud.supervisor STATE PORT SOCKET [SETTINGS]`: the detached form, which `cli.up` starts."""
    state, port, number, *settings = sys.argv[1:]
    listening = socket.socket(fileno=int(number))
    try:
        sys.exit(supervise(Path(state), int(port), Path(settings[0]) if settings else None, listening))
    except CannotStart as refusal:
        sys.exit(str(refusal))


if __name__ == "__main__":
    _main()
