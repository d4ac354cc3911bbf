"""The use of a host in one attempt: a file of columns, one for each measure, which the host writes once a minute.

Each column has one value for each time in `at`; null if the measure was unknown then. A file has at most MOST_SAMPLES
times: one more removes every second one.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PROCESSORS = "processors"
"""The number of busy processors."""
MEMORY = "memory"
"""Megabytes in use."""
DISK_READ, DISK_WRITTEN = "disk_read", "disk_written"
"""Megabytes a second."""
RECEIVED, SENT = "received", "sent"
"""Megabytes a second from and to the network."""
INPUT = "input"
"""The program's wait for its next batch, in percent of the time."""
OWN = "own"
"""The processors that the program uses or waits for; threads that wait for another host do not count."""
STEPS = "steps_per_second"
GPU, GPU_MEMORY, CELSIUS, WATTS, MEGAHERTZ = "gpu", "gpu_memory", "gpu_celsius", "gpu_watts", "gpu_mhz"
"""The measures of a GPU: its use in percent, megabytes, temperature, power and clock. The number of the GPU follows:
`gpu_watts.0`."""
CLOCK, SLOWED, LINK = "gpu_clock", "gpu_slowed", "gpu_link"
"""More measures of a GPU: its clock in percent of the highest, the reasons for a lower clock (SLOWDOWNS; 0 for none),
and the bandwidth of its link to the processors in percent of the best one."""
THERMAL = 0x20 | 0x40
POWER_BRAKE = 0x80
SLOWDOWNS = 0x08 | THERMAL | POWER_BRAKE
"""Reasons for a lower clock that are faults, as bits of NVML (nvmlClocksEventReason): the GPU is too hot, its power
supply brakes it, or its hardware slows it down for any reason. A limit of power that the user set is none."""
UNITS: Mapping[str, str] = {
    GPU: "%", GPU_MEMORY: "MB", CELSIUS: "°C", WATTS: "W", MEGAHERTZ: "MHz", CLOCK: "%", LINK: "%",
    PROCESSORS: "processors", MEMORY: "MB", INPUT: "%", OWN: "processors", STEPS: "steps/s",
    DISK_READ: "MB/s", DISK_WRITTEN: "MB/s", RECEIVED: "MB/s", SENT: "MB/s",
}  # fmt: skip
"""The units of all measures, in the order of tables."""
MOST_SAMPLES = 400


def of_gpu(measure: str, number: int) -> str:
    """Return the name of the column of one GPU."""
    return f"{measure}.{number}"


@dataclass(slots=True)
class HostUse:
    """The use of one host in one attempt."""

    instance: str
    role: str
    """The role and index: `worker 0`."""
    processors: int
    """The number of processors."""
    memory: int
    """Megabytes of memory."""
    gpus: int
    """The number of GPUs whose use is known."""
    at: list[int]
    """Seconds since 1970."""
    columns: dict[str, list[float | None]]

    def add(self, at: int, values: Mapping[str, float]) -> None:
        """Add a sample. Remove every second one if there are too many."""
        if len(self.at) >= MOST_SAMPLES:
            self.at = self.at[::2]
            self.columns = {name: column[::2] for name, column in self.columns.items()}
        for name in values.keys() - self.columns.keys():
            self.columns[name] = [None] * len(self.at)
        self.at.append(at)
        for name, column in self.columns.items():
            column.append(values.get(name))

    def column(self, name: str, *, last: int | None = None) -> list[float]:
        """Return the known values of a measure, of all times or of the last ones."""
        values = self.columns.get(name, [])
        return [value for value in (values[-last:] if last else values) if value is not None]

    def mean(self, name: str, *, last: int | None = None) -> float | None:
        """Return the mean of the known values; None if there is none."""
        values = self.column(name, last=last)
        return sum(values) / len(values) if values else None

    def gpu_mean(self, measure: str = GPU, *, last: int | None = None) -> float | None:
        """Return the mean of a measure over all GPUs; None if a GPU does not report it, or without a GPU."""
        means = [self.mean(of_gpu(measure, number), last=last) for number in range(self.gpus)]
        known = [mean for mean in means if mean is not None]
        return sum(known) / len(known) if known and len(known) == len(means) else None

    def to_text(self) -> str:
        rounded = {
            name: [None if value is None else round(value, 2) for value in column]
            for name, column in self.columns.items()
        }
        return json.dumps(
            {
                "instance": self.instance,
                "role": self.role,
                "processors": self.processors,
                "memory": self.memory,
                "gpus": self.gpus,
                "at": self.at,
                "columns": rounded,
            },
            separators=(",", ":"),
        )


def read(text: str | bytes) -> HostUse | None:
    """Parse a file. Programs may write there, so return None for any other content."""
    try:
        found = json.loads(text)
        use = HostUse(
            instance=str(found["instance"]),
            role=str(found["role"]),
            processors=int(found["processors"]),
            memory=int(found["memory"]),
            gpus=int(found["gpus"]),
            at=[int(at) for at in found["at"]],
            columns={
                str(name): [_number(value) for value in column] for name, column in found["columns"].items()
            },
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    has_all = all(len(column) == len(use.at) for column in use.columns.values())
    return use if has_all and len(use.at) <= 2 * MOST_SAMPLES else None


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
