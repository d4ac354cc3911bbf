"""Uploads are the same bytes from every machine, so a deployment from another one updates nothing by itself."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from lambdas.needs import Compiled
from localcloud.machine.python import functions_platform
from stacks.constructs import packages
from stacks.constructs.packages import layers
from tests.infrastructure.assembly import Assembly


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def zipped(folder: Path) -> str:
    """Return the SHA-256 of a zip of the folder: of every name, time, mode and byte."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return hashlib.sha256(content.getvalue()).hexdigest()


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_uv_and_pip_make_the_same_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None) -> None:
    """Two machines with different umasks and caches make the same layer, too."""
    uv = shutil.which("uv", path=str(packages.ROOT / ".venv/bin")) or shutil.which("uv")
    assert uv
    made = []
    for name, used, mask, compiles in (("uv", uv, 0o022, "1"), ("pip", "", 0o077, "0")):
        monkeypatch.setattr(packages, "BUILD", tmp_path / name)
        monkeypatch.setenv("UV_COMPILE_BYTECODE", compiles)
        command = layers.installer(used)
        monkeypatch.setattr(layers, "installer", lambda command=command: command)
        os.umask(mask)
        made.append(layers.layer_folder())
        monkeypatch.undo()
    by_uv, by_pip = made
    assert names_in(by_uv) == names_in(by_pip)
    assert zipped(by_uv) == zipped(by_pip)
    assert packages.asset_hash(by_uv) == packages.asset_hash(by_pip)
    assert (by_uv / "python" / "boto3" / "__init__.py").is_file()


@pytest.mark.parametrize("platform", [layers.PLATFORM_OF_LAMBDA, functions_platform()])
def test_the_layer_for_predictions_is_litert_and_numpy_within_70_megabytes(platform: str) -> None:
    layer = layers.compiled_layer_folder("predict", platform) / "python"
    machine = platform.partition("-")[2]
    files = [path for path in packages.files_in(layer) if "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) <= 70e6
    assert {path.name for path in files if path.parent.name == "ai_edge_litert"} == {*layers.INTERPRETER}
    assert {name for name in names_in(layer) if "/tests/" in name} == set()
    assert any(name.endswith(f"{machine}-linux-gnu.so") for name in names_in(layer))


@pytest.mark.parametrize("platform", [layers.PLATFORM_OF_LAMBDA, functions_platform()])
def test_the_layer_of_studies_is_for_one_platform_and_without_what_a_study_never_imports(
    platform: str,
) -> None:
    python, _, machine = platform.partition("-")
    layer = layers.compiled_layer_folder("study", platform) / "python"
    modules = [name for name in names_in(layer) if name.endswith(".so") and "numpy/" in name]
    assert modules
    assert {name.partition(".")[2] for name in modules} == {f"cpython-{python[2:]}-{machine}-linux-gnu.so"}
    assert {"optuna", "cmaes", "numpy"} <= {path.name for path in layer.iterdir()}
    assert not {"sqlalchemy", "alembic"} & {path.name.lower() for path in layer.iterdir()}


def test_the_platform_is_lambdas_unless_the_environment_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(layers.PLATFORM_VARIABLE, raising=False)
    assert layers.functions_platform() == "cp313-aarch64"
    monkeypatch.setenv(layers.PLATFORM_VARIABLE, "cp311-x86_64")
    assert layers.functions_platform() == "cp311-x86_64"


def in_a_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy the sources of a layer."""
    source, root = Path(layers.__file__), packages.ROOT
    names = ("requirements/lambda.txt", "requirements/locks/lambda.txt", str(source.relative_to(root)))
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, folder / name)
    monkeypatch.setattr(layers, "__file__", str(folder / names[-1]))
    monkeypatch.setattr(packages, "ROOT", folder)
    monkeypatch.setattr(packages, "BUILD", folder / "build")


def test_a_list_that_somebody_has_changed_is_installed_as_it_says_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_copy(tmp_path, monkeypatch)
    changed = tmp_path / "requirements/lambda.txt"
    changed.write_text(changed.read_text().replace("PyYAML==6.0.3", "PyYAML==6.0.2"))
    with pytest.warns(UserWarning, match=r"pyyaml==6.0.2.*`make lock`"):
        layer = layers.layer_folder()
    assert "6.0.2" in next(iter((layer / "python").glob("[Pp]y[Yy][Aa][Mm][Ll]-*.dist-info"))).name


def test_what_is_not_the_file_that_the_lock_has_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_copy(tmp_path, monkeypatch)
    lock = tmp_path / "requirements" / "locks" / "lambda.txt"
    lock.write_text(re.sub(r"sha256:[0-9a-f]{8}", "sha256:00000000", lock.read_text()))
    with pytest.raises(subprocess.CalledProcessError):
        layers.layer_folder()
    assert not (tmp_path / "build" / "layer").exists()


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


def test_every_upload_is_called_by_its_content(yard: Assembly) -> None:
    """CDK caches its own fingerprints by inode, time and size, and all our files have one time, so an edit of equal
    size would deploy the old file."""
    uploads = [
        asset["source"]["path"]
        for listed in yard.folder.glob("*.assets.json")
        for asset in json.loads(listed.read_text())["files"].values()
        if asset["source"]["packaging"] == "zip"
    ]
    platform = layers.functions_platform()
    compiled = [layers.compiled_layer_folder(which, platform) for which in get_args(Compiled)]
    made = (packages.functions_folder(), layers.layer_folder(), *compiled, packages.software_folder())
    asked = {hashlib.sha256(packages.asset_hash(folder).encode()).hexdigest() for folder in made}
    assert set(uploads) == {f"asset.{each}" for each in asked}


def test_a_change_that_keeps_size_time_and_inode_is_another_upload(tmp_path: Path) -> None:
    file = tmp_path / "settings.py"
    hashes = []
    for text in ("MOST = 10", "MOST = 20"):
        file.write_text(text)
        packages.even_out(tmp_path)
        hashes.append((packages.asset_hash(tmp_path), file.stat().st_ino, file.stat().st_size))
    (before, *same), (after, *still) = hashes
    assert same == still
    assert before != after
