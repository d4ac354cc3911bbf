"""Tests that train for real. They need TensorFlow and run in the environment that has it."""

import importlib.util
from collections.abc import Iterator

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def what_programs_start_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Set a folder for programs' temporary files, because AutoGraph leaves its files if a process is killed, and limit
    TensorFlow's log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
        yield
