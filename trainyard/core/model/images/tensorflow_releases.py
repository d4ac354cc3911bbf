"""The releases of TensorFlow that images may have: what each was built with, and the Keras of its time.

A release has one CUDA, whose libraries pip brings along (`tensorflow[and-cuda]`); to choose among CUDA's versions is to
choose among releases. (Tested build configurations, tensorflow.org/install/source; the Keras that was new then, since
later ones expect a later TensorFlow.)
"""

import re

from trainyard.values.lazy import dataclass

VERSION = r"[0-9]{1,2}\.[0-9]{1,3}(\.[0-9]{1,3})?"


@dataclass(frozen=True)
class Release:
    """`cuda`: major and minor of what TensorFlow's own wheels were built with."""

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
"""The newest first."""
USUAL = RELEASES[0]
"""What images have whose recipe asks for no other (requirements/host.txt)."""
RANGE = f"{RELEASES[-1].minor} to {USUAL.minor}"


def is_known(version: str) -> bool:
    """Whether a recipe can ask for that version: `2.18`, or `2.18.1`."""
    return any(is_version(release.tensorflow, version) for release in RELEASES)


def is_version(found: str, asked: str) -> bool:
    """Whether the version `2.18.1` is what `2.18` or `2.18.1` asks for; a build's own part (`+nv25.2`) is no matter."""
    return re.fullmatch(rf"{re.escape(asked)}([.+].*)?", found) is not None
