"""What is uploaded is the same bytes from every machine: a deploy from another one updates nothing by itself."""

import hashlib
import io
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import aws_cdk as cdk
import pytest

from stacks import packages


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def zipped(folder: Path) -> str:
    """SHA-256 of a zip of it: of every name, time, mode and byte."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return hashlib.sha256(content.getvalue()).hexdigest()


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_uv_and_pip_make_the_same_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None) -> None:
    """On two machines that differ in what else a machine has to do with it, too."""
    uv = shutil.which("uv", path=str(packages.ROOT / ".venv/bin")) or shutil.which("uv")
    assert uv
    made = []
    for name, used, mask, compiles in (("uv", uv, 0o022, "1"), ("pip", "", 0o077, "0")):
        monkeypatch.setattr(packages, "BUILD", tmp_path / name)
        monkeypatch.setenv("UV_COMPILE_BYTECODE", compiles)
        command = packages.installer(used)
        monkeypatch.setattr(packages, "installer", lambda command=command: command)
        os.umask(mask)
        made.append(packages.layer_folder())
        monkeypatch.undo()
    by_uv, by_pip = made
    assert names_in(by_uv) == names_in(by_pip)
    assert zipped(by_uv) == zipped(by_pip)
    assert cdk.FileSystem.fingerprint(str(by_uv)) == cdk.FileSystem.fingerprint(str(by_pip))
    assert (by_uv / "python" / "boto3" / "__init__.py").is_file()


@pytest.mark.parametrize("which", ["functions_folder", "software_folder"])
def test_a_clone_made_under_another_umask_uploads_the_same(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None
) -> None:
    made = []
    for name, mask in (("one", 0o022), ("other", 0o077)):
        monkeypatch.setattr(packages, "BUILD", tmp_path / name)
        os.umask(mask)
        made.append(zipped(getattr(packages, which)()))
    assert made[0] == made[1]
