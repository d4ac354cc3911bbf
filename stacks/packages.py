"""What is uploaded: the functions' code, their layer, and the software that hosts install.

Everything is put together under `build/` from the source tree alone, so the same commit makes the same assets.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"

SOFTWARE = (
    "training",
    "trainyard/__init__.py",
    "trainyard/hold.py",
    "trainyard/runtime",
    "requirements-host.txt",
    "requirements-host-local.txt",
    "requirements-host-tf-keras.txt",
)
"""What a bake installs on the builder, of `trainyard` what is for hosts; the second list is for base images without a
GPU."""

COMPILED = (".so", ".pyd", ".pyc")
LEFT_BEHIND = ["**/__pycache__"]
"""Where something ran from these folders (the benchmarks do): not for upload."""


def functions_folder() -> Path:
    """The package `lambdas`, alone in a folder: importable there as it is in this repository."""
    return _copied("functions", ["lambdas"])


def software_folder() -> Path:
    """The packages `training` and `trainyard.runtime` and the lists of what they need."""
    return _copied("software", SOFTWARE)


def layer_folder() -> Path:
    """The packages of requirements-lambda.txt under `python/`, made anew when that file changed.

    What is compiled is left out (PyYAML goes without): the layer fits every interpreter and both processors.
    """
    requirements = ROOT / "requirements-lambda.txt"

    def install(folder: Path) -> None:
        packages = folder / "python"
        command = [*_installer(), "--target", str(packages), "--requirement", str(requirements)]
        subprocess.run(command, check=True)
        for path in list(_files(packages)):
            if path.suffix in COMPILED:
                path.unlink()
        shutil.rmtree(
            packages / "bin", ignore_errors=True
        )  # console scripts carry this machine's interpreter

    return _made("layer", _hash([requirements, Path(__file__)], ROOT), install)


def software_hash(*more: str) -> str:
    """16 hexadecimal digits that change whenever the software that a bake installs does."""
    sources = _hash(_sources(SOFTWARE), ROOT)
    return hashlib.sha256("\0".join([sources, *more]).encode()).hexdigest()[:16]


def _copied(name: str, sources: Iterable[str]) -> Path:
    files = _sources(sources)

    def copy(folder: Path) -> None:
        for path in files:
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)

    return _made(name, _hash(files, ROOT), copy)


def _made(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The folder `build/<name>`, made by `make` unless it was made for this key. Two synths at once take turns."""
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
            shutil.rmtree(folder, ignore_errors=True)
            fresh.rename(folder)
        receipt.write_text(key)
    return folder


def _hash(files: Iterable[Path], root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root)}\0{content}\n".encode())
    return digest.hexdigest()


def _sources(names: Iterable[str]) -> list[Path]:
    """Every file of these files and folders of the repository, without what running them leaves behind."""
    paths = [ROOT / name for name in names]
    files = [file for path in paths for file in (_files(path) if path.is_dir() else [path])]
    return [file for file in files if "__pycache__" not in file.parts and file.suffix != ".pyc"]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _installer() -> list[str]:
    """uv where it is installed, pip otherwise: both know `--target` and `--requirement`."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--only-binary", ":all:"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    return [*pip, "--only-binary", ":all:"]
