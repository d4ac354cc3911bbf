import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.agent.host import Yard, become
from tests.contract.conftest import Cloud
from training.host import denials
from training.host.periodic import Repeat


@pytest.fixture(autouse=True)
def powered_off() -> Iterator[None]:
    """What an agent in this process does again and again ends with its test, as with a host's power: else each would
    ask for orders once a second until the last test is over."""
    yield
    for thread in threading.enumerate():
        if isinstance(thread, Repeat):
            thread._ended.set()


@pytest.fixture(autouse=True)
def denials_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host doubts a denial for 45 s (tests/unit/host/agent/test_retries.py)."""
    monkeypatch.setattr(denials, "GRACE_SECONDS", 0.0)


@pytest.fixture
def yard(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.endpoint)
    become(monkeypatch, cloud.root)
    made = Yard(cloud, tmp_path)
    yield made
    made.end()
