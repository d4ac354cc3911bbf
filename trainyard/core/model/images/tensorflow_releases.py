"""The releases of TensorFlow that images can have, with the CUDA they were built with and the Keras of their time.

Each release has one CUDA, whose libraries pip installs (`tensorflow[and-cuda]`). So a version of CUDA selects a
release. (Tested build configurations: tensorflow.org/install/source. Later versions of Keras expect a later
TensorFlow.)
"""

import re

from trainyard.values.lazy import dataclass

VERSION = r"[0-9]{1,2}\.[0-9]{1,3}(\.[0-9]{1,3})?"


@dataclass(frozen=True)
class Release:
    """A release. `cuda` has the major and minor version that TensorFlow's own wheels were built with."""

    tensorflow: str
    cuda: str
    keras: str

    @property
    def minor(self) -> str:
        return ".".join(self.tensorflow.split(".")[:2])


RELEASES = (
    Release("2.21.0", "12.5", "3.15.1"),
    Release("2.20.0", "12.5", "3.11.3"),
    Release("2.19.1", "12.5", "3.9.2"),
    Release("2.19.0", "12.5", "3.9.2"),
    Release("2.18.1", "12.5", "3.6.0"),
    Release("2.18.0", "12.5", "3.6.0"),
    Release("2.17.1", "12.3", "3.5.0"),
    Release("2.17.0", "12.3", "3.5.0"),
    Release("2.16.2", "12.3", "3.3.3"),
    Release("2.16.1", "12.3", "3.3.3"),
)
"""The newest release comes first."""
USUAL = RELEASES[0]
"""The release of images whose recipe selects no other (requirements/host.txt)."""
RANGE = f"{RELEASES[-1].minor} to {USUAL.minor}"


def is_known(version: str) -> bool:
    """Return True if a recipe can select the version, such as `2.18` or `2.18.1`."""
    return any(is_version(release.tensorflow, version) for release in RELEASES)


def is_version(found: str, asked: str) -> bool:
    """Return True if the version `2.18.1` matches `2.18` or `2.18.1`. A build's suffix (`+nv25.2`) is ignored."""
    return re.fullmatch(rf"{re.escape(asked)}([.+].*)?", found) is not None
