"""`pip install .` installs the package trainyard and the requirements of its client."""

import email
import re
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import trainyard

ROOT = Path(__file__).parents[3]
SMALL = {
    "boto3",
    "pyyaml",
    "pathspec",
    "plotille",
    "rich",
    "typer",
    "jinja2",
    "starlette",
    "uvicorn",
    "websockets",
}
"""The allowed requirements of client, command and page. TensorFlow, CDK and moto are not among them."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel as pip does, without an index."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (made,) = folder.iterdir()
    return zipfile.ZipFile(made)


def facts(wheel: zipfile.ZipFile) -> Message:
    return email.message_from_bytes(wheel.read(f"trainyard-{trainyard.__version__}.dist-info/METADATA"))


def test_it_holds_every_file_of_the_package_and_no_other(wheel: zipfile.ZipFile) -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "trainyard").rglob("*") if path.is_file()}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    packed -= {
        name for name in packed if name.startswith("trainyard/sources/")
    }  # tests/unit/cli/test_clone.py
    assert packed == {name for name in files if "__pycache__" not in name}
    assert "trainyard/py.typed" in packed


def test_it_says_its_version_and_pulls_nothing_heavy(wheel: zipfile.ZipFile) -> None:
    said = facts(wheel)
    assert (said["Name"], said["Version"]) == ("trainyard", trainyard.__version__)
    needs = [Requirement(line) for line in said.get_all("Requires-Dist", [])]
    assert {need.name for need in needs if need.marker is None} == SMALL


def test_its_build_is_the_one_that_is_tested() -> None:
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert backend in (ROOT / "requirements/dev.txt").read_text().splitlines()


def test_the_extras_are_what_hosts_and_functions_run_on(wheel: zipfile.ZipFile) -> None:
    pins: dict[str, str] = {}
    for name in ("requirements/host.txt", "requirements/host-tf-keras.txt", "requirements/study.txt"):
        pins |= dict(re.findall(r"^([\w-]+)(?:\[.*\])?==(.*)$", (ROOT / name).read_text(), re.MULTILINE))
    needs = [Requirement(line) for line in facts(wheel).get_all("Requires-Dist", [])]
    extra = {need.name: need.specifier for need in needs if need.marker}
    assert set(extra) == {"tensorflow", "tf-keras", "optuna"}
    assert all(specifier.contains(pins[name]) for name, specifier in extra.items())


def test_importing_it_is_cheap() -> None:
    heavy = "{'tensorflow', 'numpy', 'boto3', 'aws_cdk', 'moto'}"
    asked = f"import sys, trainyard, trainyard.hold; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_without_tensorflow_the_runtime_says_what_to_install() -> None:
    asked = "import sys; sys.modules['tensorflow'] = None; from trainyard.runtime import start"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert "trainyard.runtime needs TensorFlow" in done.stderr
    assert "pip install '.[tensorflow]'" in done.stderr
