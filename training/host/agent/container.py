"""The container image of a run on this host: pulled once, recalled after a restart of the agent, kept when warm."""

import logging
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import boto3

from training.host.account import Account
from training.host.container import driver, kept
from training.host.container.inside import Inside
from training.host.container.pull import Image, digest_for, pull, recall, version_for
from training.host.errors import Missing
from training.host.metadata import Identity
from training.host.paths import Paths
from training.host.program.container_login import of_run
from trainyard.core.model.job import Job
from trainyard.protocol.containers import Container
from trainyard.protocol.signals import Pulling, Signal

SIGNAL_SECONDS = 30.0

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

    def tell(self, line: str) -> None:
        """Report the progress of the pull."""
        logger.info("the image: %s", line)
        self.pulled = line
        if time.monotonic() - self._sent >= SIGNAL_SECONDS:
            self._sent = time.monotonic()
            self.send(Pulling(reason=f"the image: {line}"))

    def provide(self, job: Job) -> Inside | None:
        """Return the program's container, pulled; None for a job without one. Raises the errors of a
        pull."""
        container = job.program.container
        if container is None:
            return None
        if recalled := self._recall(container):
            return recalled
        kept.give(digest_for(container), self.paths, self.account)
        kept.make_room(self.paths)
        self._sent = time.monotonic()
        registry = of_run(self.identity, self.session).open(
            container, stopped=lambda: bool(self.has_to_leave())
        )
        with self.account.act():
            image = pull(registry, version_for(container), self.paths.containers, tell=self.tell)
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
