"""Process 1 of a host: start enabled units, run commands for the SSM agent, reap, and end with the host.

Covers the parts of systemd that host software uses: service and timer units of /etc/systemd/system, their order,
restarts, stop signals and timeouts, and `systemctl`, `systemd-run`, `shutdown`. One thread runs one loop.
"""

from __future__ import annotations

import heapq
import json
import os
import selectors
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from localcloud.machine.guest.host_units import HostUnits
from localcloud.machine.guest.loop import Reply, Timer
from localcloud.machine.guest.processes import (
    invocation_of,
    largest,
    others_alive,
    send,
    signal_all,
    spawn,
)
from localcloud.machine.guest.service import Service
from localcloud.machine.guest.units import (
    INIT_PREFIX,
    UnitError,
    enabled_units,
    parse_unit,
)

HOME = Path("/run/localcloud")
LOGS = Path("/var/log/units")
KERNEL_LOG = Path("/dev/kmsg")
CONSOLE_LIMIT = 1 << 20
POWEROFF_SECONDS = 60.0
"""Seconds between SIGTERM and SIGKILL for processes that remain after all units ended (systemd: 90 s)."""
PUBLIC_VERBS = ("states",)
"""Verbs that every account of the host may use."""
SERVERS_VERBS = ("nft", "mount", "umount")
"""Verbs that the server carries out."""
REQUEST_SECONDS = 1.0
"""Deadline for a client's complete request."""


