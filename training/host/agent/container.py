"""The container image of a run on this host: pulled once, recalled after a restart of the agent, kept when warm."""

import base64
import logging
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from training.host.account import Account
from training.host.container import driver, kept
from training.host.container.inside import Inside, clear_changes
from training.host.container.pull import Image, pull, recall
from training.host.container.registry import Login, Registry
from training.host.credentials import CALLS
from training.host.errors import HostTrouble, Missing, ProgramFault, Unreachable
from training.host.metadata import Identity
from training.host.outages import is_passing_error
from training.host.paths import Paths
from training.host.program import secrets
from training.host.program.packages import INSTALL_SECONDS, UNREACHABLE, error_lines
from training.host.program.process import enter_command, handed_over
from training.host.program.tasks import most_tasks
from trainyard.core.model.job import Job
from trainyard.protocol.containers import Container
from trainyard.protocol.signals import Pulling, Signal
from trainyard.protocol.tags import Tag

ASKS = "ecr:GetAuthorizationToken"
SIGNAL_SECONDS = 30.0
READS = "ecr:BatchGetImage and ecr:GetDownloadUrlForLayer"

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Images:
    """Pulls the image of a run, with the run's own credentials."""

    paths: Paths
    account: Account
    identity: Identity
    session: boto3.Session
    """The session with the run's credentials."""
    _: KW_ONLY
    has_to_leave: Callable[[], object]
    """Returns a reason once the host has to leave."""
    send: Callable[[Signal], None]
    pulled: str | None = None
    """The last line about the pull."""
    _sent: float = 0.0
    """When the last signal about a pull was sent."""

    def client(self, service: str, region: str | None = None) -> Any:
        return self.session.client(service, region_name=region, config=CALLS)

    def tell(self, line: str) -> None:
        """Report the progress of the pull."""
        logger.info("the image: %s", line)
        self.pulled = line
        if time.monotonic() - self._sent >= SIGNAL_SECONDS:
            self._sent = time.monotonic()
            self.send(Pulling(reason=f"the image: {line}"))

    def provide(self, job: Job) -> Inside | None:
        """Return the program's container, pulled and with the program's packages; None for a job without one. Raises
        the errors of a pull."""
        container = job.program.container
        if container is None:
            return None
        if recalled := self._recall(container):
            return recalled
        kept.give(_digest(container), self.paths, self.account)
        kept.make_room(self.paths)
        self._sent = time.monotonic()
        with self.account.act():
            image = pull(
                self._registry(container), _version(container), self.paths.containers, tell=self.tell
            )
        self._pulled.write_text(image.digest)
        return self._inside(container, image)

    def recall(self, job: Job) -> Inside | None:
        """Return the container of a run whose image `provide` has pulled. Raises Missing if it is gone."""
        container = job.program.container
        if container is None:
            return None
        recalled = self._recall(container)
        if recalled is None:
            raise Missing(f"the image {container.image} was removed from this host: submit the run again")
        return recalled

    def _recall(self, container: Container) -> Inside | None:
        image = recall(self.paths.containers, self._pulled.read_text()) if self._pulled.exists() else None
        return self._inside(container, image) if image else None

    def install(self, job: Job, inside: Inside | None) -> None:
        """Install the program's packages with the image's Python. Raises ProgramFault or Unreachable."""
        requirements = job.program.requirements
        if inside is None or requirements is None:
            return
        clear_changes(self.paths, self.account)
        environment = inside.variables(os.environ) | {"PATH": inside.path, "HOME": str(self.paths.home)}
        venv = [
            inside.python,
            "-m",
            "venv",
            "--system-site-packages",
            "--without-pip",
            str(self.paths.venv),
        ]
        self._run(inside, venv, environment, "creating the run's environment with the image's Python")
        pip = [
            str(self.paths.venv / "bin/python"),
            "-m",
            "pip",
            "install",
            "--no-input",
            "--no-color",
            "--quiet",
        ]
        install = [*pip, "--disable-pip-version-check", "--requirement", requirements]
        self._run(inside, install, environment, f"installing {requirements}")

    def note(self, inside: Inside | None) -> None:
        """Note the files of the image, so that a warm host can keep it."""
        if inside:
            kept.note(inside.image.digest, self.paths)

    @property
    def _pulled(self) -> Path:
        """The file with the digest of this run's image."""
        return self.paths.work / "pulled-image"

    def _inside(self, container: Container, image: Image) -> Inside:
        return Inside(container=container, image=image, driver=driver.find(self.paths))

    def _run(self, inside: Inside, words: list[str], environment: Mapping[str, str], doing: str) -> None:
        entrance = inside.entrance(self.paths, self.account, has_source=True, most_tasks=most_tasks())
        with handed_over(environment) as given:
            try:
                done = subprocess.run(
                    enter_command(entrance, words),
                    check=False,
                    stdin=given,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=INSTALL_SECONDS,
                    env={"PATH": os.defpath},
                )
            except subprocess.TimeoutExpired as error:
                raise ProgramFault(
                    f"{doing} took longer than {INSTALL_SECONDS} seconds", final=False
                ) from error
        if done.returncode:
            output = done.stderr.strip() or done.stdout
            lines = " / ".join(error_lines(output))
            if UNREACHABLE.search(output):
                raise Unreachable(f"{doing} failed: {lines}; this host could not reach a package index")
            raise ProgramFault(f"{doing} failed: {lines}")

    # -------------------------------------------------------------------------------------------------------- registry

    def _registry(self, container: Container) -> Registry:
        reference = container.reference
        known: list[Login] = []

        def log_in() -> Login:
            if not known:
                known.append(self._login(container))
            return known[0]

        return Registry(
            url=f"https://{reference.address}",
            repository=reference.repository,
            name=reference.name,
            login=log_in,
            stopped=lambda: bool(self.has_to_leave()),
        )

    def _login(self, container: Container) -> Login:
        reference = container.reference
        if reference.ecr:
            return self._login_to_ecr(reference.ecr["region"])
        if container.login:
            found = secrets.fetch(
                {"LOGIN": container.login},
                yard=self.identity.tags[Tag.YARD],
                client=lambda: self.client("ssm"),
            )
            advice = (
                f"store the current `user:password` in the secret {container.login}, which program.container.login "
                "names"
            )
            return Login(basic=found["LOGIN"].strip(), advice=advice)
        return Login()

    def _login_to_ecr(self, region: str) -> Login:
        advice = (
            f"the role of runs needs {READS} there: list the repository in the setting registries; a repository of "
            "another account must allow it in its own policy, too"
        )
        try:
            answer = self.client("ecr", region).get_authorization_token()
        except ClientError as error:
            if is_passing_error(error):
                raise Unreachable(f"{ASKS} failed: {error}") from error
            raise HostTrouble(f"{ASKS} failed: {error}; {advice}", final=True) from error
        except BotoCoreError as error:
            raise Unreachable(f"{ASKS} failed: {error}") from error
        token = answer["authorizationData"][0]["authorizationToken"]
        return Login(basic=base64.b64decode(token).decode(), advice=advice)


def _version(container: Container) -> str:
    """Return the digest to pull, or the tag if Admit could not reach the registry."""
    return _digest(container) or container.digest or container.reference.version


def _digest(container: Container) -> str:
    """Return the digest of the manifest for this machine that Admit has pinned; empty without one."""
    machine = "arm64" if os.uname().machine == "aarch64" else os.uname().machine
    found = container.for_machine(machine)
    return found.digest if found else ""
