"""Install the commands that mount file systems of EFS and FSx for Lustre, if the recipe names them."""

import platform
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from training.baking.builder import Builder
from training.baking.packages import APT, APT_ENVIRONMENT
from training.baking.recipe import named
from training.host.errors import HostTrouble
from training.host.orders import write_whole

EFS_UTILS = "https://github.com/aws/efs-utils.git"
VERSION, COMMIT = "v3.2.0", "def6e74fbbe891d07212b5bcd82109d5e5b59be7"
BUILD = (
    "git", "binutils", "cargo", "clang", "cmake", "gettext-base", "golang", "libssl-dev", "perl", "pkg-config", "rustc",
)  # fmt: skip
"""The tools that build its proxy. Ubuntu has no package of efs-utils."""
NEEDED = ("nfs-common", "python3-botocore")
LUSTRE = "https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu"
LUSTRE_KEY = "https://fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc"
COMMANDS = {"efs": "mount.efs", "lustre": "mount.lustre"}


def install_file_systems(builder: Builder) -> None:
    """Install what the recipe names and the base image lacks. Raises HostTrouble with the entry and the reason."""
    entries = builder.recipe.file_systems
    for index, entry in enumerate(entries):
        if shutil.which(COMMANDS[entry]):
            builder.log.note(f"{COMMANDS[entry]} is on the base image")
            continue
        install: Callable[[Builder, str], None] = {"efs": _install_efs, "lustre": _install_lustre}[entry]
        install(builder, named("file_systems", entries, index))


def _install_efs(builder: Builder, entry: str) -> None:
    """Build efs-utils at its commit, and install it."""
    _run(builder, entry, *APT, "install", "--no-install-recommends", "--", *BUILD, *NEEDED)
    with tempfile.TemporaryDirectory() as place:
        sources = str(Path(place) / "efs-utils")
        _run(
            builder, entry, "git", "clone", "--quiet", "--depth", "1", "--branch", VERSION, EFS_UTILS, sources
        )
        found = _run(builder, entry, "git", "-C", sources, "rev-parse", "HEAD").strip()
        if found != COMMIT:
            raise HostTrouble(
                f"{entry}: {VERSION} of efs-utils is {found}, not {COMMIT}, so it was not built"
            )
        _run(builder, entry, "sh", "-c", f"cd {sources} && ./build-deb.sh")
        _run(builder, entry, "sh", "-c", f"{' '.join(APT)} install {sources}/build/amazon-efs-utils*deb")


def _install_lustre(builder: Builder, entry: str) -> None:
    """Install AWS's Lustre client for this kernel, whose module must load."""
    paths, kernel = builder.paths, platform.release()
    key = paths.apt / "keyrings/fsx-lustre.asc"
    key.parent.mkdir(parents=True, exist_ok=True)
    _run(builder, entry, "curl", "-fsS", "--retry", "5", "--max-time", "300", "-o", str(key), LUSTRE_KEY)
    release = _run(builder, entry, "lsb_release", "--codename", "--short").strip()
    line = f"deb [signed-by={key}] {LUSTRE} {release} main\n"
    write_whole(paths.apt / "sources.list.d/fsx-lustre.list", line, mode=0o644)
    _run(builder, entry, *APT, "update")
    _run(builder, entry, *APT, "install", f"lustre-client-modules-{kernel}")
    done = builder.shell.run(["modprobe", "lustre"])
    if not done.is_good:
        raise HostTrouble(
            f"{entry}: Lustre's module does not load on the kernel {kernel} ({done.last_lines()}); name a base image "
            "whose kernel AWS supports (LustreGuide, lustre-client-matrix), or remove the entry"
        )


def _run(builder: Builder, entry: str, *command: str) -> str:
    """Return the output of a command. Raises HostTrouble if it fails."""
    done = builder.shell.run(command, environment=APT_ENVIRONMENT)
    if not done.is_good:
        raise HostTrouble(f"{entry}: {' '.join(command)[:200]} failed ({done.reason}): {done.last_lines()}")
    return done.output
