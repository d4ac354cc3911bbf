"""The content of a folder's next checkpoint, and its last checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass

from training.host.checkpoints.catalogue import (
    Stored,
)
from training.host.checkpoints.on_disk import Listing


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The last checkpoint that is whole in the bucket, or was restored from it."""

    step: int = -1
    folder: str = ""
    """The folder's fingerprint if the program has its own form of checkpoints. It does not change while only logs
    grow."""

    @property
    def tells_step(self) -> bool:
        """True if `step` is the program's own step. Checkpoints of other forms are usually counted."""
        return self.step >= 0 and not self.folder


@dataclass(frozen=True, slots=True)
class Choice:
    """The content of a new checkpoint: all files of `listing`. A file in none of the sets below is probably torn, and
    the file of the checkpoint before replaces it."""

    listing: Listing
    reused: Mapping[str, Stored]
    """Files that the bucket has from an earlier checkpoint."""
    linked: frozenset[str]
    """Files that do not change, and are sent as they are."""
    logs: frozenset[str]
    """Files that only grow. Their present bytes are sent."""
    moving: frozenset[str]
    """Files that may change at any time. A copy is sent. If no whole copy can be made, the file of the checkpoint
    before replaces it."""
    needed: frozenset[str]
    """Moving files that the checkpoint requires."""
    step: int
    kind: str
    revision: bool
    """True if it replaces the checkpoint of its step."""
