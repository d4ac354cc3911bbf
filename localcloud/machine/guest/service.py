"""Life of a service unit."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from localcloud.machine.guest.loop import Manager, Reply, Timer
from localcloud.machine.guest.outcomes import OUT_OF_MEMORY, is_clean, kill_signal, wants_restart
from localcloud.machine.guest.processes import CANNOT_RUN, members, send, spawn
from localcloud.machine.guest.units import UnitError, UnitFile, expand, read_environment

DEFAULT_STOP_SECONDS = 90.0
DEFAULT_START_SECONDS = 90.0


class Service:
    """A service unit with its state: inactive, activating, active, deactivating or failed."""

    def __init__(self, init: Manager, unit: UnitFile) -> None:
        self.init = init
        self.unit = unit
        self.name = unit.name
        self.state = "inactive"
        self.result = "success"
        self.exit_status = 0
        self.main_pid = 0
        self.transient = False
        self.invocation = ""
        self._control_pid = 0
        self._ignore_failure = False
        self._commands: list[tuple[str, str]] = []
        self._after_the_end: list[str] = []
        self._starts: list[float] = []
        self._waiting: list[Reply] = []
        self._exit_waiting: list[Reply] = []
        self._is_stop_requested = False
        self._log: int | None = None
        self._deadline: Timer | None = None
        self._pending_restart: Timer | None = None

    @property
    def kind(self) -> str:
        return self.unit.get(
            "Service", "Type", "simple" if self.unit.all("Service", "ExecStart") else "oneshot"
        )

    @property
    def shown_state(self) -> str:
        """Return the state that `systemctl is-active` prints. A service that waits for its restart is activating."""
        return "activating" if self._pending_restart is not None else self.state

    def start(self, reply: Reply) -> None:
        if self.state in ("active", "activating"):
            if self.state == "active":
                reply(0, "")
            else:
                self._waiting.append(reply)
            return
        if self.state == "deactivating":
            self._exit_waiting.append(lambda code, text: self.start(reply))
            return
        if not self._may_start(reply):
            return
        self._waiting.append(reply)
        self._cancel_restart()
        self._is_stop_requested = False
        self.state, self.result, self.invocation = "activating", "success", uuid.uuid4().hex
        self._prepare_folders()
        self._commands = [("pre", line) for line in self.unit.all("Service", "ExecStartPre")]
        self._commands += [("main", line) for line in self.unit.all("Service", "ExecStart")]
        limit = self.unit.seconds("Service", "TimeoutStartSec", DEFAULT_START_SECONDS)
        if self.kind in ("notify", "forking") or self.unit.get("Service", "TimeoutStartSec"):
            self._arm(limit, self._start_timed_out)
        self._next_command()

    def stop(self, reply: Reply) -> None:
        self._cancel_restart()
        if self.state in ("inactive", "failed"):
            reply(0, "")
            return
        self._exit_waiting.append(reply)
        self._is_stop_requested = True
        if self.state == "deactivating":
            return
        lines = self.unit.all("Service", "ExecStop") if self.main_pid else []
        self._deactivate([("stop", line) for line in lines])
        self._next_command()

    def kill(self, number: int, whom: str) -> None:
        targets = [self.main_pid] if whom == "main" and self.main_pid else members(self.invocation)
        for pid in targets:
            send(pid, number)

    def ran_out_of_memory(self) -> None:
        """Apply OOMPolicy= after the kernel killed a process of this unit.

        The unit ends unless the policy is `continue`.
        """
        policy = self.unit.get("Service", "OOMPolicy", "stop")
        self.init.log(self.name, "A process of this unit has been killed by the OOM killer.")
        if policy == "continue" or self.state not in ("active", "activating"):
            return
        self._answer_start(1, f"Job for {self.name} failed: out of memory.")
        self.result = OUT_OF_MEMORY
        self._deactivate([])
        if policy == "kill":
            self.kill(signal.SIGKILL, "all")
        else:
            self._request_end()
        self._check_stopped()

    def reload(self, reply: Reply) -> None:
        for line in self.unit.all("Service", "ExecReload"):
            self._spawn(line)
        reply(0, "")

    def wait_for_end(self, reply: Reply) -> None:
        self._exit_waiting.append(reply)

    def reset_failed(self) -> None:
        self._starts.clear()
        if self.state == "failed":
            self.state, self.result = "inactive", "success"

    def handle_notification(self, text: str) -> None:
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key == "MAINPID" and value.isdigit():
                self.main_pid = int(value)
            elif line == "READY=1" and self.state == "activating" and self.kind == "notify":
                self._record_activation()

    def process_ended(self, pid: int, code: int) -> None:
        """Handle a reaped child of init if it belongs to this unit."""
        if pid == self._control_pid:
            self._control_pid = 0
            self._control_ended(code)
        elif pid == self.main_pid:
            self.main_pid = 0
            self._main_ended(code)
        self._check_stopped()

    def _check_stopped(self) -> None:
        if self.state != "deactivating" or self.main_pid or self._control_pid or self._commands:
            return
        if self.unit.get("Service", "KillMode") not in ("process", "none") and members(self.invocation):
            return
        if self._after_the_end:
            self._commands = [("post", line) for line in self._after_the_end]
            self._after_the_end = []
            self._limit_stop()
            self._next_command()
        else:
            self._record_stop()

    # --- internal ---

    def _may_start(self, reply: Reply) -> bool:
        if self.init.going_down:
            reply(1, f"Failed to start {self.name}: the host is going down.")
            return False
        for path in self.unit.all("Unit", "ConditionPathExists"):
            if Path(path.lstrip("!|")).exists() == path.startswith("!"):
                self.init.log(self.name, f"not started: condition on {path} is not met")
                reply(0, "")
                return False
        now = time.monotonic()
        interval = self.unit.seconds("Unit", "StartLimitIntervalSec", 10)
        burst = int(self.unit.get("Unit", "StartLimitBurst", "5"))
        self._starts = [at for at in self._starts if now - at < interval]
        if interval != float("inf") and len(self._starts) >= burst:
            self.state, self.result = "failed", "start-limit-hit"
            reply(1, f"Job for {self.name} failed: it was started {burst} times within {interval:g} s.")
            return False
        self._starts.append(now)
        return True

    def _prepare_folders(self) -> None:
        for key, base in (
            ("RuntimeDirectory", "/run"), ("StateDirectory", "/var/lib"), ("LogsDirectory", "/var/log"),
            ("CacheDirectory", "/var/cache"),
        ):  # fmt: skip
            for name in self.unit.words("Service", key):
                Path(base, name).mkdir(parents=True, exist_ok=True)

    def _next_command(self) -> None:
        if not self._commands:
            self._commands_done()
            return
        phase, line = self._commands.pop(0)
        main = phase == "main" and self.kind != "oneshot"
        pid = self._spawn(line)
        if pid == 0:
            self._control_ended(CANNOT_RUN)
        elif main and self.kind != "forking":
            self.main_pid = pid
            if self.kind != "notify":
                self._record_activation()
        else:
            self._control_pid = pid

    def _commands_done(self) -> None:
        if self.state == "activating":
            self._record_activation()
            if self.kind == "oneshot" and not self.unit.flag("Service", "RemainAfterExit"):
                self._wind_down()
        elif self.state == "deactivating":
            self._request_end()
            self._check_stopped()

    def _control_ended(self, code: int) -> None:
        if code != 0 and not self._ignore_failure and self.state == "activating":
            self._fail(code)
        else:
            self._next_command()

    def _main_ended(self, code: int) -> None:
        self.exit_status = code
        if (
            not is_clean(self.unit, code, stop_requested=self._is_stop_requested)
            and self.result != OUT_OF_MEMORY
        ):
            self.result = "signal" if code < 0 else "exit-code"
        if self.state in ("active", "activating"):
            if self.state == "activating":
                self._answer_start(1, f"Job for {self.name} failed: it ended before it was ready.")
            if self.unit.flag("Service", "RemainAfterExit") and self.result == "success":
                return
            self._wind_down()

    def _fail(self, code: int) -> None:
        self.exit_status = code
        self.result = "signal" if code < 0 else "exit-code"
        self._answer_start(
            1, f"Job for {self.name} failed because the control process exited with error code {code}."
        )
        self._wind_down()

    def _record_activation(self) -> None:
        self._disarm()
        self.state = "active"
        limit = self.unit.seconds("Service", "RuntimeMaxSec", float("inf"))
        if limit != float("inf"):
            self._arm(limit, self._run_out)
        self.init.log(self.name, "started")
        self._answer_start(0, "")
        self.init.units.start_queued()

    def _answer_start(self, code: int, text: str) -> None:
        waiting, self._waiting = self._waiting, []
        for reply in waiting:
            reply(code, text)

    def _run_out(self) -> None:
        self.result = "timeout"
        self._wind_down()

    def _start_timed_out(self) -> None:
        self.result = "timeout"
        self._answer_start(1, f"Job for {self.name} failed because a timeout was exceeded.")
        self._wind_down()

    def _wind_down(self) -> None:
        """End the remaining processes of the service, then determine its result."""
        self._deactivate([])
        self._request_end()
        self._check_stopped()

    def _deactivate(self, commands: list[tuple[str, str]]) -> None:
        self.state = "deactivating"
        self._commands = commands
        self._after_the_end = self.unit.all("Service", "ExecStopPost")
        self._limit_stop()

    def _limit_stop(self) -> None:
        """Limit the time for ExecStop and the end of all processes. ExecStopPost then gets the same time again."""
        self._arm(self.unit.seconds("Service", "TimeoutStopSec", DEFAULT_STOP_SECONDS), self._stop_timed_out)

    def _request_end(self) -> None:
        number = kill_signal(self.unit)
        match self.unit.get("Service", "KillMode", "control-group"):
            case "none":
                return
            case "process" | "mixed":
                targets = [self.main_pid] if self.main_pid else []
            case _:
                targets = members(self.invocation)
        for pid in targets:
            send(pid, number)

    def _stop_timed_out(self) -> None:
        self.init.log(self.name, "did not end in time, killing it")
        self.result = "timeout"
        self._commands = []
        self.kill(signal.SIGKILL, "all")

    def _record_stop(self) -> None:
        self._disarm()
        if self.unit.get("Service", "KillMode") == "mixed":
            self.kill(signal.SIGKILL, "all")
        failed = self.result != "success"
        self.state = "failed" if failed else "inactive"
        self.init.log(self.name, f"ended: {self.result}, code {self.exit_status}")
        restarts = not self._is_stop_requested and wants_restart(self.unit, self.result, self.exit_status)
        self._close_log()
        waiting, self._exit_waiting = self._exit_waiting, []
        for reply in waiting:
            reply(self.exit_status if self.exit_status >= 0 else 128 - self.exit_status, "")
        if restarts and not self.init.going_down:
            pause = self.unit.seconds("Service", "RestartSec", 0.1)
            self._pending_restart = self.init.after(0.0 if pause == float("inf") else pause, self._restart)
        self.init.units.start_queued()

    def _restart(self) -> None:
        self._pending_restart = None
        self.start(lambda code, text: None)

    def _cancel_restart(self) -> None:
        if self._pending_restart is not None:
            self._pending_restart.cancelled = True
            self._pending_restart = None

    def _arm(self, after: float, then: Callable[[], None]) -> None:
        self._disarm()
        if after != float("inf"):
            self._deadline = self.init.after(after, then)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancelled = True
            self._deadline = None

    def _environment(self) -> dict[str, str]:
        env = dict(self.init.environment)
        for line in self.unit.all("Service", "Environment"):
            pairs = (word.partition("=") for word in shlex.split(line))
            env.update({name: value for name, _, value in pairs if name})
        for path in self.unit.all("Service", "EnvironmentFile"):
            if Path(path.lstrip("-")).exists():
                env.update(read_environment(path.lstrip("-")))
            elif not path.startswith("-"):
                raise UnitError(f"{self.name}: EnvironmentFile {path} does not exist")
        env["INVOCATION_ID"] = self.invocation
        if self.main_pid:
            env["MAINPID"] = str(self.main_pid)
        if user := self.unit.get("Service", "User"):
            env.update(USER=user, LOGNAME=user, HOME=pwd.getpwnam(user).pw_dir)
        if self.kind == "notify":
            env["NOTIFY_SOCKET"] = self.init.notify_socket(self.name, self.handle_notification)
        return env

    def _spawn(self, line: str) -> int:
        """Run one Exec line. Return 0 if it could not be prepared; the log has the reason."""
        prefix = re.match(r"[-@+!:|]*", line)[0]  # type: ignore[index]
        self._ignore_failure = "-" in prefix
        try:
            env = self._environment()
            argv = expand(shlex.split(line[len(prefix) :]), env)
            return spawn(
                argv,
                env,
                stdout=self._output("StandardOutput"),
                stderr=self._output("StandardError"),
                cwd=self.unit.get("Service", "WorkingDirectory", "/").lstrip("-"),
                user=self.unit.get("Service", "User"),
                limits=self.unit.limits(),
            )
        except (UnitError, OSError, ValueError, KeyError) as error:
            self.init.log(self.name, f"cannot run {line!r}: {error}")
            return 0

    def _output(self, key: str) -> int:
        target = self.unit.get("Service", key, "inherit" if key == "StandardError" else "journal")
        kind, _, path = target.partition(":")
        if target == "inherit" and key == "StandardError":
            return self._output("StandardOutput")
        if kind in ("append", "file", "truncate"):
            flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if kind == "append" else os.O_TRUNC)
            return self.init.temporary(os.open(path, flags, 0o644))
        if kind == "null":
            return self.init.temporary(os.open("/dev/null", os.O_WRONLY))
        if self._log is None:
            # append+console is an extension, for the output of user data under cloud-init
            self._log = self.init.open_log(self.name, Path(path) if kind == "append+console" else None)
        return self._log

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None
