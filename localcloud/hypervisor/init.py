"""Process 1 of a host: starts the enabled units, runs commands for the SSM agent, reaps, and ends with the host.

The part of systemd that software on a host meets: service and timer units of /etc/systemd/system, their ordering,
restarts, stop signals and timeouts, `systemctl`, `systemd-run`, `shutdown`. Standard library only; one thread, one loop.
A unit's processes are found again by the INVOCATION_ID in their environment (there are no control groups here).
"""

from __future__ import annotations

import heapq
import json
import os
import pwd
import re
import selectors
import shlex
import signal
import socket
import stat
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOME = Path("/run/localcloud")
UNIT_FOLDERS = (Path("/run/systemd/system"), Path("/etc/systemd/system"), Path("/usr/local/lib/systemd/system"))
ENABLED_FOLDERS = ("multi-user.target.wants", "default.target.wants", "timers.target.wants", "network-online.target.wants")
LOGS = Path("/var/log/units")
CONSOLE_LIMIT = 1 << 20
DEFAULT_STOP_SECONDS = 90.0
DEFAULT_START_SECONDS = 90.0
POWEROFF_SECONDS = 10.0

Reply = Callable[[int, str], None]
"""Answers whoever asked: exit code and text."""


class UnitError(Exception):
    """A unit that does not exist or cannot be understood."""


# --- unit files ---------------------------------------------------------------------------------------------------------


@dataclass
class UnitFile:
    """What a unit file says; every key may be repeated, an empty value forgets what came before."""

    name: str
    values: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def all(self, section: str, key: str) -> list[str]:
        return self.values.get((section, key), [])

    def get(self, section: str, key: str, default: str = "") -> str:
        values = self.all(section, key)
        return values[-1] if values else default

    def words(self, section: str, key: str) -> list[str]:
        return [word for value in self.all(section, key) for word in value.split()]

    def flag(self, section: str, key: str) -> bool:
        return self.get(section, key).lower() in ("yes", "true", "on", "1")

    def seconds(self, section: str, key: str, default: float) -> float:
        text = self.get(section, key)
        return seconds(text) if text else default


def parse_unit(name: str, text: str) -> UnitFile:
    unit, section = UnitFile(name), ""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        key, _, value = (part.strip() for part in line.partition("="))
        known = unit.values.setdefault((section, key), [])
        if value:
            known.append(fill_in(value, name))
        else:
            known.clear()
    return unit


def fill_in(value: str, name: str) -> str:
    """The specifiers that ordinary units use."""
    prefix, _, rest = name.partition("@")
    whole = name.rpartition(".")[0]
    instance = rest.rpartition(".")[0]
    known = {
        "i": instance, "I": instance, "n": name, "N": whole, "p": prefix.rpartition(".")[0] or prefix, "%": "%",
        "H": socket.gethostname(), "t": "/run", "S": "/var/lib", "C": "/var/cache", "L": "/var/log",
    }  # fmt: skip
    return re.sub(r"%(.)", lambda match: known.get(match[1], match[0]), value)


def seconds(text: str) -> float:
    """`90`, `5min`, `1min 30s`, `200ms`, `infinity`."""
    if text.strip() in ("infinity", "0"):
        return float("inf")
    scale = {"": 1, "s": 1, "sec": 1, "ms": 0.001, "us": 1e-6, "m": 60, "min": 60, "h": 3600, "hr": 3600, "d": 86400}
    total = 0.0
    for number, unit in re.findall(r"([\d.]+)\s*([a-z]*)", text):
        plain = unit if unit in scale else unit.removesuffix("s").removesuffix("econd").removesuffix("ute")
        if plain not in scale:
            raise UnitError(f"not a time span: {text!r}")
        total += float(number) * scale[plain]
    return total


def find_unit(name: str) -> UnitFile:
    """The unit of this name; `job@7.service` is read from `job@.service` when it has no file of its own."""
    template = re.sub(r"@.*(\.\w+)$", r"@\1", name)
    for candidate in (name, template):
        for folder in UNIT_FOLDERS:
            path = folder / candidate
            if path.exists():
                text = path.read_text()
                for extra in sorted((folder / f"{candidate}.d").glob("*.conf")):
                    text += "\n" + extra.read_text()
                return parse_unit(name, text)
    raise UnitError(f"Unit {name} not found.")


