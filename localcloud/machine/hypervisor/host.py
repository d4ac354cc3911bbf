"""A running or booting host: its boot process, control socket and commands."""

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
    """The instance is not running."""


@dataclass(frozen=True)
class Result:
    """Result of a command on a host. `exit_code` is None if the end was not observed."""

    ending: Literal["exited", "timed-out", "cancelled", "vanished"]
    exit_code: int | None


class Execution:
    """A command on a host. Its output is written to two files on the server's side."""

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
        """Wait until it exits, is cancelled, times out (its process group is then killed), or its host vanishes."""
        if not self._ended.wait(self._timeout):
            self._kill("timed-out")
            self._ended.wait()
        assert self._result is not None
        return self._result

    def cancel(self) -> None:
        """Kill its process group with SIGKILL, so that `wait` returns `cancelled`. Has no effect after its end."""
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
    """A running or booting machine: its boot process, control socket and running commands."""

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
        return rules is not None and not firewall.allows_outbound(rules, ENDPOINT_ADDRESS)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def boot_process(self) -> int | None:
        """Return the parent process of init, or None if the host is down."""
        with self._lock:
            return self._process.pid if self.is_up and self._process is not None else None

    def guard(self, rules: Rules, *, first: bool = False) -> None:
        """Replace the firewall rules. Does nothing if the host has no rules yet or is gone."""
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
        """Send a message to init. Messages to a host that is gone are dropped."""
        self._send(json.dumps(message).encode(), [])

    def answer(self, number: int, code: int, text: str, files: list[int]) -> None:
        """Answer a request of init, with descriptors that init passes on."""
        self._send(json.dumps({"op": "answer", "id": number, "code": code, "text": text}).encode(), files)

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
        """Return the end of the console on one line."""
        try:
            return " | ".join((self.home / "console.log").read_text(errors="replace").splitlines()[-20:])
        except OSError as error:
            return str(error)

    def request_shutdown(self, grace: float) -> None:
        """Request shutdown, and kill the host after the grace period. A booting or frozen host is killed at once."""
        if not self.is_up or self.is_frozen:
            self.kill()
            return
        self.send(op="poweroff", reboot=False)

        def insist() -> None:
            if not self.gone.wait(grace):
                self.kill()

        in_background(f"down {self.machine.instance_id}", insist)

    def reboot(self) -> None:
        """Shut the host down and boot it again. This also ends a freeze."""
        self.thaw()
        self.send(op="poweroff", reboot=True)

    def reboot_around(self, work: Callable[[], None]) -> bool:
        """Reboot the host and run `work` while it is down. Return False if the host is not up."""
        with self._lock:
            if not self.is_up:
                return False
            self._while_down.append(work)
        self.reboot()
        return True

    def do_while_down(self) -> None:
        """Run the work of `reboot_around`. The host is down at this time."""
        with self._lock:
            callbacks, self._while_down = self._while_down, []
        for work in callbacks:
            work()

    def kill(self) -> None:
        """Kill all processes. The boot process ends after them, so that `reap` waits for all."""
        with self._lock:
            self._killed = True
            process = self._process
        if process is not None and process.poll() is None:
            host_processes.end(process.pid)

    def freeze(self) -> None:
        with self._lock:
            self._stopped_pids += host_processes.stop_all(self.pid)

    def thaw(self) -> None:
        """Continue the processes that `freeze` stopped. Processes that were stopped before stay stopped."""
        with self._lock:
            host_processes.continue_all(self._stopped_pids)
            self._stopped_pids.clear()

    def reap(self) -> None:
        """Wait for the processes to end after the socket closed, and collect them."""
        with self._guarding:
            self._rules = None  # another process may soon have this process id
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
def pause(host: Host | None) -> Iterator[None]:
    """Stop all processes of a running host during the block. Processes that were stopped before stay stopped."""
    boot = host.boot_process() if host is not None else None
    held = host_processes.stop_all(boot) if boot is not None else []
    try:
        yield
    finally:
        host_processes.continue_all(held)


def _receive(control: socket.socket) -> bytes:
    """Return the next message, or empty bytes once the host is gone. Messages before its end still arrive."""
    for _ in range(2):
        try:
            return control.recv(1 << 20)
        except ConnectionResetError:
            continue
    return b""


def python() -> str:
    """Return the interpreter behind a virtual environment's link, because hosts cannot follow the link."""
    return os.path.realpath(sys.executable)