class Init:
    def __init__(self, control: socket.socket, host: dict[str, Any]) -> None:
        self.environment: dict[str, str] = host["environment"]
        self.booted = time.monotonic()
        self.going_down = False
        self._host = host
        self._control = control
        self._selector = selectors.DefaultSelector()
        self.units = HostUnits(self)
        self._timers: list[Timer] = []
        self._timer_count = 0
        self._commands: dict[int, int] = {}
        self._pending: dict[int, Callable[[int, str, list[int]], None]] = {}
        self._request_count = 0
        self._temporary: list[int] = []
        self._console_size = 0
        self._scheduled: Timer | None = None

    def run(self) -> None:
        self._listen()
        LOGS.mkdir(parents=True, exist_ok=True)
        self.print(f"{socket.gethostname()} is up: {self._host['instance_id']}")
        self._send(event="running")
        self._start_user_data()
        self.units.start_all(enabled_units(), lambda code, text: None)
        while True:
            self._close_temporary()
            for key, _ in self._selector.select(self._pause()):
                key.data()
            self._run_timers()

    # --- interface for units ---

    def print(self, text: str) -> None:
        """Print a line on the console, whose file is limited in size."""
        data = (text.rstrip("\n") + "\n").encode(errors="replace")
        if self._console_size + len(data) > CONSOLE_LIMIT and stat.S_ISREG(os.fstat(1).st_mode):
            os.ftruncate(1, 0)
            os.lseek(1, 0, os.SEEK_SET)
            self._console_size = 0
        self._console_size += os.write(1, data)

    def log(self, name: str, text: str) -> None:
        self.print(f"{name}: {text}")
        with (LOGS / f"{name}.log").open("a") as file:
            file.write(f"{INIT_PREFIX}{text}\n")

    def open_log(self, name: str, path: Path | None = None) -> int:
        """Return a pipe whose lines reach the console and the unit's log, or the file at `path`."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        target = path or LOGS / f"{name}.log"

        def forward() -> None:
            data = os.read(read, 1 << 16)
            if not data:
                self._selector.unregister(read)
                os.close(read)
                return
            with target.open("ab") as file:
                file.write(data)
            for line in data.decode(errors="replace").splitlines():
                self.print(f"{name}: {line}")

        self._selector.register(read, selectors.EVENT_READ, forward)
        return write

    def temporary(self, descriptor: int) -> int:
        """Close the descriptor at the next turn, when the child has its own copy."""
        self._temporary.append(descriptor)
        return descriptor

    def after(self, pause: float, then: Callable[[], None]) -> Timer:
        self._timer_count += 1
        timer = Timer(time.monotonic() + pause, self._timer_count, then)
        heapq.heappush(self._timers, timer)
        return timer

    def notify_socket(self, name: str, receive: Callable[[str], None]) -> str:
        path = HOME / "notify" / name
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(str(path))
        path.chmod(0o666)
        self._selector.register(
            listener, selectors.EVENT_READ, lambda: receive(listener.recv(4096).decode(errors="replace"))
        )
        return str(path)

    # --- input of init ---

    def _listen(self) -> None:
        wake_read, wake_write = socket.socketpair()
        for end in (wake_read, wake_write):
            end.setblocking(False)
        self._wake = wake_write  # closed below; its number would soon belong to another socket
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._selector.register(
            wake_read, selectors.EVENT_READ, lambda: self._handle_signals(wake_read.recv(512))
        )
        self._selector.register(self._control, selectors.EVENT_READ, self._handle_orders)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(HOME / "init.sock"))
        (HOME / "init.sock").chmod(0o666)
        listener.listen(64)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener.accept()[0]))

    def _handle_signals(self, numbers: bytes) -> None:
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._power_off("init received SIGTERM", reboot=False)
        self._reap()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == 0:
                break
            code = os.waitstatus_to_exitcode(status)
            if pid in self._commands:
                self._send(event="exited", id=self._commands.pop(pid), code=128 - code if code < 0 else code)
            for unit in self.units.all():
                unit.process_ended(pid, code)
        if self.going_down:
            self._halt_when_idle()

    def _handle_orders(self) -> None:
        """Handle orders of the hypervisor. When its end of the socket closes, the host ends."""
        data, files, _, _ = socket.recv_fds(self._control, 1 << 20, 3)
        if not data:
            os._exit(1)
        order = json.loads(data)
        match order["op"]:
            case "run":
                self._run_command(order, files)
            case "kill":
                for pid, number in self._commands.items():
                    if number == order["id"]:
                        os.killpg(pid, signal.SIGKILL)
            case "poweroff":
                self._power_off("requested by the hypervisor", reboot=order["reboot"])
            case "oom":
                self._run_out_of_memory(order["process"])
            case "kernel":
                self._log_of_kernel(order["text"])
            case "gpus":
                self._set_gpus(order["text"])
            case "answer":
                self._pending.pop(order["id"])(order["code"], order["text"], files)
                for (
                    descriptor
                ) in files:  # a copy here would keep readers waiting after the end of a server of FUSE
                    os.close(descriptor)

    def _run_command(self, order: dict[str, Any], files: list[int]) -> None:
        if not self.going_down:
            env = {**self.environment, **order["env"]}
            control = files[2] if len(files) > 2 else None
            pid = spawn(
                order["argv"], env, stdout=files[0], stderr=files[1], cwd=order["cwd"], control=control
            )
            self._commands[pid] = order["id"]
        for descriptor in files:
            os.close(descriptor)

    def _log_of_kernel(self, text: str) -> None:
        """Write an error into the kernel's log, as a record of /dev/kmsg."""
        with KERNEL_LOG.open("a") as log:
            log.write(f"3,{log.tell()},{time.monotonic_ns() // 1000},-;{text}\n")
        self.print(f"kernel: {text}")

    def _set_gpus(self, text: str) -> None:
        """Write the state that `nvidia-smi` prints, and install the command."""
        (HOME / "gpus.new").write_text(text)
        (HOME / "gpus.new").rename(HOME / "gpus.json")
        if (HOME / "nvidia-smi").exists():
            (HOME / "nvidia-smi").rename(HOME / "bin" / "nvidia-smi")

    def _run_out_of_memory(self, text: str) -> None:
        """Kill the process with the most memory, as the kernel does, then notify its unit, as systemd does."""
        pid = largest(text)
        if pid is None:
            self.print(f"kernel: out of memory, and no process has {text!r} in its command line")
            return
        invocation = invocation_of(pid)
        self.print(f"kernel: Out of memory: Killed process {pid}")
        send(pid, signal.SIGKILL)
        for unit in self.units.all():
            if isinstance(unit, Service) and invocation and unit.invocation == invocation:
                unit.ran_out_of_memory()

    def _send(self, **message: Any) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    # --- systemctl and related commands ---

    def _accept(self, client: socket.socket) -> None:
        client.settimeout(REQUEST_SECONDS)

        def answer(code: int, text: str, files: Sequence[int] = ()) -> None:
            try:
                line = json.dumps({"code": code, "text": text}).encode() + b"\n"
                sent = socket.send_fds(client, [line], files)
                client.sendall(line[sent:])
            except OSError:
                pass  # the client left without waiting for the answer
            client.close()

        def read() -> None:
            self._selector.unregister(client)
            try:
                data = client.makefile("rb").readline()
                request = json.loads(data)
                if request["verb"] in PUBLIC_VERBS or _uid_of(client) == os.geteuid():
                    if request["verb"] in SERVERS_VERBS:
                        self._ask_server(request, answer)
                    else:
                        self._on_request(request, answer)
                else:
                    answer(1, "Interactive authentication required.")
            except (UnitError, OSError, ValueError, KeyError) as error:
                answer(1, str(error))

        self._selector.register(client, selectors.EVENT_READ, read)

    def _on_request(self, request: dict[str, Any], reply: Reply) -> None:
        match request["verb"]:
            case "poweroff":
                self._schedule_poweroff(request["seconds"], request["reason"], request["reboot"])
                reply(0, "")
            case "cancel-poweroff":
                if self._scheduled is not None:
                    self._scheduled.cancelled = True
                reply(0, "")
            case _:
                self.units.answer(request, reply)

    def _ask_server(self, request: dict[str, Any], reply: Callable[[int, str, list[int]], None]) -> None:
        """Let the server do what a host's root lacks the capabilities for."""
        self._request_count += 1
        self._pending[self._request_count] = reply
        self._send(event=request.pop("verb"), id=self._request_count, **request)

    # --- shutdown ---

    def _start_user_data(self) -> None:
        """Run the user data script once in the instance's life. Other formats of cloud-init are rejected."""
        text = self._host["user_data"]
        done = Path("/var/lib/cloud/instances", self._host["instance_id"])
        if not text or done.exists():
            return
        done.mkdir(parents=True)
        if not text.startswith("#!"):
            self.print("cloud-init: user data is not a script (#!); the local cloud runs only scripts")
            return
        script = done / "user-data.txt"
        script.write_bytes(text.encode("latin-1"))
        script.chmod(0o700)
        unit = parse_unit(
            "cloud-final.service",
            f"[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart={script}\n"
            "StandardOutput=append+console:/var/log/cloud-init-output.log\n",
        )
        self.units.add_transient(unit).start(lambda code, text: None)

    def _schedule_poweroff(self, pause: float, reason: str, reboot: bool) -> None:
        if self._scheduled is not None:
            self._scheduled.cancelled = True
        self._scheduled = self.after(pause, lambda: self._power_off(reason, reboot=reboot))

    def _power_off(self, reason: str, *, reboot: bool) -> None:
        if self.going_down:
            return
        self.going_down = True
        self.units.forget_queue()
        self.print(f"systemd: {'rebooting' if reboot else 'powering off'}: {reason}")
        self._send(event="powering-off", reason=reason, reboot=reboot)
        for unit in self.units.all():
            unit.stop(lambda code, text: None)
        for pid in self._commands:
            send(pid, signal.SIGTERM)
        self._halt_when_idle()

    def _halt_when_idle(self) -> None:
        """Once all units have ended, send SIGTERM to the remaining processes, wait briefly, and halt."""
        if any(unit.state in ("deactivating", "activating") for unit in self.units.all()):
            return
        if not others_alive():
            self._halt()
        elif self._scheduled is None or self._scheduled.then != self._halt:
            signal_all(signal.SIGTERM)
            self._scheduled = self.after(POWEROFF_SECONDS, self._halt)

    def _halt(self) -> None:
        self.print("systemd: down")
        os._exit(0)

    # --- timers ---

    def _pause(self) -> float | None:
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0].at - time.monotonic()) if self._timers else None

    def _run_timers(self) -> None:
        while self._timers and self._timers[0].at <= time.monotonic():
            timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.then()

    def _close_temporary(self) -> None:
        for descriptor in self._temporary:
            os.close(descriptor)
        self._temporary.clear()


def _uid_of(client: socket.socket) -> int:
    """Return the user ID of the client."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    host = json.loads((HOME / "host.json").read_text())
    (HOME / "host.json").unlink()
    Init(control, host).run()
