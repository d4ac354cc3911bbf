"""Uploads: the functions' code, their layer, and the software that hosts install.

Everything is built under `build/` from the source tree only, so one commit gives the same assets, byte by byte, with
any machine, Python, installer and umask.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from trainyard import locks

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

PYTHON = "3.13"
"""The Python version of functions."""
SOFTWARE = (
    "training",
    "trainyard",
    "requirements/host.txt",
    "requirements/host-local.txt",
    "requirements/locks/host.txt",
    "requirements/locks/host-local.txt",
    "requirements/locks/host-tf-keras.txt",
    "requirements/jupyter.txt",
    "requirements/locks/jupyter.txt",
)
"""Software that a bake installs, with the client for users of dev hosts; the local lists are for base images without
a GPU."""

FUNCTIONS = (
    "lambdas",
    "trainyard/__init__.py",
    "trainyard/archives.py",
    "trainyard/command_line.py",
    "trainyard/core",
    "trainyard/protocol",
    "trainyard/values",
)
"""The functions' code, with the part of `trainyard` that they share with hosts and client."""

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
    "cloudwatch", "dynamodb", "ec2", "iam", "kms", "lambda", "pricing", "s3", "service-quotas", "sns", "ssm",
    "stepfunctions", "sts",
)  # fmt: skip
"""AWS services that functions use. botocore has 400 more, which are three quarters of the layer, and are listed in
each cold start."""
LONG_AGO = 315532800
"""1980-01-01, the earliest time in a zip."""
NOT_UPLOADED = ["**/__pycache__"]
"""Traces of programs that ran in these folders, such as benchmarks. They are not uploaded."""


def functions_folder() -> Path:
    """Return a folder with FUNCTIONS only, importable as in this repository."""
    return _copy("functions", FUNCTIONS)


def software_folder() -> Path:
    """Return a folder with the packages `training` and `trainyard` and their requirements."""
    return _copy("software", SOFTWARE)


def layer_folder() -> Path:
    """Return a folder with the packages of requirements/lambda.txt under `python/`, rebuilt when that file or its
    lock changes. Compiled parts are omitted (PyYAML works without), so the layer fits every interpreter and both
    processors."""

    def install(folder: Path) -> None:
        install_layer(folder / "python", [*installer(), *_pinned("lambda.txt")])
        keep_services(folder / "python" / "botocore" / "data")

    return _make_once("layer", _hash([*_lists("lambda.txt"), Path(__file__)], ROOT), install)


def functions_platform() -> str:
    """Return the platform that functions of this deployment run on, as in `cp313-aarch64`."""
    return os.environ.get(PLATFORM_VARIABLE) or PLATFORM_OF_LAMBDA


def compiled_layer_folder(platform: str) -> Path:
    """Return a folder with the packages of requirements/study.txt under `python/`, compiled for this platform, rebuilt
    when that file or its lock changes. Packages that they name and never import are left out."""

    def install(folder: Path) -> None:
        command = [*installer(platform=platform), "--no-deps", *_pinned("study.txt")]
        install_layer(folder / "python", command, removed=(".pyc",))

    name = f"compiled-layer-{platform}"
    return _make_once(name, _hash([*_lists("study.txt"), Path(__file__)], ROOT), install)


def _lists(name: str) -> tuple[Path, Path]:
    """Return a list of requirements, and its lock."""
    return ROOT / "requirements" / name, ROOT / "requirements/locks" / name


def _pinned(name: str) -> list[str]:
    """Return the installer's arguments for a list: its lock with hashes, or the list itself if the lock is too old."""
    requirements, lock = _lists(name)
    missing = locks.find_changed(requirements.read_text(), lock.read_text())
    if missing:
        warnings.warn(locks.warning(requirements.name, missing), stacklevel=2)
        return ["--requirement", str(requirements)]
    return ["--require-hashes", "--requirement", str(lock)]


def install_layer(packages: Path, command: Sequence[str], *, removed: tuple[str, ...] = COMPILED) -> None:
    """Install with `command`, one of `installer()`'s with its arguments, and remove what depends on this machine, and
    the files with a suffix of `removed`."""
    subprocess.run([*command, "--target", str(packages)], check=True)
    for cache in list(packages.rglob("__pycache__")):
        shutil.rmtree(cache)
    for path in list(_files(packages)):
        installers = path.name in OF_THE_INSTALLER and path.parent.suffix == ".dist-info"
        if installers or path.suffix in removed or path.name == ".lock":
            path.unlink()
    shutil.rmtree(packages / "bin", ignore_errors=True)  # console scripts carry this machine's interpreter


def keep_services(models: Path) -> None:
    """Remove botocore's models of all services except SERVICES."""
    for service in list(models.iterdir()):
        if service.is_dir() and service.name not in SERVICES:
            shutil.rmtree(service)


def asset_hash(folder: Path) -> str:
    """Return the CDK's hash for the upload of this folder. CDK caches its own fingerprint by inode, time and size
    (`~/.cdk/cache/fingerprints`), and all files here have the same time, so a change of equal size could be missed."""
    return _hash((path for path in _files(folder) if "__pycache__" not in path.parts), folder)


def software_hash(*more: str) -> str:
    """Return 16 hexadecimal digits that change with the software of a bake."""
    sources = _hash(_sources(SOFTWARE), ROOT)
    return hashlib.sha256("\0".join([sources, *more]).encode()).hexdigest()[:16]


def _copy(name: str, sources: Iterable[str]) -> Path:
    files = _sources(sources)

    def copy(folder: Path) -> None:
        for path in files:
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)

    return _make_once(name, _hash(files, ROOT), copy)


def _make_once(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the folder `build/<name>`, made by `make` unless it exists for this key. Two synths at once take turns."""
    BUILD.mkdir(exist_ok=True)
    folder, receipt = BUILD / name, BUILD / f"{name}.sha256"
    with (BUILD / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir() and receipt.exists() and receipt.read_text() == key:
            return folder
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=f".{name}-") as place:
            fresh = Path(place) / name
            fresh.mkdir()
            make(fresh)
            even_out(fresh)
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
        receipt.write_text(key)
    return folder


def even_out(folder: Path) -> None:
    """Set times and modes of all files to fixed values, so that a zip is equal on any machine."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (LONG_AGO, LONG_AGO))


def _hash(files: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return digest.hexdigest()


def _sources(names: Iterable[str]) -> list[Path]:
    """Return every file of these files and folders of the repository, without state machines and compiled Python."""
    paths = [ROOT / name for name in names]
    files = [file for path in paths for file in (_files(path) if path.is_dir() else [path])]
    return [file for file in files if not file.name.endswith((".pyc", ".asl.json"))]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


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
