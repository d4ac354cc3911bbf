"""What must be on the disk before a program starts: checkpoint, data, outputs, logs of earlier attempts."""

import logging
import math
from collections.abc import Callable
from typing import TypeVar

from training.host.account import NOBODY_ELSE
from training.host.agent.deadlines.notice import (
    Leaving,
)
from training.host.agent.insistence import (
    Insistence,
    is_unreachable,
)
from training.host.agent.listening import Listening
from training.host.agent.outputs import Outputs
from training.host.agent.surroundings import Surroundings
from training.host.checkpoints.restore import Restored, restore
from training.host.checkpoints.upload import CheckpointUpload
from training.host.data import keras_home
from training.host.data.fetch import fetch_shares
from training.host.errors import HostTrouble
from training.host.program import secrets
from training.host.reporting import history
from trainyard.protocol import keys
from trainyard.protocol.tags import Tag

logger = logging.getLogger(__name__)
Value = TypeVar("Value")


class LeftUnstarted(Exception):  # noqa: N818 - no error: the attempt was to leave before its program ran
    """The attempt has to leave while a service that its program needs cannot be reached."""

    def __init__(self, leaving: Leaving) -> None:
        super().__init__(leaving.in_words)
        self.leaving = leaving


class Preparation:
    """Brings an attempt to the moment at which its program can start."""

    def __init__(
        self, around: Surroundings, listening: Listening, checkpoints: CheckpointUpload, outputs: Outputs
    ) -> None:
        self._around, self._listening = around, listening
        self._checkpoints, self._outputs = checkpoints, outputs

    def fetch_secrets(self) -> dict[str, str]:
        """Return the values of `program.secrets` by variable."""
        return secrets.fetch(
            self._around.job.program.secrets,
            yard=self._around.identity.tags[Tag.YARD],
            client=self._around.ssm,
        )

    def prepare(self) -> str | None:
        """What must be on the disk before the program starts; why another checkpoint than the one named, if so."""
        asked = self._around.cluster.checkpoint
        alone = self._around.cluster.restores_alone(self._around.assignment)

        def restore_checkpoint() -> Restored:
            with self._around.account.acting():
                return restore(
                    self._around.bucket, self._around.cluster.run, asked, self._around.paths, alone=alone
                )

        def fetch_data() -> None:
            with self._around.account.acting():
                fetch_shares(
                    self._around.bucket,
                    self._around.cluster,
                    self._around.assignment,
                    self._around.job,
                    self._around.paths,
                    given_up=lambda: bool(self._around.order_to_leave()),
                )

        restored = self.get("restoring its checkpoint", restore_checkpoint)
        self._checkpoints.last = restored.checkpoint
        self._around.note_checkpoint(restored.checkpoint)
        self.get("fetching its data", fetch_data)
        with self._around.account.acting():
            self._around.paths.results.mkdir(exist_ok=True)
            keras_home.link(self._around.paths)
        self.get("restoring its outputs", self._outputs.begin)
        if self._around.assignment.is_chief:
            self._restore_history()
            # the number of a counted checkpoint is no step of the program's, and outputs have none
            counted = bool(restored.checkpoint.folder) or self._outputs.restored > 0
            up_to = math.inf if counted else restored.checkpoint.step
            self.get("reading its curve", lambda: self._listening.metrics.begin(up_to=up_to, begins=counted))
        fresh_start = "no checkpoint to restore" if self._outputs.restored else "a fresh start"
        what = f"restore {restored.called}" if asked else fresh_start
        if restored.instead:
            self._listening.log.note(restored.instead)
        if not self._around.account.is_another:
            logger.info(NOBODY_ELSE)
        self._listening.log.note(
            f"attempt {self._around.cluster.attempt} on {self._around.assignment.instance}: {what}"
        )
        return restored.instead

    def _restore_history(self) -> None:
        """A run does without the logs of its earlier attempts if they cannot be fetched."""
        if self._around.cluster.attempt == 1:
            return

        def fetch_history() -> None:
            with self._around.account.acting():
                history.restore(
                    self._around.bucket,
                    keys.tensorboard(self._around.cluster.run),
                    self._around.paths.tensorboard,
                )

        try:
            self.get("fetching the logs of earlier attempts", fetch_history)
        except (HostTrouble, OSError) as trouble:
            self._listening.log.note(
                f"what earlier attempts left in ${{tensorboard}} is not restored: {trouble}"
            )

    def get(self, what: str, act: Callable[[], Value]) -> Value:
        """Return what `act` returns, and try again while a service cannot be reached. Raises its other troubles, and
        LeftUnstarted once the attempt has to leave."""
        insistence = Insistence(
            has_to_end=lambda: leaving.in_words if (leaving := self._around.order_to_leave()) else None,
            until=lambda: min(self._around.cluster.deadline, self._around.watchdog.lease.until),
            note=self._listening.log.note,
            disk_trouble=self._around.disk.trouble,
            passes=is_unreachable,
        )
        try:
            return insistence.get(what, act)
        except HostTrouble as trouble:
            if not trouble.final and (leaving := self._around.order_to_leave()):
                raise LeftUnstarted(leaving) from trouble
            raise
