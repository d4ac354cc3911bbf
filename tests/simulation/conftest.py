"""Fixtures: the yard as synthesised from this clone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulation import assembly
from simulation.cases import process
from simulation.template import YardTemplate


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.simulation)


@pytest.fixture(scope="session")
def folder() -> Path:
    return assembly.find_assembly()


@pytest.fixture(scope="module")
def yard(folder: Path) -> Iterator[YardTemplate]:
    with process.world_environment(folder) as prepared:
        yield prepared
