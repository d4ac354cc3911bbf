from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.agent.host import Yard, become
from tests.contract.conftest import Cloud, Credentials


@pytest.fixture
def yard(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.endpoint)
    become(monkeypatch, Credentials())
    made = Yard(cloud, tmp_path)
    yield made
    made.end()
