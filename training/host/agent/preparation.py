"""Prepare the disk before a program starts: checkpoint, data, outputs, and logs of earlier attempts."""

import logging
import math
from collections.abc import Callable
from typing import TypeVar

from training.host.account import ONE_ACCOUNT_ONLY
from training.host.agent.context import Context
from training.host.agent.deadlines.drain import (
    Drain,
)
from training.host.agent.monitor import Monitor
from training.host.agent.mounts import Mounts
from training.host.agent.outputs import Outputs
from training.host.agent.retries import (
    Retries,
    is_unreachable,
)
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


class LeftUnstarted(Exception):  # noqa: N818 - not an error: the attempt had to leave before its program ran
    """The attempt has to leave while a service that its program needs cannot be reached."""

    def __init__(self, drain: Drain) -> None:
        super().__init__(drain.described)
        self.drain = drain


class Preparation:
    """The steps of an attempt before its program can start."""

    def __init__(
        self,
        context: Context,
        monitor: Monitor,
        checkpoints: CheckpointUpload,
        outputs: Outputs,
        mounts: Mounts,
    ) -> None:
        self._context, self._monitor, self._mounts = context, monitor, mounts
        self._checkpoints, self._outputs = checkpoints, outputs

    def fetch_secrets(self) -> dict[str, str]:
        """Return the values of `program.secrets` by variable."""
        return secrets.fetch(
            self._context.job.program.secrets,
            yard=self._context.identity.tags[Tag.YARD],
            client=self._context.ssm,
        )

    def prepare(self) -> str | None:
        """Fetch everything that the program needs. Return why another checkpoint than the named one was restored, or
        None."""
        asked = self._context.cluster.checkpoint
        alone = self._context.cluster.restores_alone(self._context.assignment)

        def restore_checkpoint() -> Restored:
            with self._context.account.act():
                return restore(
                    self._context.bucket, self._context.cluster.run, asked, self._context.paths, alone=alone
                )

        def fetch_data() -> None:
            with self._context.account.act():
                fetch_shares(
                    self._context.bucket,
                    self._context.cluster,
                    self._context.assignment,
                    self._context.job,
                    self._context.paths,
                    given_up=lambda: bool(self._context.order_to_leave()),
                )

        restored = self.get("restoring its checkpoint", restore_checkpoint)
        self._checkpoints.last = restored.checkpoint
        self._context.note_checkpoint(restored.checkpoint)
        self.get("fetching its data", fetch_data)
        self.get("mounting its data", self._mounts.mount)
        with self._context.account.act():
            self._context.paths.results.mkdir(exist_ok=True)
            keras_home.link(self._context.paths)
        self.get("restoring its outputs", self._outputs.begin)
        if self._context.assignment.is_chief:
            self._restore_history()
            # the number of a counted checkpoint is not a step of the program, and outputs have no step
            counted = bool(restored.checkpoint.folder) or self._outputs.restored > 0
            up_to = math.inf if counted else restored.checkpoint.step
            self.get("reading its curve", lambda: self._monitor.begin(up_to=up_to, begins=counted))
        fresh_start = "no checkpoint to restore" if self._outputs.restored else "a fresh start"
        what = f"restore {restored.called}" if asked else fresh_start
        if restored.instead:
            self._monitor.log.note(restored.instead)
        if not self._context.account.is_another:
            logger.info(ONE_ACCOUNT_ONLY)
        self._monitor.log.note(
            f"attempt {self._context.cluster.attempt} on {self._context.assignment.instance}: {what}"
        )
        return restored.instead

    def _restore_history(self) -> None:
        """Fetch the logs of earlier attempts. A run continues without them if that fails."""
        if self._context.cluster.attempt == 1:
            return

        def fetch_history() -> None:
            with self._context.account.act():
                history.restore(
                    self._context.bucket,
                    keys.tensorboard(self._context.cluster.run),
                    self._context.paths.tensorboard,
                )

        try:
            self.get("fetching the logs of earlier attempts", fetch_history)
        except (HostTrouble, OSError) as trouble:
            self._monitor.log.note(
                f"the logs of earlier attempts in ${{tensorboard}} are not restored: {trouble}"
            )

    def get(self, what: str, act: Callable[[], Value]) -> Value:
        """Return the result of `act`. Retry while a service cannot be reached. Raises its other troubles, and
        LeftUnstarted once the attempt has to leave."""
        retries = Retries(
            has_to_end=lambda: drain.described if (drain := self._context.order_to_leave()) else None,
            until=lambda: min(self._context.cluster.deadline, self._context.watchdog.lease.until),
            note=self._monitor.log.note,
            disk_trouble=self._context.disk.trouble,
            passes=is_unreachable,
        )
        try:
            return retries.get(what, act)
        except HostTrouble as trouble:
            if not trouble.final and (drain := self._context.order_to_leave()):
                raise LeftUnstarted(drain) from trouble
            raise
