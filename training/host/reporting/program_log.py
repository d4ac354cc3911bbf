"""The log of one program: what it prints, and what the agent adds about what happens around it.

A full disk keeps nobody from going on: lines that cannot be stamped wait in the program's own file.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from training.host.bucket import Bucket
from training.host.paths import Paths
from training.host.program.secrets import Hider
from training.host.reporting import lines, logs
from training.host.reporting.chunks import LogUpload
from training.host.reporting.logs import StampedLog
from trainyard.protocol import keys
from trainyard.protocol.cluster import Assignment, Cluster

TAIL_BYTES = 256 * 1024
"""Of the log's end: progress bars take most of it."""
TAIL_CHARACTERS = 16 * 1024

logger = logging.getLogger(__name__)


class ProgramLog:
    """`path` is where the program prints to. `hear` and `hear_open` are called with its lines (StampedLog)."""

    def __init__(
        self,
        cluster: Cluster,
        assignment: Assignment,
        *,
        paths: Paths,
        bucket: Bucket,
        hear: Callable[[str], None] = logs.ignore,
        hear_open: Callable[[str], None] = logs.ignore,
    ) -> None:
        number, name = cluster.attempt, assignment.name
        self.path: Path = paths.program_log(number, assignment.role, assignment.index)
        self._hide = Hider({})
        self._stamped = StampedLog(
            self.path,
            paths.stamped_log(number, assignment.role, assignment.index),
            f"{name} {assignment.instance}",
            hear=hear,
            hear_open=hear_open,
        )
        self._upload = LogUpload(bucket, self._stamped, f"{keys.logs(cluster.run, number)}{name}/")

    def hide(self, values: Mapping[str, str]) -> None:
        """Leave these secrets out of all that others read of the log."""
        self._stamped.hide = self._hide = Hider(values)

    def note(self, text: str) -> None:
        """A line of the agent's own."""
        logger.info("%s", text)
        try:
            logs.note(self.path, text)
        except OSError as error:
            logger.warning("the program's log cannot be written: %s", error)

    def stamp(self, now: datetime) -> None:
        try:
            self._stamped.stamp(now)
        except OSError as error:
            logger.warning("the program's log cannot be stamped: %s", error)

    def send(self, now: float, *, last: bool) -> None:
        self._upload.send(now, last=last)

    @property
    def size(self) -> int:
        return logs.size_of(self.path)

    def without_secrets(self, text: str) -> str:
        """Return the text as the log shows it."""
        return self._hide(text)

    @property
    def tail(self) -> str:
        """The last lines as plain text."""
        return self._hide(lines.plain(logs.end_of(self.path, TAIL_BYTES)))[-TAIL_CHARACTERS:]
