"""Layers of functions: the packages that all of them import, and the compiled packages that a few of them import."""

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from lambdas.needs import Compiled
from stacks.constructs import packages
from trainyard import locks

PYTHON = "3.13"
"""The Python version of functions."""
PLATFORM_OF_LAMBDA = f"cp{PYTHON.replace('.', '')}-aarch64"
"""The platform of functions in an account: Python 3.13 on ARM64."""
PLATFORM_VARIABLE = "CDK_FUNCTIONS_PLATFORM"
"""The variable with the platform of functions elsewhere, which `python -m localcloud env` prints."""
PURE = f"cp{PYTHON.replace('.', '')}-x86_64"
"""The platform for which packages without compiled parts are installed; it does not matter which."""
GLIBC = ("manylinux_2_28", "manylinux_2_27", "manylinux2014")
"""The C libraries for compiled packages, the newest first. Amazon Linux 2023, where functions run, has a newer one."""
COMPILED = (".so", ".pyd", ".pyc")
OF_THE_INSTALLER = ("INSTALLER", "RECORD", "REQUESTED", "WHEEL", "direct_url.json", "uv_cache.json")
"""Files in `.dist-info` about the installer, which nothing reads."""
SERVICES = (
    "cloudwatch", "dynamodb", "ec2", "ecr", "efs", "fsx", "iam", "kms", "lambda", "pricing", "s3", "scheduler",
    "service-quotas", "sns", "sqs", "ssm", "stepfunctions", "sts",
)  # fmt: skip
"""AWS services that functions use. botocore has 400 more, which are three quarters of the layer, and are listed in
each cold start."""

INTERPRETER = (
    "__init__.py", "interpreter.py", "metrics_interface.py", "metrics_portable.py",
    "_pywrap_litert_interpreter_wrapper.so", "libpywrap_litert_common.so",
)  # fmt: skip
"""Files of LiteRT that run a model on a processor. Converters, compilers and a GPU's accelerator are 40 MB more."""


def layer_folder() -> Path:
    """Return a folder with the packages of requirements/lambda.txt under `python/`, rebuilt when that file or its
    lock changes. Compiled parts are omitted (PyYAML works without), so the layer fits every interpreter and both
    processors."""

    def install(folder: Path) -> None:
        install_layer(folder / "python", [*installer(), *_pinned("lambda.txt")])
        keep_services(folder / "python" / "botocore" / "data")

    return packages.make_once("layer", _key("lambda.txt"), install)


def functions_platform() -> str:
    """Return the platform that functions of this deployment run on, as in `cp313-aarch64`."""
    return os.environ.get(PLATFORM_VARIABLE) or PLATFORM_OF_LAMBDA


def compiled_layer_folder(which: Compiled, platform: str) -> Path:
    """Return a folder with the packages of requirements/study.txt or predict.txt under `python/`, compiled for this
    platform, rebuilt when that file or its lock changes. Packages that they name and never import are left out."""

    def install(folder: Path) -> None:
        command = [*installer(platform=platform), "--no-deps", *_pinned(f"{which}.txt")]
        install_layer(folder / "python", command, removed=(".pyc",))
        if which == "predict":
            keep_interpreter(folder / "python" / "ai_edge_litert")

    return packages.make_once(f"compiled-layer-{which}-{platform}", _key(f"{which}.txt"), install)


def _lists(name: str) -> tuple[Path, Path]:
    """Return a list of requirements, and its lock."""
    return packages.ROOT / "requirements" / name, packages.ROOT / "requirements/locks" / name


def _key(name: str) -> str:
    """Return a hash that changes with a list, its lock, and this module."""
    return packages.hash_of([*_lists(name), Path(__file__)], packages.ROOT)


def _pinned(name: str) -> list[str]:
    """Return the installer's arguments for a list: its lock with hashes, or the list itself if the lock is too old."""
    requirements, lock = _lists(name)
    missing = locks.find_changed(requirements.read_text(), lock.read_text())
    if missing:
        warnings.warn(locks.warning(requirements.name, missing), stacklevel=2)
        return ["--requirement", str(requirements)]
    return ["--require-hashes", "--requirement", str(lock)]


def install_layer(target: Path, command: Sequence[str], *, removed: tuple[str, ...] = COMPILED) -> None:
    """Install with `command`, one of `installer()`'s with its arguments, and remove what depends on this machine, and
    the files with a suffix of `removed`."""
    subprocess.run([*command, "--target", str(target)], check=True)
    for cache in list(target.rglob("__pycache__")):
        shutil.rmtree(cache)
    for path in list(packages.files_in(target)):
        installers = path.name in OF_THE_INSTALLER and path.parent.suffix == ".dist-info"
        if installers or path.suffix in removed or path.name == ".lock":
            path.unlink()
    shutil.rmtree(target / "bin", ignore_errors=True)  # console scripts carry this machine's interpreter


def keep_services(models: Path) -> None:
    """Remove botocore's models of all services except SERVICES."""
    for service in list(models.iterdir()):
        if service.is_dir() and service.name not in SERVICES:
            shutil.rmtree(service)


def keep_interpreter(litert: Path) -> None:
    """Remove LiteRT's files except INTERPRETER, and the tests of NumPy beside it."""
    for path in list(litert.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in INTERPRETER:
            path.unlink()
    for tests in list(litert.parent.glob("numpy/**/tests")):
        shutil.rmtree(tests)


def installer(uv: str | None = None, platform: str = PURE) -> list[str]:
    """Return the command of uv that installs for a platform of functions instead of the running one. Return pip's
    command if uv is not installed or `uv` is ""."""
    found = (
        shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv") if uv is None else uv
    )
    python, _, machine = platform.partition("-")
    version = f"{python[2]}.{python[3:]}"
    wheels = ["--quiet", "--only-binary", ":all:", "--python-version", version]
    if found:
        words = ["--python-platform", f"{machine}-{GLIBC[0]}"]
        return [found, "pip", "install", "--python", sys.executable, *wheels, *words]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    return [*pip, *wheels, *(word for each in GLIBC for word in ("--platform", f"{each}_{machine}"))]
