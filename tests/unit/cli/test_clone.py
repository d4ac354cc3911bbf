"""The clone, or the unpacked sources, that deploys a yard and runs the local cloud."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import trainyard
from scripts.dist import DEPLOYED, ROOT
from trainyard.cli import clone
from trainyard.client.errors import NotHere


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that was installed from a wheel, in an empty folder of an empty home."""
    package = tmp_path / "site-packages" / "trainyard"
    for name in ("cdk.json", "scripts/deploy", "localcloud/__init__.py"):
        (package / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
        (package / "sources" / name).write_text("first")
    (package / "__init__.py").write_text("")
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(trainyard, "__file__", str(package / "__init__.py"))
    builds(monkeypatch, "first")
    return package


def builds(monkeypatch: pytest.MonkeyPatch, build: str) -> None:
    monkeypatch.setattr(clone, "distribution", lambda _: SimpleNamespace(read_text=lambda _: build))


def test_an_installed_package_unpacks_its_sources_once(installed: Path) -> None:
    folder = clone.find()
    assert folder.parts[-3:] == ("data", "trainyard", trainyard.__version__)
    assert (folder / "scripts/deploy").read_text() == "first"
    assert (folder / "trainyard/__init__.py").exists()
    assert not (folder / "trainyard/sources").exists()
    (folder / "scripts/deploy").write_text("changed by the user")
    assert clone.find() == folder
    assert (folder / "scripts/deploy").read_text() == "changed by the user"


def test_another_build_replaces_the_sources_and_keeps_environments_and_state(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = clone.find()
    for kept in (".venv/bin/python", ".localcloud/state"):
        (folder / kept).parent.mkdir(parents=True)
        (folder / kept).touch()
    (folder / "localcloud/removed.py").touch()
    (installed / "sources/scripts/deploy").write_text("second")
    builds(monkeypatch, "second")
    assert (clone.find() / "scripts/deploy").read_text() == "second"
    assert not (folder / "localcloud/removed.py").exists()
    assert (folder / ".venv/bin/python").exists()
    assert (folder / ".localcloud/state").exists()


def test_a_clone_around_the_current_folder_comes_first(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "docs")
    assert clone.find() == ROOT


def test_an_installation_without_sources_says_what_to_type(installed: Path, tmp_path: Path) -> None:
    (installed / "sources").rename(tmp_path / "lost")
    with pytest.raises(NotHere, match="pip install --force-reinstall trainyard"):
        clone.find()


def test_the_wheel_and_the_archive_carry_what_a_clone_needs() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["force-include"] == {name: f"trainyard/sources/{name}" for name in DEPLOYED}
    assert set(targets["sdist"]["only-include"]) == {"trainyard", *DEPLOYED}
    assert {mark.split("/")[0] for mark in clone.MARKS} <= set(DEPLOYED)
