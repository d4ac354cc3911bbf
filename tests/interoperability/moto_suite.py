"""moto's own tests of EC2 and Systems Manager, from its source distribution on PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from scripts.local_yard import Cloud
from tests.interoperability.environment import installed
from tests.interoperability.result import Result, State

SUITES = ("tests/test_ec2", "tests/test_ssm")
NOT_OF_AWS = ("tests/test_ec2/test_server.py", "tests/test_ssm/test_server.py")
"""Tests of moto's own web server."""
BESIDE = ("pytest==9.2.0", "pytest-timeout==2.4.0", "freezegun==1.5.5")
TEST_SECONDS = 60
PLUGINS = Path(__file__).parent


def run(folder: Path, cloud: Cloud) -> list[Result]:
    source, report = _source(folder), folder / "report.xml"
    programs = installed(folder, f"moto[ec2,ssm]=={version('moto')}", *BESIDE)
    session = cloud.session()
    images = session.client("ec2").describe_images()["Images"]
    environment = os.environ | cloud.environment() | {
        "TEST_SERVER_MODE": "true",
        "TEST_SERVER_MODE_ENDPOINT": cloud.environment()["AWS_ENDPOINT_URL"],
        "MOTO_CALL_RESET_API": "false",
        "INTEROPERABILITY_IMAGE": images[0]["ImageId"],
        "PYTHONPATH": str(PLUGINS),
    }  # fmt: skip
    command = [
        str(programs / "python"), "-m", "pytest", "-q", "-p", "moto_on_local_cloud", "-p", "no:cacheprovider",
        "--timeout", str(TEST_SECONDS), "--junit-xml", str(report), *SUITES,
        *(f"--ignore={each}" for each in NOT_OF_AWS),
    ]  # fmt: skip
    with (folder / "pytest.log").open("w") as log:
        subprocess.run(command, cwd=source, env=environment, stdout=log, stderr=log, check=False)
    return [_result(case) for case in ElementTree.parse(report).getroot().iter("testcase")]


def _source(folder: Path) -> Path:
    """Return the folder of the source distribution of the installed moto."""
    name = f"moto-{version('moto')}"
    if not (folder / name).exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            "moto",
            "--dest",
            str(folder),
        ]
        subprocess.run([*pip, name.replace("-", "==")], check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return folder / name


def _result(case: ElementTree.Element) -> Result:
    group = case.get("classname", "").removeprefix("tests.")
    group = ".".join(group.split(".")[:2])
    name = f"{group}::{case.get('name')}"
    wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
    if wrong is not None:
        return Result(group, name, State.FAILED, wrong.get("message", "") or (wrong.text or ""))
    return Result(group, name, State.SKIPPED if case.find("skipped") is not None else State.PASSED)
