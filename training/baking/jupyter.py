"""JupyterLab for hosts that people sit at: an environment of its own, so that no program sees its packages.

Its kernels are the hosts' Python (training/jupyter/share/jupyter/kernels), which finds ipykernel there.
"""

import shutil

from training.baking.builder import Builder, image_settings
from training.baking.packages import install_with_uv, lock_or_list, message_of_uv
from training.host.dev import UNIT
from training.host.errors import HostTrouble
from training.host.paths import Paths
from training.host.program.packages import site_packages

LIST = "requirements/jupyter.txt"
OURS = {"etc": "etc", "share": "share"}
"""Below training/jupyter, and below the environment: configuration, kernels, extensions of the page."""
PACKAGES = "packages"
"""Below training/jupyter: what its server can import."""
WITHOUT = "the image has no JupyterLab: its base image says JUPYTER={}"
NONE, OPTIONAL = "none", "optional"


def setting(paths: Paths) -> str:
    """What the base image says of it: `none`, `optional` (where the package index has it), or nothing: it must be."""
    return image_settings(paths.image_settings).get("JUPYTER", "")


def install_jupyter(builder: Builder) -> None:
    """Raises HostTrouble where its packages are not to be had and must be."""
    paths = builder.paths
    said = setting(paths)
    if said == NONE:
        builder.log.note(WITHOUT.format(said))
        return
    uv = str(paths.python.with_name("uv"))
    made = builder.shell.run([uv, "venv", "--quiet", "--python", str(paths.python), str(paths.jupyter)])
    if not made.is_good:
        raise HostTrouble(f"JupyterLab's environment could not be made ({made.reason}): {made.last_lines()}")
    words = lock_or_list(builder, paths.agent / LIST)
    done = install_with_uv(builder, paths.jupyter / "bin/python", *words)
    if not done.is_good and said == OPTIONAL:
        shutil.rmtree(paths.jupyter)
        builder.log.note(f"{WITHOUT.format(said)}, and {message_of_uv(done)}")
        return
    if not done.is_good:
        raise HostTrouble(
            f"installing JupyterLab failed ({done.reason}): {done.last_lines()}; see that the builder's package index "
            "serves it, or write JUPYTER=none into /etc/trainyard/image.env of the base image: hosts then have none"
        )
    add_ours(paths)
    unit = f"training/host/dev/{UNIT}"
    shutil.copyfile(paths.agent / unit, paths.root / "etc/systemd/system" / UNIT)


def add_ours(paths: Paths) -> None:
    """What of ours belongs into its environment. Ours replaces what a package brought under the same name."""
    ours = paths.agent / "training/jupyter"
    folders = {ours / name: paths.jupyter / target for name, target in OURS.items()}
    folders[ours / PACKAGES] = site_packages(paths.jupyter)
    for source, target in folders.items():
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
