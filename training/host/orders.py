"""Orders to the agent, as small files under /run/trainyard/orders.

Each order arrives in two ways: by an SSM document and by the run's order.json (agent.standing_order). The agent may
receive it twice, and reads it again after a restart. It must carry it out once.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from training.host.paths import Paths
from trainyard.protocol import orders
from trainyard.protocol.orders import Order, OrderKind


def give(order: Order, paths: Paths) -> None:
    """Write the order for the agent, unless it already has the order of a later attempt."""
    paths.orders.mkdir(parents=True, exist_ok=True)
    with (paths.orders / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = latest(order.kind, paths)
        if there is None or there.run != order.run or there.attempt < order.attempt:
            write_whole(paths.orders / f"{order.kind}.json", json.dumps(orders.encode(order)))


def latest(kind: OrderKind, paths: Paths) -> Order | None:
    """Return the latest order of that kind."""
    path = paths.orders / f"{kind}.json"
    try:
        return orders.decode(path.read_text())
    except FileNotFoundError:
        return None


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Write a file so that readers see either the old text or the new one. The umask limits `mode`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.touch(mode)
    half.write_text(text)
    half.replace(path)


@contextmanager
def presence(paths: Paths) -> Iterator[None]:
    """Hold the lock of this host's only agent. A second agent waits until the first has ended."""
    with _lock(paths, fcntl.LOCK_EX):
        yield


@contextmanager
def _lock(paths: Paths, kind: int) -> Iterator[None]:
    paths.run.mkdir(parents=True, exist_ok=True)
    with (paths.run / "agent.lock").open("w") as lock:
        fcntl.flock(lock, kind)
        yield


def is_agent_running(paths: Paths, *, patience: float) -> bool:
    """Return True if an agent runs. Wait up to `patience` seconds for an agent that is being restarted."""
    end = time.monotonic() + patience
    while True:
        try:
            with _lock(paths, fcntl.LOCK_SH | fcntl.LOCK_NB):
                pass
        except BlockingIOError:
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.2)
