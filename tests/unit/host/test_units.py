"""Units of a host: limits that programs inherit, and the end of a unit without memory (docs/contracts/programs.md)."""

from pathlib import Path

import pytest

from localcloud.machine.guest.units import parse_unit
from training import host

FOLDER = Path(host.__file__).parent
UNITS = ("trainyard-host.service", "dev/trainyard-jupyter.service", "amazon-ssm-agent.conf")
"""The agent with all programs, JupyterLab with its kernels, and Systems Manager's agent with all shells."""


@pytest.mark.parametrize("path", UNITS)
def test_units_that_run_what_users_bring_outlive_it_and_limit_nothing_that_it_needs(path: str) -> None:
    unit = parse_unit(Path(path).name, (FOLDER / path).read_text())
    settings = {
        key: unit.get("Service", key) for key in ("OOMPolicy", "TasksMax", "LimitMEMLOCK", "LimitCORE")
    }
    assert settings == {
        "OOMPolicy": "continue",
        "TasksMax": "infinity",
        "LimitMEMLOCK": "infinity",
        "LimitCORE": "0",
    }
    limits = {each.number: (each.soft, each.hard) for each in unit.limits()}
    assert (65_536, 524_288) in limits.values()
