"""The log of one program: its output, and the agent's lines about it.

A full disk does not stop the run: lines that cannot be stamped wait in the program's own file.
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
"""Bytes of the log's end that are read for its last lines. Progress bars take most of them."""
TAIL_CHARACTERS = 16 * 1024

logger = logging.getLogger(__name__)


class ProgramLog:
    """The log of one program, which writes to `path`. `on_line` and `on_open_line`: see StampedLog."""

    def __init__(
        self,
        cluster: Cluster,
        assignment: Assignment,
        *,
        paths: Paths,
        bucket: Bucket,
        on_line: Callable[[str], None] = logs.ignore,
        on_open_line: Callable[[str], None] = logs.ignore,
    ) -> None:
        number, name = cluster.attempt, assignment.name
        self.path: Path = paths.program_log(number, assignment.role, assignment.index)
        self._hide = Hider({})
        self._stamped = StampedLog(
            self.path,
            paths.stamped_log(number, assignment.role, assignment.index),
            f"{name} {assignment.instance}",
            on_line=on_line,
            on_open_line=on_open_line,
        )
        self._upload = LogUpload(bucket, self._stamped, f"{keys.logs(cluster.run, number)}{name}/")

    def hide(self, values: Mapping[str, str]) -> None:
        """Hide these secrets wherever others read the log."""
        self._stamped.hide = self._hide = Hider(values)

    def note(self, text: str) -> None:
        """Write a line of the agent into the log."""
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
        """Return the text with hidden secrets, as in the log."""
        return self._hide(text)

    @property
    def tail(self) -> str:
        """The last lines as plain text."""
        return self._hide(lines.plain(logs.end_of(self.path, TAIL_BYTES)))[-TAIL_CHARACTERS:]
