"""A yard on this machine: the local cloud through its command, and `scripts/deploy` into it."""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import boto3

from scripts.assembly import SOURCES, fingerprint_of
from trainyard.cli.clone import port_for as port_for
from trainyard.cli.output.terminal import console, print_line, quote
from trainyard.client import Session, Yard
from trainyard.client.errors import NotHere, YardNotFound, YardOfAnotherVersion

ROOT = Path(__file__).resolve().parent.parent
TOOLS = os.pathsep.join(str(ROOT / folder) for folder in (".tools/bin", ".venv/bin"))
CHOICES = ("-c", "look_seconds=20", "-c", "bake_on_deploy=false")
"""Settings for local yards.

Bakes on a local cloud take minutes, so a lost event is noticed early; the demo bakes itself.
"""


@dataclass(frozen=True)
class Cloud:
    """The local cloud of a state folder. This class keeps no state: `status` tells if the cloud is up."""

    state: Path
    port: int
    settings: Path | None = None
    yard_settings: tuple[str, ...] = ()
    """Settings for `cdk deploy`, after CHOICES."""

    def is_up(self) -> bool:
        """Return True if the cloud of this state folder answers."""
        return self._command("status", check=False).returncode == 0

    def up(self) -> None:
        """Start the cloud in the background. It is ready when this returns."""
        settings = ["--settings", str(self.settings)] if self.settings else []
        self._command("up", "--detach", "--port", str(self.port), *settings)

    def down(self) -> None:
        """Stop the cloud and everything in it. Has no effect on a stopped cloud."""
        self._command("down")

    def environment(self) -> dict[str, str]:
        """Return the variables for clients, as `python -m localcloud env` prints them."""
        exports = [shlex.split(line) for line in self._command("env").stdout.splitlines()]
        pairs = [word.partition("=") for words in exports for word in words if "=" in word]
        return {name: value for name, _, value in pairs}

    def session(self) -> Session:
        """Return a session with this cloud's credentials and endpoint, without the user's own settings."""
        environment = self.environment()
        boto = boto3.Session(
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=environment.get("AWS_SESSION_TOKEN"),
            region_name=environment.get("AWS_REGION") or environment["AWS_DEFAULT_REGION"],
        )
        return Session(boto, environment["AWS_ENDPOINT_URL"])

    def fault(self, *words: str) -> str:
        """Run `python -m localcloud fault ...` and return its output."""
        return self._command("fault", *words).stdout

    def deploy(self) -> Yard:
        """Return the yard of the current sources. Deploys only if they have changed since the last deployment."""
        fingerprint = fingerprint_of(ROOT / source for source in SOURCES)
        stamp = self.state / "deployed"
        try:
            yard = Yard.find(session=self.session())
            if stamp.exists() and stamp.read_text() == fingerprint:
                print_line("  deployed already, and nothing of it has changed")
                return yard
        except (YardNotFound, YardOfAnotherVersion):
            pass
        stamp.unlink(missing_ok=True)  # a failed deployment may leave some stacks unchanged
        self._deploy()
        stamp.write_text(fingerprint)
        return Yard.find(session=self.session())

    def _deploy(self) -> None:
        """Run the script. Print its output if it fails."""
        log = self.state / "deploy.log"
        settings = {
            "ASSEMBLY": str(self.state / "cdk.out"),
            "OUTPUTS": str(self.state / "outputs.json"),
            "CI": "true",
        }
        with console.status("cdk deploy ..."), log.open("w") as lines:
            done = subprocess.run(
                [str(ROOT / "scripts" / "deploy"), *CHOICES, *self.yard_settings],
                cwd=ROOT,
                env=client_environment(self.environment()) | settings,
                stdin=subprocess.DEVNULL,
                stdout=lines,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            quote("\n".join(log.read_text().splitlines()[-40:]))
            raise NotHere(
                f"the deployment failed with exit code {done.returncode}",
                f"its last lines are above, and {log} has all of them",
                "correct the cause; `make demo` continues from there",
            )

    def _command(self, verb: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "localcloud", verb, *arguments, "--state", str(self.state)]
        done = subprocess.run(
            command, cwd=ROOT, env=client_environment({}), capture_output=True, text=True, check=False
        )
        if check and done.returncode != 0:
            quote(done.stdout + done.stderr)
            raise NotHere(
                f"`localcloud {verb}` failed with exit code {done.returncode}",
                f"its output is above, its log in {self.state}/",
                shlex.join(["python", *command[1:]]),
            )
        return done


def client_environment(cloud: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with the pinned commands first and with AWS settings only from `cloud`.

    The user's AWS profile and keys are removed, so that calls for the local cloud never reach an account.
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
