"""The host that becomes an image: how its disk is brought to rest, and what happens to the host afterwards."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import assert_never

from trainyard.values.lazy import dataclass


class Quiesce(StrEnum):
    """How the host is brought to rest before its disk is imaged."""

    PAUSE = "pause"
    REBOOT = "reboot"
    STOP = "stop"


class Then(StrEnum):
    """The fate of the host once the image is available."""

    KEEP = "keep"
    STOP = "stop"
    TERMINATE = "terminate"


@dataclass(frozen=True, kw_only=True)
class Imaging:
    """The host that becomes an image, of a snapshot or at the end of a run."""

    instance: str
    type: str
    """Its instance type."""
    family: str
    """The family of the image."""
    parent: str
    """The image that the host started from."""
    quiesce: Quiesce | None = None
    """None for a host that is generalized when its run ends."""
    then: Then = Then.KEEP
    was_running: bool = True
    """A host that is stopped for the image only is started again."""
    host_run: str | None = None
    """The run that the host works for."""
    step: int | None = None
    """The step of the last checkpoint of that run."""
    dev: str | None = None
    """The name of a dev host."""
    owner: str | None = None
    """The owner of a dev host. No other user may start from its image."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Tags that the image has from its parent."""

    @property
    def pauses(self) -> bool:
        return self.was_running and self.quiesce is Quiesce.PAUSE

    @property
    def stops(self) -> bool:
        """Return True if the host is stopped before it is imaged."""
        return self.was_running and self.quiesce is Quiesce.STOP

    @property
    def reboots(self) -> bool:
        return self.was_running and self.quiesce is Quiesce.REBOOT

    @property
    def rest(self) -> str:
        """Return what comes before CreateImage: pause, stop or none."""
        match self.quiesce if self.was_running else None:
            case Quiesce.PAUSE | Quiesce.STOP as how:
                return how.value
            case Quiesce.REBOOT | None:
                return "none"
        assert_never(self.quiesce)
