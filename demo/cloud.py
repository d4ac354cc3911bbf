"""The local cloud as its user sees it: a command that starts it, stops it and names its environment."""

import os
import shlex
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from demo.say import DemoError, quote

ROOT = Path(__file__).resolve().parent.parent
TOOLS = os.pathsep.join(str(ROOT / folder) for folder in (".tools/bin", ".venv/bin"))


@dataclass(frozen=True)
class Cloud:
    """The local cloud of one state folder. Nothing is kept here: whether it is up is what `status` says."""

    state: Path
    port: int
    facts: Path | None = None

    def is_up(self) -> bool:
        """True when the cloud of this state folder answers."""
        return self._command("status", check=False).returncode == 0

    def up(self) -> None:
        """Start it in the background, ready for calls when this returns."""
        facts = ["--facts", str(self.facts)] if self.facts else []
        self._command("up", "--detach", "--port", str(self.port), *facts)

    def down(self) -> None:
        """Stop it and everything in it. Twice is fine."""
        self._command("down")

    def environment(self) -> dict[str, str]:
        """The variables a client needs, as `python -m localcloud env` prints them."""
        exports = [shlex.split(line) for line in self._command("env").stdout.splitlines()]
        pairs = [word.partition("=") for words in exports for word in words if "=" in word]
        return {name: value for name, _, value in pairs}

    def fault(self, *words: str) -> str:
        """`python -m localcloud fault ...`; answers what it printed."""
        return self._command("fault", *words).stdout

    def _command(self, verb: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "localcloud", verb, *arguments, "--state", str(self.state)]
        done = subprocess.run(
            command, cwd=ROOT, env=client_environment({}), capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            quote(done.stdout + done.stderr)
            raise DemoError(
                f"`localcloud {verb}` failed with exit code {done.returncode} (its words are above)",
                f"look at {self.state}/ for its log, or run: {shlex.join(['python', *command[1:]])}",
            )
        return done


def client_environment(cloud: dict[str, str]) -> dict[str, str]:
    """This process's environment with the pinned commands first and AWS settings only from `cloud`.

    The user's own AWS profile and keys are left out: what is meant for the local cloud must never reach
    an account.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nothing = str(ROOT / ".tools" / "no-such-file")
    return own | {
        "PATH": TOOLS + os.pathsep + own.get("PATH", ""),
        "AWS_CONFIG_FILE": nothing,
        "AWS_SHARED_CREDENTIALS_FILE": nothing,
        "AWS_EC2_METADATA_DISABLED": "true",
        **cloud,
    }


def port_for(wanted: int) -> int:
    """`wanted` if nobody listens there, else a free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DemoError("no free port on 127.0.0.1", "stop something that listens there")
