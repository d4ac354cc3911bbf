"""Imaging: one host becomes an image. How its disk comes to rest, what becomes of it, what the image says of itself."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import assert_never

from trainyard.core.model.images.image import Image
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass

PARENT_TAGS = (Tag.DRIVER, Tag.CUDA, Tag.TENSORFLOW)
"""Tags that an image has from the one its host started from: the snapshot changes none of what they say."""
LONGEST_NAME = 128


class Quiesce(StrEnum):
    """How the host is brought to rest before its disk is imaged."""

    PAUSE = "pause"
    REBOOT = "reboot"
    STOP = "stop"


class Then(StrEnum):
    """What becomes of the host once the image is available."""

    KEEP = "keep"
    STOP = "stop"
    TERMINATE = "terminate"


@dataclass(frozen=True, kw_only=True)
class Imaging:
    """One host becomes one image. `quiesce` is None for a host that is generalized when its run ends; `was_running`: it
    is started again should it be stopped for the image alone; `step` is that of its run's last checkpoint; `dev` and
    `owner` of a dev host, whose image nobody else may start from."""

    instance: str
    type: str
    family: str
    parent: str
    quiesce: Quiesce | None = None
    then: Then = Then.KEEP
    was_running: bool = True
    host_run: str | None = None
    step: int | None = None
    dev: str | None = None
    owner: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def pauses(self) -> bool:
        return self.was_running and self.quiesce is Quiesce.PAUSE

    @property
    def stops(self) -> bool:
        """Whether the host is stopped before it is imaged."""
        return self.was_running and self.quiesce is Quiesce.STOP

    @property
    def reboots(self) -> bool:
        return self.was_running and self.quiesce is Quiesce.REBOOT

    @property
    def rest(self) -> str:
        """What comes before CreateImage: pause, stop or nothing."""
        match self.quiesce if self.was_running else None:
            case Quiesce.PAUSE | Quiesce.STOP as how:
                return how.value
            case Quiesce.REBOOT | None as how:
                return "none"
        assert_never(how)


def parent_tags(parent: Image | None) -> dict[str, str]:
    """What a snapshot has of its parent's tags."""
    tags = parent.tags if parent else {}
    return {key: tags[key] for key in PARENT_TAGS if key in tags}


def image_name(family: str, instance: str, run: str) -> str:
    """CreateImage has no token: its name makes it happen once. `run` is the execution that asks for it; instances make
    the names of two yards differ."""
    end = f"-{instance}-{run}"
    return f"{family[: LONGEST_NAME - len(end)]}{end}"


def tags(imaging: Imaging, *, yard: str, run: str, name: str) -> dict[str, str]:
    """What image and disk snapshots carry. `run` is the execution that makes the image."""
    known = {
        "Name": name,
        Tag.YARD: yard,
        Tag.RUN: imaging.host_run or run,
        Tag.EXECUTION: run,
        Tag.KIND: "snapshot",
        Tag.FAMILY: imaging.family,
        Tag.PARENT: imaging.parent,
        Tag.HOST: imaging.instance,
        Tag.TYPE: imaging.type,
    }
    step = {} if imaging.step is None else {Tag.STEP: str(imaging.step)}
    of_dev = {Tag.DEV: imaging.dev, Tag.SUBMITTER: imaging.owner or ""} if imaging.dev else {}
    return known | step | of_dev | dict(imaging.versions)
