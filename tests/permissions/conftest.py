"""Every permission of every role, taken away one by one: about an hour, so only `make permissions` collects it.

TRAINYARD_PERMISSIONS=pattern tries only grants like `LaunchRole-ec2:CreateFleet`; TRAINYARD_E2E_STATE as in tests/e2e.
"""

import os
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import cloud, runs
from tests.infrastructure.conftest import synthesise
from tests.permissions.grants import grants

__all__ = ["cloud", "runs"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "grant" in metafunc.fixturenames:
        folder = Path(metafunc.config.rootpath) / "build" / "permissions" / "assembly"
        wanted = os.environ.get("TRAINYARD_PERMISSIONS", "")
        found = [grant for grant in grants(synthesise(folder, {})) if re.search(wanted, str(grant))]
        metafunc.parametrize("grant", found, ids=str)
