"""Run commands on the builder. Their output goes to its log at once, and each has a time limit."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from training.baking.log import BuilderLog
from training.host.errors import HostTrouble
from training.host.paths import Paths
from training.host.reporting.lines import plain

LAST_LINES = 6
KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command."""

    code: int
    output: str
    reason: str = ""
    """Why the code is not 0."""

    @property
    def is_good(self) -> bool:
        return self.code == 0

    def last_lines(self, most: int = LAST_LINES) -> str:
        """Return the last lines of the output, joined for use in a sentence."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return " / ".join(lines[-most:]) or "(it printed nothing)"


class Shell:
    """Runs commands as root, in root's home, with the hosts' Python first on the PATH.

    `until` is an instant of time.monotonic(). A command that still runs then is killed with all its processes."""

    def __init__(self, log: BuilderLog, paths: Paths, *, until: float) -> None:
        self._log = log
        self._paths = paths
        self._until = until

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self._paths.python.parent}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
        return {**os.environ, "PATH": path, "HOME": "/root"}

    def line(self, line: str, *, seconds: float | None = None) -> CommandResult:
        """Run a line of the recipe with `/bin/sh -eu`."""
        return self.run(["/bin/sh", "-eu", "-c", line], seconds=seconds)

    def run(
        self,
        command: Sequence[str],
        *,
        seconds: float | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> CommandResult:
        """Run a command to its end. Processes that it leaves behind, such as a service, continue."""
        begun, start = time.monotonic(), self._log.size
        process = self.start(command, cwd=cwd, environment=environment)
        left = max(0.0, self._until - begun)
        patience = left if seconds is None else min(left, seconds)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            end(process)
            return CommandResult(
                KILLED, self._output(start), f"it was still running after {patience:.0f} seconds"
            )
        reason = "" if code == 0 else _ending(code)
        return CommandResult(code, self._output(start), reason)

    def start(
        self, command: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start a command in its own session. Raises HostTrouble if it does not exist."""
        with self._log.path.open("ab") as out:
            try:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=cwd or _home(),
                    env={**self.environment, **environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise HostTrouble(f"{command[0]} could not be started on this builder: {error}") from error

    def _output(self, start: int) -> str:
        return plain(self._log.since(start))


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and all processes of its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has already ended
    process.wait()


def _ending(code: int) -> str:
    return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _home() -> Path:
    root = Path("/root")
    return root if os.access(root, os.X_OK) else Path("/")
