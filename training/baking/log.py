"""The builder's log: the output of install and test, on stdout and, with time stamps, in the bucket meanwhile.

Systems Manager shows a command's output only after its end, and only the beginning of a long one.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from training.host.bucket import Bucket
from training.host.orders import write_whole
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.reporting import logs
from training.host.reporting.chunks import LogUpload
from training.host.reporting.lines import Splitter
from training.host.reporting.logs import StampedLog
from trainyard.protocol import keys

EVERY_SECONDS = 1.0


class BuilderLog:
    """A context manager for the log, to whose `path` commands print. It continues the log of an earlier SSM document of
    this builder, and of an earlier builder of the same bake in the bucket.

    Raises HostTrouble already at the beginning if the bucket cannot be written."""

    def __init__(
        self,
        title: str,
        bucket: Bucket,
        run: str,
        instance: str,
        paths: Paths,
        *,
        echo: TextIO = sys.stdout,
    ) -> None:
        self._title = title
        self.path: Path = paths.log / "builder.log"
        self._prefix = f"{keys.bake_logs(run)}builder/"
        self._bucket = bucket
        self._stamped = StampedLog(self.path, paths.log / "builder.stamped.log", f"builder {instance}")
        self._upload = LogUpload(bucket, self._stamped, self._prefix)
        self._echo = echo
        self._splitter = Splitter()
        self._shown = 0
        self._thread = Repeat("the builder's log", self._upload_new, every=EVERY_SECONDS)

    def __enter__(self) -> Self:
        if not self.path.exists():
            self._continue_earlier_builder()
        self._shown = self.size
        self.note(self._title)
        self._upload_new()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Upload the rest of the log, even after an error."""
        try:
            self._thread.finish()
        finally:
            self._show(last=True)

    def note(self, text: str) -> None:
        """Write a line of Trainyard into the log."""
        logs.note(self.path, text)

    @property
    def size(self) -> int:
        """The bytes that were printed so far."""
        return max(0, logs.size_of(self.path))

    def since(self, size: int) -> bytes:
        """Return the output after the log had that size."""
        with self.path.open("rb") as log:
            log.seek(size)
            return log.read()

    def _continue_earlier_builder(self) -> None:
        chunks = sorted(each.key for each in self._bucket.list(self._prefix))
        earlier = b"".join(map(self._bucket.read, chunks)).decode(errors="replace")
        for path in (self.path, self._stamped.path):
            write_whole(path, earlier if earlier.endswith("\n") or not earlier else earlier + "\n")

    def _upload_new(self, last: bool = False) -> None:
        self._stamped.stamp(datetime.now(UTC))
        self._show(last=last)
        self._upload.send(time.monotonic(), last=last)

    def _show(self, *, last: bool) -> None:
        new = self.since(self._shown)
        self._shown += len(new)
        lines = self._splitter.take(new)
        if last:
            lines += self._splitter.finish()
        for line in lines:
            print(line, file=self._echo)
        self._echo.flush()
