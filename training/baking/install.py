"""The steps of the SSM document install after Python is installed. The recipe's own commands come last."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from training.baking.builder import Builder
from training.baking.cloudwatch import install_agent
from training.baking.containers import pull_images
from training.baking.file_systems import install_file_systems
from training.baking.jupyter import install_jupyter
from training.baking.mountpoint import install_mountpoint
from training.baking.packages import install_python_packages, install_requirements, install_system_packages
from training.baking.recipe import named
from training.host import account
from training.host.agent import systems_manager
from training.host.errors import HostTrouble, ProgramFault
from training.host.orders import write_whole
from training.host.program.fetch import LIBRARY

UNIT = "trainyard-host.service"
LOOKED_IN = "cuda_runtime/lib"
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
COMMAND = """#!/bin/sh
# The command trainyard on a host. For this host itself: trainyard hold 2h, unhold, jupyter; these run in the agent's
# folder, so that no package of the user is imported. Other commands work as on a user's computer.
case "$1 $2" in
"hold i-"* | "unhold i-"*) ;;
"hold "* | "unhold "* | "jupyter "*)
    cd /opt/trainyard/agent && exec /opt/trainyard/venv/bin/python -m training.host "$@" ;;
esac
exec /opt/trainyard/venv/bin/python -P /opt/trainyard/agent/training/host/dev/client.py "$@"
"""


def install(builder: Builder) -> None:
    """Run all steps. Raises ProgramFault that names the faulty entry of the recipe, HostTrouble for other faults."""
    for title, step in STEPS:
        builder.log.note(f"== {title}")
        step(builder)
    write_whole(builder.paths.recipe, builder.recipe.hash + "\n")


def link_cuda_libraries(builder: Builder) -> None:
    """Link all CUDA libraries into the folder of NVIDIA's packages that every release of TensorFlow searches. The
    RUNPATH of libtensorflow_framework.so.2 in release 2.21 lacks the folder of cuSOLVER. Without that library,
    TensorFlow uses no GPU ("Cannot dlopen some GPU libraries")."""
    nvidia = site_packages(builder) / "nvidia"
    for library in sorted(nvidia.glob("*/lib/*.so*")):
        link = nvidia / LOOKED_IN / library.name
        if not link.exists():
            link.symlink_to(Path("../..", library.relative_to(nvidia)))


def install_boot_unit(builder: Builder) -> None:
    """Install the host agent's unit, and the additions to the unit of Systems Manager's agent."""
    ours, units = builder.paths.agent / "training/host", builder.paths.root / "etc/systemd/system"
    shutil.copyfile(ours / UNIT, units / UNIT)
    for unit in systems_manager.UNITS:
        write_whole(units / f"{unit}.d/trainyard.conf", (ours / "amazon-ssm-agent.conf").read_text())
    for command in (["systemctl", "daemon-reload"], ["systemctl", "enable", UNIT]):
        done = builder.shell.run(command)
        if not done.is_good:
            raise HostTrouble(f"{' '.join(command)} failed ({done.reason}): {done.last_lines()}")


def make_account(builder: Builder) -> None:
    """Create the account that programs run as. Its home is created for each run."""
    if builder.shell.run(["getent", "passwd", account.NAME]).is_good:
        return
    made = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    done = builder.shell.run([*made, "--home-dir", str(builder.paths.home), account.NAME])
    if not done.is_good:
        raise HostTrouble(
            f"the account {account.NAME} of programs could not be created ({done.reason}): {done.last_lines()}"
        )


def install_command(builder: Builder) -> None:
    """Install the command `trainyard` on the PATH of all accounts."""
    write_whole(builder.paths.command, COMMAND)
    builder.paths.command.chmod(0o755)


def install_profile(builder: Builder) -> None:
    """Install the settings of login shells: TensorFlow's Python on the path, a prompt, the limits of programs."""
    ours = builder.paths.agent / "training/host/dev/profile.sh"
    write_whole(builder.paths.profile, ours.read_text(), mode=0o644)


def install_library(builder: Builder) -> None:
    """Install the package `trainyard` for programs, their own environments, and notebooks."""
    move_library(builder.paths.agent / LIBRARY, site_packages(builder))


def site_packages(builder: Builder) -> Path:
    """Return the folder of packages of the hosts' Python."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = builder.shell.run([str(builder.paths.python), "-c", asked])
    if not done.is_good:
        raise HostTrouble(f"the hosts' Python does not print the folder of its packages: {done.last_lines()}")
    return Path(done.output.strip())


def move_library(folder: Path, packages: Path) -> None:
    """Move our package from the agent's folder to a Python's packages. pip then counts it as installed, so that a
    program's requirements may name it."""
    for earlier in (packages / LIBRARY, *packages.glob(f"{LIBRARY}-*.dist-info")):
        shutil.rmtree(earlier, ignore_errors=True)
    shutil.move(folder, packages / LIBRARY)
    found = VERSION.search((packages / LIBRARY / "__init__.py").read_text())
    assert found, "the package has a version"
    facts = f"Metadata-Version: 2.4\nName: {LIBRARY}\nVersion: {found[1]}\n"
    write_whole(packages / f"{LIBRARY}-{found[1]}.dist-info" / "METADATA", facts)


def run_commands(builder: Builder) -> None:
    commands = builder.recipe.commands
    for index, line in enumerate(commands):
        builder.log.note(f"$ {line}")
        done = builder.shell.line(line)
        if not done.is_good:
            raise ProgramFault(
                f"{named('commands', commands, index)} failed ({done.reason}): {done.last_lines()}"
            )


STEPS: tuple[tuple[str, Callable[[Builder], None]], ...] = (
    ("system packages of the recipe", install_system_packages),
    ("what every host needs", install_requirements),
    ("CUDA libraries for TensorFlow", link_cuda_libraries),
    ("Python packages of the recipe", install_python_packages),
    ("CloudWatch agent", install_agent),
    ("mount-s3 for data that are streamed", install_mountpoint),
    ("account of programs", make_account),
    ("boot unit", install_boot_unit),
    ("command trainyard", install_command),
    ("login shells", install_profile),
    ("package trainyard", install_library),
    ("JupyterLab", install_jupyter),
    ("container images of the recipe", pull_images),
    ("file systems of the recipe", install_file_systems),
    ("commands of the recipe", run_commands),
)
