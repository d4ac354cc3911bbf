"""A deployed and baked yard whose hosts find the wheels of other frameworks: only `make frameworks` collects it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.local_yard import Cloud, port_for
from tests.e2e.conftest import furnished
from trainyard.client import Yard


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    cloud = Cloud(
        tmp_path_factory.mktemp("cloud"), port_for(0), Path(__file__).with_name("settings.yaml").absolute()
    )
    cloud.up()
    try:
        yield cloud
    finally:
        cloud.down()


@pytest.fixture(scope="session")
def yard(cloud: Cloud) -> Yard:
    return furnished(cloud)
