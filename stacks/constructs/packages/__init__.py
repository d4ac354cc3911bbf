"""Uploads: the functions' code, and the software that hosts install. layers.py makes their layers.

Everything is built under `build/` from the source tree only, so one commit gives the same assets, byte by byte, with
any machine, Python, installer and umask.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build"

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
    "requirements/locks/mlflow.txt",
    "requirements/locks/wandb.txt",
    "requirements/locks/otel.txt",
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


def asset_hash(folder: Path) -> str:
    """Return the CDK's hash for the upload of this folder. CDK caches its own fingerprint by inode, time and size
    (`~/.cdk/cache/fingerprints`), and all files here have the same time, so a change of equal size could be missed."""
    return hash_of((path for path in files_in(folder) if "__pycache__" not in path.parts), folder)


def software_hash(*more: str) -> str:
    """Return 16 hexadecimal digits that change with the software of a bake."""
    sources = hash_of(_sources(SOFTWARE), ROOT)
    return hashlib.sha256("\0".join([sources, *more]).encode()).hexdigest()[:16]


def _copy(name: str, sources: Iterable[str]) -> Path:
    files = _sources(sources)

    def copy(folder: Path) -> None:
        for path in files:
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)

    return make_once(name, hash_of(files, ROOT), copy)


def make_once(name: str, key: str, make: Callable[[Path], None]) -> Path:
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


def hash_of(files: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return digest.hexdigest()


def _sources(names: Iterable[str]) -> list[Path]:
    """Return every file of these files and folders of the repository, without state machines and compiled Python."""
    paths = [ROOT / name for name in names]
    files = [file for path in paths for file in (files_in(path) if path.is_dir() else [path])]
    return [file for file in files if not file.name.endswith((".pyc", ".asl.json"))]


def files_in(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
