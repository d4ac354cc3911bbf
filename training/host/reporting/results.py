"""Folders that a program fills: TensorBoard events while it runs, the model at the end."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from training.host.bucket import Bucket
from training.host.disk import is_readable, readable_files
from training.host.keys import LeftOut
from training.host.places import Places
from trainyard.core.values.quantities import counted

EVERY_SECONDS = 3.0
MOST_NAMES = 5
WHERE_TO = "give it a folder that is carried, as in program.args: {model_dir: ${model}, checkpoint_dir: ${checkpoints}}"
BYTES_PER_SECOND = 6 * 1024 * 1024


def due_after(size: int) -> float:
    """Seconds to wait before a file of this size is sent again: S3 cannot append, so it is sent whole."""
    return max(EVERY_SECONDS, size / BYTES_PER_SECOND)


@dataclass(slots=True)
class FolderUpload:
    """One folder's way under one prefix. A file is sent again only when it changed, a large one more rarely.

    `left_out` reports the files whose names the bucket cannot store.
    """

    bucket: Bucket
    folder: Path
    prefix: str
    left_out: LeftOut
    _sent: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _next_at: dict[Path, float] = field(default_factory=dict)

    def send(self, *, last: bool) -> None:
        """Send what is due; with `last`, everything that changed."""
        now = time.monotonic()
        names = sorted(path.relative_to(self.folder).as_posix() for path in readable_files(self.folder))
        for name in self.left_out.keep(names, self.prefix):
            path = self.folder / name
            if last or now >= self._next_at.get(path, now):
                self._send(path, now)

    def _send(self, path: Path, now: float) -> None:
        try:
            facts = path.stat()
            if self._sent.get(path) == (facts.st_size, facts.st_mtime_ns):
                return
            self.bucket.upload(path, self.prefix + path.relative_to(self.folder).as_posix())
        except FileNotFoundError:  # the program has just removed or replaced it
            return
        self._sent[path] = (facts.st_size, facts.st_mtime_ns)
        self._next_at[path] = now + due_after(facts.st_size)


def missing(expected: tuple[str, ...], places: Places, *, has_checkpoint: bool) -> tuple[str, ...]:
    """Those of `program.expect` that the program has not left. `has_checkpoint`: one of it is in the bucket."""
    left = {
        "model": any(True for _ in readable_files(places.model)),
        "metrics": is_readable(places.metrics),
        "checkpoint": has_checkpoint,
    }
    return tuple(word for word in expected if not left[word])


def left_behind(folder: Path, *, since: float) -> dict[str, int]:
    """What a program has written into its working folder, which nobody carries away: how many files of each name at its
    top. `since` is when it was started, in seconds since 1970; what Python compiles is no result."""
    found: Counter[str] = Counter()
    for path in readable_files(folder):
        name = path.relative_to(folder)
        if "__pycache__" not in name.parts and path.stat().st_mtime >= since:
            found[name.parts[0] + "/" * (len(name.parts) > 1)] += 1
    return dict(sorted(found.items()))


def nothing_carried(behind: Mapping[str, int]) -> str:
    """For a program that finished and left no model, checkpoint or metrics: what it left behind, and what to do."""
    if not behind:
        return f"it left no model, checkpoint or metrics; {WHERE_TO}"
    names = [
        f"{name} ({counted(count, 'file')})" if name.endswith("/") else name for name, count in behind.items()
    ]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"left in its working folder and not carried: {', '.join(names[:MOST_NAMES])}{more}; {WHERE_TO}"
