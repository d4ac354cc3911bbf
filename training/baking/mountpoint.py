"""Install Mountpoint for Amazon S3 (`mount-s3`), which mounts data with `mode: stream`."""

import platform
import shutil

from training.baking.builder import Builder
from training.baking.signed import SignedPackage, install_signed
from training.host.errors import HostTrouble
from training.host.mounts.streams import COMMAND

VERSION = "1.23.0"
SIGNED_BY = "8AEFE705EBE329C0948C75A66F1C3B3AEF4B030B"
"""The fingerprint of the key that AWS signs the package with since March 2026 (doc/INSTALL.md of mountpoint-s3)."""
RELEASES = "https://s3.amazonaws.com/mountpoint-s3-release"
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64"}


def package() -> SignedPackage:
    """Return the package for this machine."""
    architecture = ARCHITECTURES[platform.machine()]
    url = f"{RELEASES}/{VERSION}/{architecture}/mount-s3-{VERSION}-{architecture}.deb"
    return SignedPackage(
        called="mount-s3",
        url=url,
        signature=f"{url}.asc",
        key=f"{RELEASES}/public_keys/KEYS",
        fingerprint=SIGNED_BY,
        consequence="jobs with mode: stream need it: let the builder reach AWS's bucket mountpoint-s3-release, or "
        "start from a base image with mount-s3",
    )


def install_mountpoint(builder: Builder) -> None:
    """Install the pinned version if the base image has none. A builder that cannot fetch it, as in a private yard,
    makes an image on which jobs with `mode: stream` fail at their start. All other jobs run there."""
    if shutil.which(COMMAND):
        return
    try:
        install_signed(builder, package())
    except HostTrouble as trouble:
        builder.log.note(f"the image has no mount-s3: {trouble.reason}")
