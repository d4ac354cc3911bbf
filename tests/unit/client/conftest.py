"""Fixtures for tests of the client."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., None]:
    """git in the folder `src` of the test."""

    def run(*words: str, folder: Path = tmp_path / "src") -> None:
        who = (
            "-c",
            "user.name=Somebody",
            "-c",
            "user.email=somebody@example.com",
            "-c",
            "commit.gpgsign=false",
        )
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)

    return run
