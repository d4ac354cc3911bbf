"""Processes that tests have started end with them, also after an interruption."""

import os
import subprocess
import sys
from pathlib import Path

from scripts.test import ROOT

STORY = """
import pytest

@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    kept = tmp_path_factory.mktemp("cloud")
    yield kept
    print("its own" if (tmp_path_factory.getbasetemp() / ".lock").exists() else "anybody's")

def test_it(folder):
    raise KeyboardInterrupt
"""


def test_fixtures_of_a_session_that_is_interrupted_end_while_its_folder_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text(STORY)
    options = ("-s", "-p", "tests.conftest", f"--rootdir={tmp_path}")
    environment = {**os.environ, "PYTEST_DEBUG_TEMPROOT": str(tmp_path), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "KeyboardInterrupt" in done.stdout, done.stdout + done.stderr
    assert "its own" in done.stdout, done.stdout
