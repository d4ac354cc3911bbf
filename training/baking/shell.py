"""Commands on the builder: what they print goes to its log as it comes, and none outlives the time it has."""

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
    """`output` is all that was printed; `reason` says why the code is not 0."""

    code: int
    output: str
    reason: str = ""

    @property
    def is_good(self) -> bool:
        return self.code == 0

    def last_lines(self, most: int = LAST_LINES) -> str:
        """In one sentence's place."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return " / ".join(lines[-most:]) or "(it printed nothing)"


class Shell:
    """Everything runs as root, in root's home, with the hosts' Python first on its PATH.

    `until` is an instant of time.monotonic(): a command that runs then is killed with all it has started."""

    def __init__(self, log: BuilderLog, paths: Paths, *, until: float) -> None:
        self._log = log
        self._paths = paths
        self._until = until

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self._paths.python.parent}:{os.environ.get('PATH', '/usr/sbin:/usr/bin:/sbin:/bin')}"
        return {**os.environ, "PATH": path, "HOME": "/root"}

    def line(self, line: str, *, seconds: float | None = None) -> CommandResult:
        """A line of the recipe's, by `/bin/sh -eu`."""
        return self.run(["/bin/sh", "-eu", "-c", line], seconds=seconds)

    def run(
        self,
        command: Sequence[str],
        *,
        seconds: float | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> CommandResult:
        """The command, ended. What it started and left behind, a service for one, goes on."""
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
        """The command, running in a session of its own. Raises HostTrouble when there is no such command."""
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
    """It and all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended, which is what was wanted
    process.wait()


def _ending(code: int) -> str:
    return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _home() -> Path:
    root = Path("/root")
    return root if os.access(root, os.X_OK) else Path("/")
