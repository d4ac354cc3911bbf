"""The measures of a host as instruments of OpenTelemetry. Pure.

OpenTelemetry's semantic conventions have names and units for some measures (`system.*`, `hw.*`). The names of the
others begin with `trainyard.`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainyard.core.model import host_use

PERCENT = 0.01
MEGABYTE, MEBIBYTE = 1e6, 2.0**20
SCALAR = "trainyard.program.scalar"
"""The values of all metrics of a program. The attribute SCALAR_NAME has the metric's name, which may be any text."""
SCALAR_NAME = "trainyard.scalar.name"
STEP = "trainyard.program.step"


@dataclass(frozen=True, slots=True)
class Instrument:
    """An instrument, and what one of the measure's units is in the instrument's unit."""

    name: str
    unit: str
    factor: float = 1.0
    attributes: Mapping[str, str] = field(default_factory=dict)
    adds: bool = False
    """True for an UpDownCounter, False for a Gauge."""


OF_HOST = {
    host_use.PROCESSORS: Instrument("trainyard.host.cpu.busy", "{cpu}"),
    host_use.MEMORY: Instrument(
        "system.memory.usage", "By", MEGABYTE, {"system.memory.state": "used"}, adds=True
    ),
    host_use.DISK_READ: Instrument(
        "trainyard.host.disk.rate", "By/s", MEGABYTE, {"disk.io.direction": "read"}
    ),
    host_use.DISK_WRITTEN: Instrument(
        "trainyard.host.disk.rate", "By/s", MEGABYTE, {"disk.io.direction": "write"}
    ),
    host_use.RECEIVED: Instrument(
        "trainyard.host.network.rate", "By/s", MEGABYTE, {"network.io.direction": "receive"}
    ),
    host_use.SENT: Instrument(
        "trainyard.host.network.rate", "By/s", MEGABYTE, {"network.io.direction": "transmit"}
    ),
    host_use.INPUT: Instrument("trainyard.program.input.wait", "1", PERCENT),
    host_use.OWN: Instrument("trainyard.program.cpu.busy", "{cpu}"),
    host_use.STEPS: Instrument("trainyard.program.step.rate", "{step}/s"),
}
OF_GPU = {
    host_use.GPU: Instrument("hw.gpu.utilization", "1", PERCENT),
    host_use.GPU_MEMORY: Instrument("hw.gpu.memory.usage", "By", MEBIBYTE, adds=True),
    host_use.CELSIUS: Instrument("hw.temperature", "Cel"),
    host_use.WATTS: Instrument("hw.power", "W"),
    host_use.MEGAHERTZ: Instrument("trainyard.gpu.clock.frequency", "Hz", 1e6),
    host_use.CLOCK: Instrument("trainyard.gpu.clock.utilization", "1", PERCENT),
    host_use.LINK: Instrument("trainyard.gpu.link.utilization", "1", PERCENT),
}


def of_use(at: int, values: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    """Yield the points of a sample. `at` counts seconds since 1970. Measures without an instrument are left out."""
    for column, value in values.items():
        measure, _, number = column.partition(".")
        instrument = OF_GPU.get(measure) if number else OF_HOST.get(measure)
        if instrument:
            gpu = {"hw.id": number, "hw.type": "gpu"} if number else {}
            yield point(instrument, value * instrument.factor, 1000 * at, {**instrument.attributes, **gpu})


def of_scalar(metric: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the points of one value of a program's metric: the value, and the step that the program had reached."""
    name = {SCALAR_NAME: metric["metric"]}
    yield point(Instrument(SCALAR, "1"), metric["value"], metric["at"], name)
    yield point(Instrument(STEP, "{step}"), metric["step"], metric["at"], {})


def point(instrument: Instrument, value: Any, at: int, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return a line of a feed. `at` counts milliseconds since 1970."""
    return {
        "instrument": instrument.name,
        "unit": instrument.unit,
        "adds": instrument.adds,
        "value": value,
        "at": at,
        "attributes": dict(attributes),
    }
