"""The table of `top`: the last values of each host and each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from trainyard.cli.output import terminal
from trainyard.cli.output.terminal import Column
from trainyard.core.model import host_use
from trainyard.core.model.host_use import HostUse, of_gpu

COLUMNS = (
    Column("role"), Column("host", 3), Column("GPU"), Column("GPU %", right=True), Column("GPU MB", 2, right=True),
    Column("°C", 5, right=True), Column("W", 5, right=True), Column("MHz", 6, right=True),
    Column("processors", right=True), Column("MB", 4, right=True), Column("input %", 1, right=True),
    Column("disk MB/s", 4, right=True), Column("network MB/s", 4, right=True), Column("at", 7),
)  # fmt: skip
OF_GPU = (host_use.GPU, host_use.GPU_MEMORY, host_use.CELSIUS, host_use.WATTS, host_use.MEGAHERTZ)
EMPTY = "No host has written its use yet. Hosts do so once a minute while the program runs."


def show(hosts: Sequence[HostUse]) -> None:
    """Print the table once."""
    if not hosts:
        terminal.note(EMPTY)
    terminal.table(COLUMNS, [*_rows(hosts)])


def made(hosts: Sequence[HostUse], width: int) -> Table | str:
    """Return the table for a live view."""
    return terminal.laid_out(COLUMNS, [*_rows(hosts)], width) if hosts else EMPTY


def as_json(host: HostUse) -> dict[str, Any]:
    """Return a host with all its values."""
    return {
        "instance": host.instance,
        "role": host.role,
        "processors": host.processors,
        "memory": host.memory,
        "gpus": host.gpus,
        "at": host.at,
        "columns": host.columns,
        "units": {name: host_use.UNITS.get(name.partition(".")[0], "") for name in host.columns},
    }


def _rows(hosts: Sequence[HostUse]) -> Iterator[list[str]]:
    """Yield a row for each GPU, and one for a host without GPUs."""
    for host in hosts:
        own = _own(host)
        for number in range(max(host.gpus, 1)):
            gpu = (
                [_last(host, of_gpu(measure, number)) for measure in OF_GPU]
                if host.gpus
                else [""] * len(OF_GPU)
            )
            head = [host.role, host.instance] if number == 0 else ["", ""]
            yield [*head, str(number) if host.gpus else "", *gpu, *(own if number == 0 else [""] * len(own))]


def _own(host: HostUse) -> list[str]:
    disk, network = (
        " / ".join(_last(host, name, digits=1) or "-" for name in pair)
        for pair in ((host_use.DISK_READ, host_use.DISK_WRITTEN), (host_use.RECEIVED, host_use.SENT))
    )
    busy = _last(host, host_use.PROCESSORS, digits=1)
    at = f"{datetime.fromtimestamp(host.at[-1], UTC):%H:%M:%S}" if host.at else ""
    return [
        f"{busy} of {host.processors}" if busy else "",
        _last(host, host_use.MEMORY),
        _last(host, host_use.INPUT),
        disk,
        network,
        at,
    ]


def _last(host: HostUse, name: str, *, digits: int = 0) -> str:
    values = host.columns.get(name) or [None]
    return "" if values[-1] is None else f"{values[-1]:,.{digits}f}"
