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
    """End the agent's threads with the test. On a host the power-off does that."""
    yield
    for thread in threading.enumerate():
        if isinstance(thread, Repeat):
            thread._ended.set()


@pytest.fixture(autouse=True)
def denials_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the 45 s for which a host retries a denial (tests/unit/host/agent/test_retries.py)."""
    monkeypatch.setattr(denials, "GRACE_SECONDS", 0.0)


@pytest.fixture
def yard(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.endpoint)
    become(monkeypatch, cloud.root)
    made = Yard(cloud, tmp_path)
    yield made
    made.end()
