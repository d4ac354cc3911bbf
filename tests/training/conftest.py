"""These tests train for real: they need TensorFlow and run in the environment that has it."""

import importlib.util
from collections.abc import Iterator

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("tensorflow") else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def killed_programs_leave_nothing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """AutoGraph removes its files from the folder for temporary ones only where its process comes to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
        yield