def full_name(name: str) -> str:
    return name if re.search(r"\.(service|timer|target|socket|slice|mount)$", name) else name + ".service"


def enabled_units() -> list[str]:
    folder = Path("/etc/systemd/system")
    links = [link.name for wants in ENABLED_FOLDERS if (folder / wants).is_dir() for link in (folder / wants).iterdir()]
    return sorted(links)


# --- processes ----------------------------------------------------------------------------------------------------------


def spawn(
    argv: list[str], env: dict[str, str], *, stdout: int, stderr: int, cwd: str = "/", user: str = "", files: int = 0
) -> int:
    """A process in a session of its own; 203 is its exit code when the program cannot be run, as with systemd."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        null = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((null, 0), (stdout, 1), (stderr, 2)):
            os.dup2(source, target)
        os.chdir(cwd)
        if user:
            account = pwd.getpwnam(user)
            os.initgroups(account.pw_name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        os.execvpe(argv[0], argv, env)
    except BaseException as error:  # a forked child must never return into init
        os.write(2, f"{argv[0]}: {error}\n".encode())
    finally:
        os._exit(203)
    raise AssertionError("unreachable")


def members(invocation: str) -> list[int]:
    """Every process, however far from its unit, that carries its INVOCATION_ID."""
    mark = f"INVOCATION_ID={invocation}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or entry == "1":
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes()
            is_zombie = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
        except OSError:  # it ended while we looked
            continue
        if not is_zombie and mark in environment.split(b"\0"):
            found.append(int(entry))
    return found


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # ended by itself: what was asked for has happened


# --- services -----------------------------------------------------------------------------------------------------------


class Service:
    """One service unit through its life: inactive, activating, active, deactivating, failed."""

    def __init__(self, init: Init, unit: UnitFile) -> None:
        self.init = init
        self.unit = unit
        self.name = unit.name
        self.state = "inactive"
        self.result = "success"
        self.exit_status = 0
        self.main_pid = 0
        self.transient = False
        self.invocation = ""
        self.active_since = 0.0
        self._control_pid = 0
        self._ignore_failure = False
        self._commands: list[tuple[str, str]] = []
        self._starts: list[float] = []
        self._waiting: list[Reply] = []
        self._exit_waiting: list[Reply] = []
        self._stop_asked = False
        self._log: int | None = None
        self._deadline: Timer | None = None
        self._pending_restart: Timer | None = None

    @property
    def kind(self) -> str:
        return self.unit.get("Service", "Type", "simple" if self.unit.all("Service", "ExecStart") else "oneshot")

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
        self._stop_asked = False
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
            self.state = "inactive" if self.state == "inactive" else self.state
            reply(0, "")
            return
        self._exit_waiting.append(reply)
        self._stop_asked = True
        if self.state == "deactivating":
            return
        self.state = "deactivating"
        self._commands = [("stop", line) for line in self.unit.all("Service", "ExecStop")] if self.main_pid else []
        self._arm(self.unit.seconds("Service", "TimeoutStopSec", DEFAULT_STOP_SECONDS), self._stop_timed_out)
        self._next_command()

    def kill(self, number: int, whom: str) -> None:
        targets = [self.main_pid] if whom == "main" and self.main_pid else members(self.invocation)
        for pid in targets:
            send(pid, number)

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

    def notified(self, text: str) -> None:
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key == "MAINPID" and value.isdigit():
                self.main_pid = int(value)
            elif line == "READY=1" and self.state == "activating" and self.kind == "notify":
                self._activated()

    def process_ended(self, pid: int, code: int) -> None:
        """One of init's children was reaped; is it ours?"""
        if pid == self._control_pid:
            self._control_pid = 0
            self._control_ended(code)
        elif pid == self.main_pid:
            self.main_pid = 0
            self._main_ended(code)
        self.check_stopped()

    def check_stopped(self) -> None:
        if self.state != "deactivating" or self.main_pid or self._control_pid or self._commands:
            return
        if self.unit.get("Service", "KillMode") in ("process", "none") or not members(self.invocation):
            self._stopped()

    # --- inside ---

    def _may_start(self, reply: Reply) -> bool:
        for path in self.unit.all("Unit", "ConditionPathExists"):
            if os.path.exists(path.lstrip("!|")) == path.startswith("!"):
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
            self._control_ended(203)
        elif main and self.kind != "forking":
            self.main_pid = pid
            if self.kind != "notify":
                self._activated()
        else:
            self._control_pid = pid

    def _commands_done(self) -> None:
        if self.state == "activating":
            self._activated()
            if self.kind == "oneshot" and not self.unit.flag("Service", "RemainAfterExit"):
                self._wind_down()
        elif self.state == "deactivating":
            self._ask_to_end()
            self.check_stopped()

    def _control_ended(self, code: int) -> None:
        if code != 0 and not self._ignore_failure and self.state == "activating":
            self._fail(code)
        else:
            self._next_command()

    def _main_ended(self, code: int) -> None:
        self.exit_status = code
        if not self._is_clean(code):
            self.result = "signal" if code < 0 else "exit-code"
        if self.state in ("active", "activating"):
            if self.state == "activating":
                self._answer_start(1, f"Job for {self.name} failed: it ended before it was ready.")
            if self.unit.flag("Service", "RemainAfterExit") and self.result == "success":
                return
            self._wind_down()

    def _is_clean(self, code: int) -> bool:
        clean = {0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM, -signal.SIGPIPE}
        for word in self.unit.words("Service", "SuccessExitStatus"):
            clean.add(int(word) if word.isdigit() else -signal_number(word))
        return code in clean or (self._stop_asked and code == -signal_number(self._kill_signal()))

    def _kill_signal(self) -> str:
        return self.unit.get("Service", "KillSignal", "SIGTERM")

    def _fail(self, code: int) -> None:
        self.exit_status = code
        self.result = "signal" if code < 0 else "exit-code"
        self._answer_start(1, f"Job for {self.name} failed because the control process exited with error code {code}.")
        self._wind_down()

    def _activated(self) -> None:
        self._disarm()
        self.state, self.active_since = "active", time.time()
        limit = self.unit.seconds("Service", "RuntimeMaxSec", float("inf"))
        if limit != float("inf"):
            self._arm(limit, self._run_out)
        self.init.log(self.name, "started")
        self._answer_start(0, "")
        self.init.unit_changed()

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
        """The service has ended or must: what is left of it goes, then it is judged."""
        self.state = "deactivating"
        self._commands = []
        self._arm(self.unit.seconds("Service", "TimeoutStopSec", DEFAULT_STOP_SECONDS), self._stop_timed_out)
        self._ask_to_end()
        self.check_stopped()

    def _ask_to_end(self) -> None:
        number = signal_number(self._kill_signal())
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

    def _stopped(self) -> None:
        self._disarm()
        if self.unit.get("Service", "KillMode") == "mixed":
            self.kill(signal.SIGKILL, "all")
        failed = self.result != "success"
        self.state = "failed" if failed else "inactive"
        self.init.log(self.name, f"ended: {self.result}, code {self.exit_status}")
        for line in self.unit.all("Service", "ExecStopPost"):
            self._spawn(line)
        restarts = not self._stop_asked and self._wants_restart()
        self._close_log()
        waiting, self._exit_waiting = self._exit_waiting, []
        for reply in waiting:
            reply(self.exit_status if self.exit_status >= 0 else 128 - self.exit_status, "")
        if restarts and not self.init.going_down:
            pause = self.unit.seconds("Service", "RestartSec", 0.1)
            self._pending_restart = self.init.after(0.0 if pause == float("inf") else pause, self._restart)
        self.init.unit_changed()

    def _restart(self) -> None:
        self._pending_restart = None
        self.start(lambda code, text: None)

    def _wants_restart(self) -> bool:
        if self.exit_status in {int(w) for w in self.unit.words("Service", "RestartPreventExitStatus") if w.isdigit()}:
            return False
        match self.unit.get("Service", "Restart", "no"):
            case "always":
                return True
            case "on-success":
                return self.result == "success"
            case "on-failure":
                return self.result != "success"
            case "on-abnormal":
                return self.result in ("signal", "timeout")
            case "on-abort":
                return self.result == "signal"
        return False

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
            env.update(assignment.split("=", 1) for assignment in shlex.split(line) if "=" in assignment)
        for path in self.unit.all("Service", "EnvironmentFile"):
            if os.path.exists(path.lstrip("-")):
                env.update(read_environment(path.lstrip("-")))
            elif not path.startswith("-"):
                raise UnitError(f"{self.name}: EnvironmentFile {path} does not exist")
        env["INVOCATION_ID"] = self.invocation
        if self.main_pid:
            env["MAINPID"] = str(self.main_pid)
        if user := self.unit.get("Service", "User"):
            env.update(USER=user, LOGNAME=user, HOME=pwd.getpwnam(user).pw_dir)
        if self.kind == "notify":
            env["NOTIFY_SOCKET"] = self.init.notify_socket(self)
        return env

    def _spawn(self, line: str) -> int:
        """Run one Exec line; 0 when it could not even be prepared (the log says why)."""
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
            self._log = self.init.open_log(self.name)
        return self._log

    def _close_log(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None


def signal_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return int(signal.Signals["SIG" + name.upper().removeprefix("SIG")])


def expand(argv: list[str], env: dict[str, str]) -> list[str]:
    """`$NAME` as a word of its own becomes words; `${NAME}` is pasted."""
    words: list[str] = []
    for word in argv:
        if re.fullmatch(r"\$\w+", word):
            words += env.get(word[1:], "").split()
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda match: env.get(match[1], ""), word).replace("$$", "$"))
    return words


