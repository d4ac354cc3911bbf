"""Remove each permission of each role in turn. This takes most of an hour, so only `make permissions` collects it.

TRAINYARD_PERMISSIONS=pattern selects grants such as `TrainLaunchRole-ec2:CreateFleet`.
TRAINYARD_E2E_STATE has the same meaning as in tests/e2e.
"""

import os
import re
from functools import cache
from pathlib import Path

import pytest

from tests.e2e.conftest import READS, REGISTRIES, cloud, runs
from tests.infrastructure.assembly import Assembly
from tests.infrastructure.conftest import ROOT, synthesise
from tests.permissions.grants import grants
from tests.permissions.paths import ZONES

__all__ = ["cloud", "runs"]

LANE = os.environ.get("PYTEST_XDIST_WORKER", "alone")
ASSEMBLY: Path = ROOT / "build" / "permissions" / LANE
PATROLS = "PatrolRole-"


@cache
def synthesised() -> Assembly:
    """Synthesize with the zones and buckets of the deployed yard, so that statements have the same numbers."""
    return synthesise(ASSEMBLY, {"zones": ",".join(ZONES), "data_buckets": READS, "registries": REGISTRIES})


@pytest.fixture(scope="session")
def assembly() -> Assembly:
    return synthesised()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `grant` with the grants of runs, and `patrols_grant` with patrol's."""
    for name, of_patrol in (("grant", False), ("patrols_grant", True)):
        if name in metafunc.fixturenames:
            wanted = os.environ.get("TRAINYARD_PERMISSIONS", "")
            found = [grant for grant in grants(synthesised()) if re.search(wanted, str(grant))]
            of_this = [grant for grant in found if str(grant).startswith(PATROLS) == of_patrol]
            metafunc.parametrize(name, of_this, ids=str)
