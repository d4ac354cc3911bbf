"""One deployed and baked yard on a local cloud of its own, for all whole-run tests of a session.

TRAINYARD_E2E_STATE=folder keeps that cloud's state between sessions, so that the second needs no bake.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.local import ROOT, Cloud, port_for
from tests.e2e.runs import Runs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    kept = os.environ.get("TRAINYARD_E2E_STATE")
    state = Path(kept) if kept else tmp_path_factory.mktemp("cloud")
    cloud = Cloud(state, port_for(0), Path(__file__).with_name("facts.yaml"))
    cloud.up()
    try:
        yield cloud
    finally:
        cloud.down()


@pytest.fixture(scope="session")
def runs(cloud: Cloud) -> Runs:
    yard = cloud.deployed()
    yard.bake(ROOT / yard.recipe).result()
    return Runs(cloud, yard)


@pytest.fixture(autouse=True)
def nothing_lives_on(runs: Runs) -> Iterator[None]:
    """Whatever a test did, no host may be left, and no fault may reach the next test."""
    yield
    runs.cloud.fault("clear")
    assert runs.living() == []
