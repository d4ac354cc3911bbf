"""The builder: who it is, what its base image says of itself, what it is to become."""

import shlex
from dataclasses import dataclass
from pathlib import Path

import boto3

from training.baking.log import BuilderLog
from training.baking.recipe import Recipe
from training.baking.shell import Shell
from training.host.bucket import Bucket
from training.host.metadata import Identity
from training.host.paths import Paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """`for_gpus`: whether hosts of the image may have GPUs, as the base image says. `gpus`: how many this one has."""

    run: str
    recipe: Recipe
    identity: Identity
    bucket: Bucket
    paths: Paths
    session: boto3.Session
    for_gpus: bool
    gpus: int
    log: BuilderLog
    shell: Shell

    @property
    def requirements(self) -> Path:
        """What every host needs, all pinned."""
        name = "requirements/host.txt" if self.for_gpus else "requirements/host-local.txt"
        return self.paths.agent / name

    @property
    def beside(self) -> Path:
        """The lock of what is beside either list of the hosts' Python."""
        return self.paths.agent / "requirements/locks/host-tf-keras.txt"

    @property
    def our_path(self) -> dict[str, str]:
        """For programs of the package training, which is on no other's path. They run where no name is in its way."""
        return {"PYTHONPATH": str(self.paths.agent)}


def for_gpus(paths: Paths) -> bool:
    """Unless the base image says ACCELERATOR=none."""
    return image_settings(paths.image_settings).get("ACCELERATOR", "gpu") != "none"


def image_settings(path: Path) -> dict[str, str]:
    """A file that shells and systemd read: NAME=value lines."""
    try:
        words = shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        return {}
    return {name: value for name, found, value in (word.partition("=") for word in words) if found}
