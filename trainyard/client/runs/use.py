"""The use of a run's hosts, from the files that they write once a minute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from trainyard.client.runs.usage import Measure, Usage
from trainyard.core.model import host_use
from trainyard.core.model.host_use import HostUse, of_gpu
from trainyard.protocol import keys

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment

MINUTE = 60
AT_ONCE = 16
CHARTS = {
    host_use.INPUT: "Wait for input",
    host_use.MEMORY: "Memory",
    host_use.DISK_READ: "Disk, read",
    host_use.DISK_WRITTEN: "Disk, written",
    host_use.RECEIVED: "Network, received",
    host_use.SENT: "Network, sent",
}
"""The titles of charts beside the charts of CloudWatch (usage.py)."""
GPU_CHARTS = {
    host_use.CELSIUS: "GPU temperature",
    host_use.WATTS: "GPU power",
    host_use.MEGAHERTZ: "GPU clock",
}


def use_of(yard: Deployment, run: str, attempt: int) -> tuple[HostUse, ...]:
    """Return the use of the hosts of an attempt, the chief first. Hosts that have written nothing yet are missing."""
    found = sorted(yard.bucket.keys(keys.use(run, attempt)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        texts = [*pool.map(yard.bucket.read, found)]
    return tuple(use for text in texts if text and (use := host_use.read(text)))


def charts_of(hosts: Sequence[HostUse]) -> tuple[Usage, ...]:
    """Return one chart for each measure that a host has recorded, with a value for each minute."""
    found = []
    for name, title in (CHARTS | GPU_CHARTS).items():
        series = {label: by_minute for host in hosts for label, by_minute in _series(host, name) if by_minute}
        times = tuple(sorted({at for by_minute in series.values() for at in by_minute}))
        if times:
            measure = Measure(title, host_use.UNITS[name], namespace="", metric="", seconds=MINUTE)
            values = {label: tuple(known.get(at) for at in times) for label, known in series.items()}
            found.append(Usage(measure, times, values))
    return tuple(found)


def _series(host: HostUse, name: str) -> Iterator[tuple[str, dict[int, float]]]:
    """Yield the values of the host by minute, or of each of its GPUs."""
    if name not in GPU_CHARTS:
        yield host.role, _by_minute(host, name)
    for number in range(host.gpus if name in GPU_CHARTS else 0):
        yield f"{host.role}, GPU {number}", _by_minute(host, of_gpu(name, number))


def _by_minute(host: HostUse, name: str) -> dict[int, float]:
    values = zip(host.at, host.columns.get(name, ()), strict=False)
    return {at // MINUTE * MINUTE: value for at, value in values if value is not None}
