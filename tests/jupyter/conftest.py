"""JupyterLab in a separate environment, with the files that a bake adds on hosts."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import urllib3

from scripts.local_yard import ROOT

WHEELS = ROOT / ".tools/wheels"
MISSING = "no JupyterLab here: make jupyter"
OURS = ROOT / "training/jupyter"


@dataclass(frozen=True)
class Lab:
    """A running server. `outlook` is the file of the host's agent, `held` has the arguments of the host's command."""

    port: int
    token: str
    folder: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def outlook(self) -> Path:
        return self.folder / "idle.json"

    @property
    def held(self) -> Path:
        return self.folder / "held"

    @property
    def command(self) -> Path:
        return self.folder / "trainyard"

    @property
    def token_file(self) -> Path:
        return self.folder / "token"

    def ask(self, method: str, path: str, *, signed: bool = True, **said: Any) -> urllib3.BaseHTTPResponse:
        """Send a request with the token and a JSON body."""
        headers = {"Authorization": f"token {self.token}"} if signed else {}
        body, address = json.dumps(said).encode() if said else None, f"{self.address}{path}"
        return urllib3.request(method, address, headers=headers, body=body, timeout=60, retries=False)


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment of Python with JupyterLab and our extension."""
    if not (WHEELS / ".jupyter").exists():
        pytest.skip(MISSING)
    folder = tmp_path_factory.mktemp("jupyter") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--offline", "--no-index"]
    listed = ["--require-hashes", "--requirements", str(ROOT / "requirements/locks/jupyter.txt")]
    subprocess.run(
        [*uv, "--find-links", str(WHEELS), "--python", str(folder / "bin/python"), *listed], check=True
    )
    (packages,) = folder.glob("lib/python3*/site-packages")
    for source, target in (("etc", folder / "etc"), ("share", folder / "share"), ("packages", packages)):
        shutil.copytree(OURS / source, target, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def lab(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("home")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        lab = Lab(free.getsockname()[1], secrets.token_hex(16), folder)
    lab.token_file.write_text(f"{lab.token}\n")
    lab.command.write_text(f'#!/bin/sh\necho "$@" >> {lab.held}\necho this host is held\n')
    lab.command.chmod(0o755)
    options = {
        "ServerApp.port": lab.port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": folder,
        "ServerApp.allow_root": True,
        "ServerApp.open_browser": False,
        "IdleWarning.outlook": lab.outlook,
        "IdleWarning.command": lab.command,
    }
    home = {**os.environ, "HOME": str(folder), "JUPYTER_TOKEN": lab.token, "JUPYTER_PLATFORM_DIRS": "1"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [environment / "bin/jupyter-lab", *(f"--{name}={value}" for name, value in options.items())],
            env=home,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        _until_it_answers(lab, process)
        yield lab
    finally:
        process.terminate()
        process.wait(60)


def _until_it_answers(lab: Lab, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + 120
    while True:
        try:
            if lab.ask("GET", "/api/status").status == HTTPStatus.OK:
                return
        except urllib3.exceptions.HTTPError:
            failed = process.poll() is not None or time.monotonic() > ends
            assert not failed, (lab.folder / "log").read_text()
            time.sleep(0.2)
