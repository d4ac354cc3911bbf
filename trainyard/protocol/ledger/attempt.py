"""The rows of a run's attempts, and of what their states wait for.

`pk = run#<run>`; `sk = attempt#<attempt>`, `token#<attempt>#<wait>` and `wait#<attempt>#<wait>`. Attempts have four
digits.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from trainyard.values.lazy import dataclass


class Ending(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    START_FAILED = "start_failed"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"
    STOPPED = "stopped"
    RESIZED = "resized"
    PREEMPTED = "preempted"


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    """An attempt: the life of one gang."""

    attempt: int
    candidate: Mapping[str, Any] = field(metadata={"formerly": "offer"})
    """The capacity pool of the hosts, in words under `pool`."""
    hosts: tuple[str, ...]
    """The instance ids."""
    launched: datetime
    gang_ready: datetime | None = None
    """When all hosts were ready."""
    started: datetime | None = None
    """When the hosts were ordered to start."""
    ended: datetime | None = None
    ending: Ending | None = None
    reason: str | None = None
    error: str | None = None
    """The error that the attempt's token was, or will be, answered with."""
    cause: str | None = None
    """The cause that belongs to `error`."""
    from_step: int | None = None
    """The step of the checkpoint that the attempt began with."""
    to_step: int | None = None
    """The step that the attempt reached."""
    resumed: Mapping[str, Any] | None = None
    """The checkpoint that the program restored (`step`, `verified`, ...); None if the program has not reported it."""
    reported: int | None = None
    """The last step that the chief reported."""
    checkpointed: int | None = None
    """The step of the last whole checkpoint, if the program reports steps."""
    saved: datetime | None = None
    """When that checkpoint was whole in the bucket."""
    ordered_to_leave: datetime | None = field(default=None, metadata={"formerly": "asked"})
    """When silent hosts were ordered to leave after the others had left."""
    ordered_to_stop: datetime | None = field(default=None, metadata={"formerly": "asked_to_stop"})
    """When the gang was ordered to leave because a user stops the run."""
    capped: datetime | None = None
    """When the gang was ordered to leave because the run's hours or dollars are used up."""
    requested_more: datetime | None = field(default=None, metadata={"formerly": "asked_more"})
    """When more hosts were last requested."""
    growing: datetime | None = None
    """When the gang was ordered to leave, to continue with more hosts."""
    preempted: datetime | None = None
    """When the gang was ordered to leave because a run of a higher priority needs the slot."""
    but: tuple[str, ...] = ()
    """Doubts about a success whose program ended with exit code 0, a sentence each."""

    @property
    def last_step(self) -> int | None:
        """Return the last recorded step, or None before the first."""
        return self.last_step_with(self.to_step)

    def last_step_with(self, step: int | None) -> int | None:
        """Return the last of the recorded steps and a step that a host reports now."""
        recorded = (step, self.reported, self.checkpointed)
        return max((step for step in recorded if step is not None), default=None)

    @property
    def pool(self) -> str:
        """Return the capacity pool in words."""
        return str(self.candidate.get("pool", ""))


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """The task token of a state that waits. Each time the state is entered, the row is replaced."""

    attempt: int
    wait: str
    """`runs`, `await_hosts`, `train`, `search`, `install`, `test`, `generalize`, `pause` or `capture`."""
    token: str
    stored: datetime
    answered: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class WaitRow:
    """The command or image that a state waits for, written when the state has requested it."""

    attempt: int
    wait: str
    since: datetime
    """When the wait began, however often its state is entered."""
    command: str | None = None
    """The command that was sent."""
    image: str | None = None
    """The image that EC2 makes."""
