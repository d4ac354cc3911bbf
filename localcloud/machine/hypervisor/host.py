"""A host that is up or on its way: its boot process, its control socket, the commands that run on it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from localcloud.base.background import in_background
from localcloud.machine.boot import Specification
from localcloud.machine.hypervisor import firewall, host_processes
from localcloud.machine.hypervisor.firewall import Rules
from localcloud.machine.hypervisor.machine import ENDPOINT_ADDRESS, Machine
from localcloud.machine.kernel import alone

VANISHED = "its init vanished"

BOOT = alone("localcloud.machine.boot")


class HostNotRunningError(Exception):
    """The instance is not running here."""


@dataclass(frozen=True)
class Result:
    """How a command on a host ended. `exit_code` is None when nobody could see it end."""

    ending: Literal["exited", "timed-out", "cancelled", "vanished"]
    exit_code: int | None


class Execution:
    """One command on one host. Its output goes straight to two files on this side."""

    def __init__(self, host: Host, number: int, stdout: Path, stderr: Path, timeout: float) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self._host = host
        self._number = number
        self._timeout = timeout
        self._ended = threading.Event()
        self._result: Result | None = None
        self._why_killed: Literal["timed-out", "cancelled"] | None = None

    def wait(self) -> Result:
        """Until it exits, is cancelled, runs out of time (then its process group is killed) or its host vanishes."""
        if not self._ended.wait(self._timeout):
            self._kill("timed-out")
            self._ended.wait()
        assert self._result is not None
        return self._result

    def cancel(self) -> None:
        """SIGKILL to its whole process group; `wait` then answers `cancelled`. Harmless when it has already ended."""
        self._kill("cancelled")

    def _kill(self, why: Literal["timed-out", "cancelled"]) -> None:
        self._why_killed = self._why_killed or why
        self._host.send(op="kill", id=self._number)

    def _end(self, exit_code: int | None) -> None:
        if exit_code is None:
            self._result = Result("vanished", None)
        else:
            self._result = Result(self._why_killed or "exited", exit_code)
        self._ended.set()


class Host:
    """One machine that is up or on its way: its boot process, its control socket, its running commands."""

    def __init__(self, machine: Machine, home: Path) -> None:
        self.machine = machine
        self.home = home
        self.wanted: Literal["stopped", "terminated"] | None = None
        self.is_up = False
        self.powered_off = False
        self.rebooting = False
        self.is_cut = False
        self.gone = threading.Event()
        self._lock = threading.Lock()
        self._killed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._executions: dict[int, Execution] = {}
        self._numbers = 0
        self._stopped_pids: list[int] = []
        self._while_down: list[Callable[[], None]] = []
        self._guarding = threading.Lock()
        self._rules: Rules | None = None

    @property
    def is_frozen(self) -> bool:
        return bool(self._stopped_pids)

    @property
    def is_fenced(self) -> bool:
        rules = self._rules
        return rules is not None and not firewall.lets_out(rules, ENDPOINT_ADDRESS)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def boot_process(self) -> int | None:
        """The process whose child is init; None while it is not up."""
        with self._lock:
            return self._process.pid if self.is_up and self._process is not None else None

    def guard(self, rules: Rules, *, first: bool = False) -> None:
        """Put these rules in place of others; nothing where it has none yet, or is gone."""
        with self._guarding:
            if (first or self._rules is not None) and rules != self._rules:
                firewall.apply(rules, self.pid)
                self._rules = rules

    def start(self, specification: Specification) -> None:
        self.powered_off = self.rebooting = False
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, (self.home / "console.log").open("wb") as console:
            process = subprocess.Popen(
                [python(), "-I", "-S", "-c", BOOT, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        with self._lock:
            self._process, self._control = process, control
            killed = self._killed
        self.send(**specification)
        if killed:
            self.kill()

    def messages(self) -> Iterator[dict[str, Any]]:
        control = self._control
        assert control is not None
        while data := _receive(control):
            yield json.loads(data)

    def send(self, **message: Any) -> None:
        """Send init a message; one to a host that is gone is dropped, which is no error."""
        self._send(json.dumps(message).encode(), [])

    def _send(self, data: bytes, files: list[int]) -> bool:
        with self._lock:
            if self._control is None:
                return False
            try:
                socket.send_fds(self._control, [data], files)
            except (BrokenPipeError, ConnectionResetError):
                return False
            return True

    def execute(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        timeout: float,
        output: Path | None,
        cwd: str,
        control: socket.socket | None,
    ) -> Execution:
        with self._lock:
            self._numbers += 1
            number = self._numbers
        folder = output or self.home / "output" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        execution = Execution(self, number, folder / "stdout", folder / "stderr", timeout)
        with self._lock:
            self._executions[number] = execution
        order = {"op": "run", "id": number, "argv": list(argv), "env": dict(env), "cwd": cwd}
        with execution.stdout.open("wb") as out, execution.stderr.open("wb") as err:
            files = [out.fileno(), err.fileno(), *([control.fileno()] if control else [])]
            if not self._send(json.dumps(order).encode(), files):
                self.finish(number, None)
        return execution

    def finish(self, number: int, code: int | None) -> None:
        with self._lock:
            execution = self._executions.pop(number, None)
        if execution is not None:
            execution._end(code)

    def forget_executions(self) -> None:
        for number in list(self._executions):
            self.finish(number, None)

    def last_printed(self) -> str:
        """The end of its console, on one line."""
        try:
            return " | ".join((self.home / "console.log").read_text(errors="replace").splitlines()[-20:])
        except OSError as error:
            return str(error)

    def ask_down(self, grace: float) -> None:
        """Ask, and kill if it has not gone after the grace; one that is still booting or hangs is killed at once."""
        if not self.is_up or self.is_frozen:
            self.kill()
            return
        self.send(op="poweroff", reboot=False)

        def insist() -> None:
            if not self.gone.wait(grace):
                self.kill()

        in_background(f"down {self.machine.instance_id}", insist)

    def reboot(self) -> None:
        """Down and up again, which ends a hang."""
        self.thaw()
        self.send(op="poweroff", reboot=True)

    def reboot_around(self, work: Callable[[], None]) -> bool:
        """Reboot it, and do this while it is down; False when it is not up, so that nothing needs to go down."""
        with self._lock:
            if not self.is_up:
                return False
            self._while_down.append(work)
        self.reboot()
        return True

    def do_while_down(self) -> None:
        """What `reboot_around` was asked for; the host is down now, or over."""
        with self._lock:
            asked, self._while_down = self._while_down, []
        for work in asked:
            work()

    def kill(self) -> None:
        """Everything on it ends now. Its boot process ends when all of that is gone, so that `reap` waits for it."""
        with self._lock:
            self._killed = True
            process = self._process
        if process is not None and process.poll() is None:
            host_processes.end(process.pid)

    def freeze(self) -> None:
        with self._lock:
            self._stopped_pids += host_processes.stop_all(self.pid)

    def thaw(self) -> None:
        """What `freeze` stopped goes on; what had been stopped before stays so."""
        with self._lock:
            host_processes.continue_all(self._stopped_pids)
            self._stopped_pids.clear()

    def reap(self) -> None:
        """After the socket closed: the processes are gone or going; wait until they are, and collect them."""
        with self._guarding:
            self._rules = None  # its process id may soon be another's
        with self._lock:
            self.is_up = False
            process, self._process = self._process, None
            control, self._control = self._control, None
            self._stopped_pids.clear()
        if control is not None:
            control.close()
        if process is not None:
            process.wait()
        self.forget_executions()


@contextmanager
def stopped(host: Host | None) -> Iterator[None]:
    """Every process of a host that is up stands still meanwhile; what had been stopped before stays so."""
    boot = host.boot_process() if host is not None else None
    held = host_processes.stop_all(boot) if boot is not None else []
    try:
        yield
    finally:
        host_processes.continue_all(held)


def _receive(control: socket.socket) -> bytes:
    """The next message; nothing once the host is gone. Who is gone before it has read all may have said something
    first: the kernel tells of that end before it gives what was said."""
    for _ in range(2):
        try:
            return control.recv(1 << 20)
        except ConnectionResetError:
            continue
    return b""


def python() -> str:
    """The interpreter itself, which a host sees too; a virtual environment's is a link that a host cannot follow."""
    return os.path.realpath(sys.executable)
