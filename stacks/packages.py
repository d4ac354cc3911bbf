"""What is uploaded: the functions' code, their layer, and the software that hosts install.

Everything is put together under `build/` from the source tree alone, so the same commit makes the same assets.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"

SOFTWARE = ("training", "requirements-host.txt", "requirements-host-local.txt")
"""What a bake installs on the builder; the second list is for base images without a GPU."""

COMPILED = (".so", ".pyd")


def functions_folder() -> Path:
    """The package `lambdas`, alone in a folder: importable there as it is in this repository."""
    return _copy("functions", ["lambdas"])


def software_folder() -> Path:
    """The package `training` and the list of what it needs."""
    return _copy("software", SOFTWARE)


def layer_folder() -> Path:
    """The packages of requirements-lambda.txt under `python/`, made anew when that file changed.

    What is compiled is left out (PyYAML goes without): the layer fits every interpreter and both processors.
    """
    requirements = ROOT / "requirements-lambda.txt"
    folder, receipt = BUILD / "layer", BUILD / "layer.sha256"
    wanted = hashlib.sha256(requirements.read_bytes() + Path(__file__).read_bytes()).hexdigest()
    if receipt.exists() and receipt.read_text() == wanted and folder.is_dir():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    receipt.unlink(missing_ok=True)
    packages = folder / "python"
    subprocess.run([*_installer(), "--target", str(packages), "--requirement", str(requirements)], check=True)
    for path in list(_files(packages)):
        if path.suffix in COMPILED or path.suffix == ".pyc":
            path.unlink()
    shutil.rmtree(packages / "bin", ignore_errors=True)  # console scripts carry this machine's interpreter
    receipt.write_text(wanted)
    return folder


def recipe(*more: str) -> str:
    """16 hexadecimal digits that change whenever a baked image would come out otherwise."""
    digest = hashlib.sha256()
    folder = software_folder()
    for path in sorted(_files(folder)):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    for word in more:
        digest.update(word.encode() + b"\0")
    return digest.hexdigest()[:16]


def _copy(name: str, sources: Iterable[str]) -> Path:
    folder = BUILD / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in sources:
        path = ROOT / source
        if path.is_dir():
            shutil.copytree(
                path, folder / source, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
            )
        else:
            shutil.copy2(path, folder / source)
    return folder


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _installer() -> list[str]:
    """uv where it is installed, pip otherwise: both know `--target` and `--requirement`."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--only-binary", ":all:"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    return [*pip, "--only-binary", ":all:"]
