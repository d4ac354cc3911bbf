"""The measures of a host as instruments of OpenTelemetry."""

import re

from training.host.use import instruments
from training.host.use.instruments import OF_GPU, OF_HOST
from trainyard.core.model import host_use

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,254}")
"""The rule of OpenTelemetry's specification for names of instruments."""


def test_names_follow_the_rules_of_opentelemetry_and_one_name_has_one_unit() -> None:
    found = [*OF_HOST.values(), *OF_GPU.values()]
    assert all(NAME.fullmatch(each.name) and each.name == each.name.lower() for each in found)
    assert len({each.name for each in found}) == len({(each.name, each.unit, each.adds) for each in found})


def test_each_measure_of_a_host_has_an_instrument() -> None:
    assert set(host_use.UNITS) == {*OF_HOST, *OF_GPU}


def test_a_sample_becomes_points_in_base_units_at_its_time() -> None:
    values = {"memory": 2.5, "disk_read": 1.0, "gpu.0": 61.0, "gpu_memory.1": 2.0, "gpu_slowed.0": 8.0}
    found = list(instruments.of_use(12, values))
    assert [(each["instrument"], each["value"], each["at"], each["attributes"]) for each in found] == [
        ("system.memory.usage", 2.5e6, 12_000, {"system.memory.state": "used"}),
        ("trainyard.host.disk.rate", 1e6, 12_000, {"disk.io.direction": "read"}),
        ("hw.gpu.utilization", 0.61, 12_000, {"hw.id": "0", "hw.type": "gpu"}),
        ("hw.gpu.memory.usage", 2.0 * 2**20, 12_000, {"hw.id": "1", "hw.type": "gpu"}),
    ]


def test_the_name_of_a_scalar_is_an_attribute_because_it_may_be_any_text() -> None:
    name = "val/" + "Größe" * 100
    value, step = instruments.of_scalar({"metric": name, "step": 7, "value": 0.5, "at": 12})
    assert (value["instrument"], value["value"], value["attributes"]) == (
        "trainyard.program.scalar",
        0.5,
        {"trainyard.scalar.name": name},
    )
    assert (step["instrument"], step["value"], step["attributes"]) == ("trainyard.program.step", 7, {})
