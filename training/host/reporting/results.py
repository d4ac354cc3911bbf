"""Upload folders that a program fills: TensorBoard events while it runs, the model at its end."""

import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from training.host.bucket import Bucket
from training.host.disk import SPARSE, is_readable, is_sparse, readable_files
from training.host.keys import LeftOut
from training.host.paths import Paths
from training.host.reporting.metrics import as_object
from training.host.reporting.scalars import RESERVED, number_in
from trainyard.protocol.objective import MOST_SCALARS

EVERY_SECONDS = 3.0
BYTES_PER_SECOND = 6 * 1024 * 1024
LARGEST_METRICS_BYTES = 16 * 1024 * 1024


def due_after(size: int) -> float:
    """Return the seconds until a file of this size is sent again. S3 cannot append, so a file is always sent whole."""
    return max(EVERY_SECONDS, size / BYTES_PER_SECOND)


@dataclass(slots=True)
class FolderUpload:
    """The upload of one folder to one prefix. A file is sent again only after a change, and a large file less often.

    `left_out` reports the files that the bucket does not store.
    """

    bucket: Bucket
    folder: Path
    prefix: str
    left_out: LeftOut
    _sent: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _next_at: dict[Path, float] = field(default_factory=dict)

    def send(self, *, last: bool) -> None:
        """Send the changed files that are due, or all changed files if `last`."""
        now = time.monotonic()
        names = sorted(path.relative_to(self.folder).as_posix() for path in readable_files(self.folder))
        for name in self.left_out.keep(names, self.prefix):
            path = self.folder / name
            if last or now >= self._next_at.get(path, now):
                self._send(path, now)

    def _send(self, path: Path, now: float) -> None:
        try:
            status = path.stat()
            if self._sent.get(path) == (status.st_size, status.st_mtime_ns):
                return
            name = path.relative_to(self.folder).as_posix()
            if is_sparse(status):
                self.left_out.report({name: SPARSE})
                return
            self.bucket.upload(path, self.prefix + name)
        except FileNotFoundError:  # the program has just removed or replaced it
            return
        self._sent[path] = (status.st_size, status.st_mtime_ns)
        self._next_at[path] = now + due_after(status.st_size)


def missing(expected: tuple[str, ...], paths: Paths, *, has_checkpoint: bool) -> tuple[str, ...]:
    """Return the results of `program.expect` that the program has not written. `has_checkpoint` is True if the bucket
    has a checkpoint."""
    left = {
        "model": any(True for _ in readable_files(paths.model)),
        "metrics": is_readable(paths.metrics),
        "checkpoint": has_checkpoint,
    }
    return tuple(word for word in expected if not left[word])


def find_objective(name: str | None, paths: Paths, ran_seconds: float) -> dict[str, Any]:
    """Return the objective in the metrics.json that a plain script has written into its working folder in this attempt.
    Without the objective, return the other numbers, whose names tell the user what the script has left. The file does
    not count if the program has written the one of TRAINYARD_METRICS."""
    path = paths.program / paths.metrics.name
    if name is None or is_readable(paths.metrics) or not is_readable(path):
        return {}
    status = path.stat()
    if status.st_mtime < time.time() - ran_seconds or status.st_size > LARGEST_METRICS_BYTES:
        return {}
    written = as_object(path.read_bytes()) or {}
    others = {
        key: value for key, value in written.items() if number_in(value) is not None and key not in RESERVED
    }
    return {name: written[name]} if name in written else dict(islice(others.items(), MOST_SCALARS))


def describe_missing_results(*, keeps_outputs: bool) -> str:
    """Return a sentence for a program that finished and left nothing."""
    if keeps_outputs:
        return "it left no model, checkpoint, metrics or outputs: it wrote no file into its working folder"
    return "it left no model, checkpoint or metrics, and its outputs are not kept (outputs: {keep: false})"