def read_environment(path: str) -> dict[str, str]:
    lines = [line.strip() for line in Path(path).read_text().splitlines()]
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#;" and "=" in line)
    return {key.strip(): " ".join(shlex.split(value)) for key, _, value in pairs}


# --- timers -------------------------------------------------------------------------------------------------------------


@dataclass(order=True)
class Timer:
    """Something that will be done at `at` (monotonic), unless cancelled."""

    at: float
    number: int
    then: Callable[[], None] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class TimerUnit:
    """A .timer unit with the monotonic triggers; one with OnCalendar= is refused."""

    def __init__(self, init: Init, unit: UnitFile) -> None:
        if unit.all("Timer", "OnCalendar"):
            raise UnitError(f"{unit.name}: OnCalendar is not supported on the local cloud; use OnBootSec or OnUnitActiveSec")
        self.init = init
        self.unit = unit
        self.name = unit.name
        self.state = "inactive"
        self.result = "success"
        self.exit_status = self.main_pid = 0
        self.invocation = ""
        self.active_since = 0.0
        self.transient = False
        self._next: Timer | None = None

    def start(self, reply: Reply) -> None:
        self.state, self.active_since = "active", time.time()
        uptime = time.monotonic() - self.init.booted
        delays = [self.unit.seconds("Timer", key, -1) for key in ("OnActiveSec", "OnUnitActiveSec")]
        delays += [max(0.0, self.unit.seconds("Timer", key, -1) - uptime)
                   for key in ("OnBootSec", "OnStartupSec") if self.unit.all("Timer", key)]  # fmt: skip
        due = [delay for delay in delays if delay >= 0]
        if due:
            self._next = self.init.after(min(due), self._fire)
        reply(0, "")

    def stop(self, reply: Reply) -> None:
        self.state = "inactive"
        if self._next is not None:
            self._next.cancelled = True
        reply(0, "")

    def wait_for_end(self, reply: Reply) -> None:
        reply(0, "")

    def reset_failed(self) -> None:
        pass

    def kill(self, number: int, whom: str) -> None:
        pass

    def reload(self, reply: Reply) -> None:
        reply(0, "")

    def process_ended(self, pid: int, code: int) -> None:
        pass

    def check_stopped(self) -> None:
        pass

    def _fire(self) -> None:
        service = self.unit.get("Timer", "Unit", self.name.removesuffix(".timer") + ".service")
        self.init.start_units([service], lambda code, text: None)
        again = self.unit.seconds("Timer", "OnUnitActiveSec", -1)
        self._next = self.init.after(again, self._fire) if again > 0 else None


