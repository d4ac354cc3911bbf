"""What the next checkpoint of a folder is made of, and which one was the last."""

from collections.abc import Mapping
from dataclasses import dataclass

from training.host.checkpoints.catalogue import (
    Stored,
)
from training.host.checkpoints.on_disk import Listing


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The last checkpoint that is whole in the bucket, or was restored from it. If the program keeps its folder in
    its own way, `folder` is the folder's print. It stays the same while only logs grow."""

    step: int = -1
    folder: str = ""

    @property
    def tells_step(self) -> bool:
        """Return True if `step` is how far the program was. Other programs' checkpoints are mostly counted."""
        return self.step >= 0 and not self.folder


@dataclass(frozen=True, slots=True)
class Choice:
    """What a new checkpoint consists of: all of `listing`, each file taken in one of these ways.

    - `kept`: the bucket has it from an earlier checkpoint.
    - `linked`: it is still, and is sent as it is.
    - `logs`: it only grows, and the bytes so far are sent.
    - `moving`: it may change at any time, and a copy is sent. If no whole copy can be made, the file of the checkpoint
      before takes its place; if it is `needed`, there is no checkpoint.
    - any other: it is probably torn, and the file of the checkpoint before takes its place.

    A `revision` replaces the checkpoint of its step.
    """

    listing: Listing
    kept: Mapping[str, Stored]
    linked: frozenset[str]
    logs: frozenset[str]
    moving: frozenset[str]
    needed: frozenset[str]
    step: int
    kind: str
    revision: bool
