"""The builder: its identity, its base image's settings, and its recipe."""

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
    """The instance on which an image is built."""

    run: str
    recipe: Recipe
    identity: Identity
    bucket: Bucket
    paths: Paths
    session: boto3.Session
    for_gpus: bool
    """True if hosts of the image may have GPUs, according to the base image."""
    gpus: int
    """The number of GPUs of this builder."""
    log: BuilderLog
    shell: Shell

    @property
    def requirements(self) -> Path:
        """The list of packages that every host needs, all pinned."""
        name = "requirements/host.txt" if self.for_gpus else "requirements/host-local.txt"
        return self.paths.agent / name

    @property
    def beside(self) -> Path:
        """The lock of the packages that are installed in addition to either list."""
        return self.paths.agent / "requirements/locks/host-tf-keras.txt"

    @property
    def our_path(self) -> dict[str, str]:
        """The variables for programs of the package training, which other programs do not have on their path. They run
        in an empty folder, so that no file hides a module."""
        return {"PYTHONPATH": str(self.paths.agent)}


def for_gpus(paths: Paths) -> bool:
    """Return False if the base image has ACCELERATOR=none."""
    return image_settings(paths.image_settings).get("ACCELERATOR", "gpu") != "none"


def image_settings(path: Path) -> dict[str, str]:
    """Read a file with NAME=value lines, as shells and systemd do."""
    try:
        words = shlex.split(path.read_text(), comments=True)
    except FileNotFoundError:
        return {}
    return {name: value for name, found, value in (word.partition("=") for word in words) if found}