# --- the loop -----------------------------------------------------------------------------------------------------------


class Init:
    def __init__(self, control: socket.socket, host: dict[str, Any]) -> None:
        self.environment: dict[str, str] = host["environment"]
        self.booted = time.monotonic()
        self.going_down = False
        self._host = host
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._units: dict[str, Service | TimerUnit] = {}
        self._queued: list[tuple[str, Reply]] = []
        self._timers: list[Timer] = []
        self._timer_count = 0
        self._commands: dict[int, int] = {}
        self._temporary: list[int] = []
        self._console_size = 0
        self._scheduled: Timer | None = None
        self._ended_commands: list[dict[str, Any]] = []

    def run(self) -> None:
        self._listen()
        LOGS.mkdir(parents=True, exist_ok=True)
        self.print(f"{socket.gethostname()} is up: {self._host['instance_id']}")
        self._say(event="running")
        self._start_user_data()
        self.start_units(enabled_units(), lambda code, text: None)
        while True:
            self._close_temporary()
            for key, _ in self._selector.select(self._pause()):
                key.data()
            self._run_timers()

    # --- for units ---

    def print(self, text: str) -> None:
        """One line on the console, which is kept below a size."""
        data = (text.rstrip("\n") + "\n").encode(errors="replace")
        if self._console_size + len(data) > CONSOLE_LIMIT and stat.S_ISREG(os.fstat(1).st_mode):
            os.ftruncate(1, 0)
            os.lseek(1, 0, os.SEEK_SET)
            self._console_size = 0
        self._console_size += os.write(1, data)

    def log(self, name: str, text: str) -> None:
        self.print(f"{name}: {text}")
        with (LOGS / f"{name}.log").open("a") as file:
            file.write(f"{text}\n")

    def open_log(self, name: str) -> int:
        """A pipe whose lines reach the unit's log and the console."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        path = LOGS / f"{name}.log"

        def forward() -> None:
            data = os.read(read, 1 << 16)
            if not data:
                self._selector.unregister(read)
                os.close(read)
                return
            with path.open("ab") as file:
                file.write(data)
            for line in data.decode(errors="replace").splitlines():
                self.print(f"{name}: {line}")

        self._selector.register(read, selectors.EVENT_READ, forward)
        return write

    def temporary(self, descriptor: int) -> int:
        """Closed at the next turn, when the child that needed it has its own."""
        self._temporary.append(descriptor)
        return descriptor

    def after(self, pause: float, then: Callable[[], None]) -> Timer:
        self._timer_count += 1
        timer = Timer(time.monotonic() + pause, self._timer_count, then)
        heapq.heappush(self._timers, timer)
        return timer

    def notify_socket(self, service: Service) -> str:
        path = HOME / "notify" / service.name
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(str(path))
        path.chmod(0o666)
        self._selector.register(
            listener, selectors.EVENT_READ, lambda: service.notified(listener.recv(4096).decode(errors="replace"))
        )
        return str(path)

    def unit_changed(self) -> None:
        """Units that waited for another one's start may go now."""
        queued, self._queued = self._queued, []
        names = {name for name, _ in queued}
        for name, reply in queued:
            after = set(self._units[name].unit.words("Unit", "After"))
            is_blocked = any(
                other in names - {name} or (other in self._units and self._units[other].state == "activating")
                for other in after
            )
            if is_blocked:
                self._queued.append((name, reply))
            else:
                names.discard(name)
                self._units[name].start(reply)

    def start_units(self, names: list[str], reply: Reply) -> None:
        """Start them and what they require, in their order; answers when all are started or one has failed."""
        wanted: list[str] = []
        try:
            for name in names:
                self._collect(full_name(name), wanted)
        except (UnitError, OSError) as error:
            self.print(f"systemd: {error}")
            reply(5, str(error))
            return
        if not wanted:
            reply(0, "")
            return
        self._queued += [(name, each) for name, each in zip(wanted, _gather(len(wanted), reply), strict=True)]
        self.unit_changed()

    def _collect(self, name: str, wanted: list[str]) -> None:
        if name in wanted or name.rpartition(".")[2] in ("target", "slice", "socket", "mount"):
            return
        unit = self._unit(name)
        for other in unit.unit.words("Unit", "Requires"):
            self._collect(other, wanted)
        for other in unit.unit.words("Unit", "Wants"):
            try:
                self._collect(other, wanted)
            except UnitError as error:
                self.print(f"{name}: wants a unit that is not there: {error}")
        wanted.append(name)

    def _unit(self, name: str) -> Service | TimerUnit:
        known = self._units.get(name)
        if known is not None and (known.transient or known.state not in ("inactive", "failed")):
            return known
        unit = find_unit(name)
        if known is not None:
            known.unit = unit  # read again: as after daemon-reload
            return known
        self._units[name] = TimerUnit(self, unit) if name.endswith(".timer") else Service(self, unit)
        return self._units[name]

    # --- what init hears ---

    def _listen(self) -> None:
        wake_read, wake_write = socket.socketpair()
        for end in (wake_read, wake_write):
            end.setblocking(False)
        self._wake = wake_write  # closed, its number would soon be another socket's
        signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: self._signalled(wake_read.recv(512)))
        self._selector.register(self._control, selectors.EVENT_READ, self._ordered)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(HOME / "init.sock"))
        os.chmod(HOME / "init.sock", 0o600)
        listener.listen(64)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener.accept()[0]))

    def _signalled(self, numbers: bytes) -> None:
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._power_off("init was asked to end", reboot=False)
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
                self._say(event="exited", id=self._commands.pop(pid), code=128 - code if code < 0 else code)
            for unit in list(self._units.values()):
                unit.process_ended(pid, code)
        if self.going_down:
            self._finish_if_quiet()

    def _ordered(self) -> None:
        """The hypervisor's orders; when its end of the cable is gone, so is this host."""
        data, files, _, _ = socket.recv_fds(self._control, 1 << 20, 2)
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
                self._power_off("asked by the hypervisor", reboot=order["reboot"])
            case "freeze":
                signal_all(signal.SIGSTOP)
                os.sync()
                self._say(event="frozen")
            case "thaw":
                signal_all(signal.SIGCONT)

    def _run_command(self, order: dict[str, Any], files: list[int]) -> None:
        env = {**self.environment, **order["env"]}
        pid = spawn(order["argv"], env, stdout=files[0], stderr=files[1], cwd=order["cwd"])
        for descriptor in files:
            os.close(descriptor)
        self._commands[pid] = order["id"]

    def _say(self, **message: Any) -> None:
        try:
            self._control.send(json.dumps(message).encode())
        except (BrokenPipeError, ConnectionResetError):
            os._exit(1)

    # --- systemctl and its friends ---

    def _accept(self, client: socket.socket) -> None:
        def answer(code: int, text: str) -> None:
            try:
                client.sendall(json.dumps({"code": code, "text": text}).encode() + b"\n")
            except OSError:
                pass  # whoever asked did not wait for the answer
            client.close()

        def read() -> None:
            data = client.makefile("rb").readline()
            self._selector.unregister(client)
            try:
                self._asked(json.loads(data), answer)
            except (UnitError, OSError, ValueError, KeyError) as error:
                answer(1, str(error))

        self._selector.register(client, selectors.EVENT_READ, read)

    def _asked(self, request: dict[str, Any], reply: Reply) -> None:
        names = [full_name(name) for name in request.get("units", [])]
        match request["verb"]:
            case "start":
                self.start_units(names, reply)
            case "stop":
                self._each([self._units[n] for n in names if n in self._units], Service.stop, reply)
            case "restart":
                self._restart_units(names, reply)
            case "reload":
                self._each([self._loaded(name) for name in names], Service.reload, reply)
            case "kill":
                for name in names:
                    self._loaded(name).kill(signal_number(request["signal"]), request["whom"])
                reply(0, "")
            case "reset-failed":
                for unit in [self._units[n] for n in names if n in self._units] or list(self._units.values()):
                    unit.reset_failed()
                reply(0, "")
            case "states":
                reply(0, json.dumps([self._facts(name) for name in names or sorted(self._units)]))
            case "run":
                self._run_transient(request, reply)
            case "poweroff":
                self._schedule_poweroff(request["seconds"], request["reason"], request["reboot"])
                reply(0, "")
            case "cancel-poweroff":
                if self._scheduled is not None:
                    self._scheduled.cancelled = True
                reply(0, "")
            case verb:
                reply(1, f"Unknown command verb {verb}.")

    def _loaded(self, name: str) -> Service | TimerUnit:
        if name not in self._units:
            raise UnitError(f"Unit {name} not loaded.")
        return self._units[name]

    def _each(self, units: list[Any], act: Callable[[Any, Reply], None], reply: Reply) -> None:
        if not units:
            reply(0, "")
        for unit, each in zip(units, _gather(len(units), lambda code, text: reply(0, text)), strict=True):
            getattr(unit, act.__name__)(each)

    def _restart_units(self, names: list[str], reply: Reply) -> None:
        running = [self._units[name] for name in names if name in self._units]
        self._each(running, Service.stop, lambda code, text: self.start_units(names, reply))

    def _facts(self, name: str) -> dict[str, Any]:
        unit = self._units.get(name)
        try:
            file: UnitFile | None = unit.unit if unit else find_unit(name)
        except UnitError:
            file = None
        return {
            "Id": name,
            "Description": file.get("Unit", "Description", name) if file else name,
            "LoadState": "loaded" if file else "not-found",
            "ActiveState": unit.state if unit else "inactive",
            "SubState": _sub_state(unit),
            "Result": unit.result if unit else "success",
            "ExecMainStatus": str(abs(unit.exit_status)) if unit else "0",
            "MainPID": str(unit.main_pid) if unit else "0",
            "UnitFileState": "enabled" if name in enabled_units() else "disabled",
            "InvocationID": unit.invocation if unit else "",
        }

    def _run_transient(self, request: dict[str, Any], reply: Reply) -> None:
        name = full_name(request["unit"])
        if name in self._units and self._units[name].state not in ("inactive", "failed"):
            reply(1, f"Failed to start transient service unit: Unit {name} was already loaded or has a fragment file.")
            return
        unit = parse_unit(name, request["text"])
        service = Service(self, unit)
        service.transient = True
        self._units[name] = service
        if request["delay"] is not None:
            self.after(request["delay"], lambda: service.start(lambda code, text: None))
            reply(0, f"Running timer as unit: {name.removesuffix('.service')}.timer")
        elif request["wait"]:
            service.wait_for_end(reply)
            service.start(lambda code, text: None)
        else:
            service.start(lambda code, text: reply(code, text or f"Running as unit: {name}"))

    # --- the ends ---

    def _start_user_data(self) -> None:
        """A user data script runs once in an instance's life, as root; cloud-init's other formats are not known here."""
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
            "StandardOutput=append:/var/log/cloud-init-output.log\n",
        )
        service = Service(self, unit)
        service.transient = True
        self._units[unit.name] = service
        service.start(lambda code, text: None)

    def _schedule_poweroff(self, pause: float, reason: str, reboot: bool) -> None:
        if self._scheduled is not None:
            self._scheduled.cancelled = True
        self._scheduled = self.after(pause, lambda: self._power_off(reason, reboot=reboot))

    def _power_off(self, reason: str, *, reboot: bool) -> None:
        if self.going_down:
            return
        self.going_down = True
        self._queued.clear()
        self.print(f"systemd: {'rebooting' if reboot else 'powering off'}: {reason}")
        self._say(event="powering-off", reason=reason, reboot=reboot)
        for unit in self._units.values():
            if unit.state in ("active", "activating"):
                unit.stop(lambda code, text: None)
        for pid in self._commands:
            send(pid, signal.SIGTERM)
        self._finish_if_quiet()

    def _finish_if_quiet(self) -> None:
        """When every unit has ended, the rest gets a moment after SIGTERM; then there is nothing left to lose."""
        if any(unit.state in ("deactivating", "activating") for unit in self._units.values()):
            return
        others = [entry for entry in os.listdir("/proc") if entry.isdigit() and entry != "1"]
        if not others:
            self._halt()
        elif self._scheduled is None or self._scheduled.then != self._halt:
            signal_all(signal.SIGTERM)
            self._scheduled = self.after(POWEROFF_SECONDS, self._halt)

    def _halt(self) -> None:
        os.sync()
        self.print("systemd: down")
        os._exit(0)

    # --- time ---

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


def signal_all(number: int) -> None:
    """To every process but init itself."""
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        pass  # there is none


def _gather(count: int, reply: Reply) -> list[Reply]:
    """`count` replies that become one: the first failure, or success when all have succeeded."""
    left, answered = count, False

    def each(code: int, text: str) -> None:
        nonlocal left, answered
        left -= 1
        if not answered and (code != 0 or left == 0):
            answered = True
            reply(code, text)

    return [each] * count


def _sub_state(unit: Service | TimerUnit | None) -> str:
    if unit is None:
        return "dead"
    if unit.state == "active":
        return "waiting" if isinstance(unit, TimerUnit) else "running" if unit.main_pid else "exited"
    return {"inactive": "dead", "failed": "failed"}.get(unit.state, unit.state)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    host = json.loads((HOME / "host.json").read_text())
    (HOME / "host.json").unlink()
    Init(control, host).run()


if __name__ == "__main__":
    main()
