"""Install JupyterLab for dev hosts, in its own environment, so that programs do not see its packages.

Its kernels run in the hosts' Python (training/jupyter/share/jupyter/kernels), which finds ipykernel in that
environment."""

import shutil

from training.baking.builder import Builder, image_settings
from training.baking.packages import install_with_uv, lock_or_list, message_of_uv
from training.host.dev import UNIT
from training.host.errors import HostTrouble
from training.host.paths import Paths
from training.host.program.packages import site_packages

LIST = "requirements/jupyter.txt"
OURS = {"etc": "etc", "share": "share"}
"""Folders below training/jupyter, and their targets below the environment: configuration, kernels, extensions."""
PACKAGES = "packages"
"""The folder below training/jupyter with packages for the server."""
WITHOUT = "the image has no JupyterLab: its base image has JUPYTER={}"
NONE, OPTIONAL = "none", "optional"


def setting(paths: Paths) -> str:
    """Return the base image's setting: `none`, `optional` (if the package index has it), or nothing for required."""
    return image_settings(paths.image_settings).get("JUPYTER", "")


def install_jupyter(builder: Builder) -> None:
    """Install JupyterLab. Raises HostTrouble if it is required and its packages are not available."""
    paths = builder.paths
    wanted = setting(paths)
    if wanted == NONE:
        builder.log.note(WITHOUT.format(wanted))
        return
    uv = str(paths.python.with_name("uv"))
    made = builder.shell.run([uv, "venv", "--quiet", "--python", str(paths.python), str(paths.jupyter)])
    if not made.is_good:
        raise HostTrouble(
            f"JupyterLab's environment could not be created ({made.reason}): {made.last_lines()}"
        )
    packages = lock_or_list(builder, paths.agent / LIST)
    done = install_with_uv(builder, paths.jupyter / "bin/python", *packages)
    if not done.is_good and wanted == OPTIONAL:
        shutil.rmtree(paths.jupyter)
        builder.log.note(f"{WITHOUT.format(wanted)}, and {message_of_uv(done)}")
        return
    if not done.is_good:
        raise HostTrouble(
            f"installing JupyterLab failed ({done.reason}): {done.last_lines()}; check that the builder's package "
            "index has it, or write JUPYTER=none into /etc/trainyard/image.env of the base image: hosts then lack it"
        )
    add_ours(paths)
    unit = f"training/host/dev/{UNIT}"
    shutil.copyfile(paths.agent / unit, paths.root / "etc/systemd/system" / UNIT)


def add_ours(paths: Paths) -> None:
    """Copy our configuration and packages into its environment. They replace files of the same name."""
    ours = paths.agent / "training/jupyter"
    folders = {ours / name: paths.jupyter / target for name, target in OURS.items()}
    folders[ours / PACKAGES] = site_packages(paths.jupyter)
    for source, target in folders.items():
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
