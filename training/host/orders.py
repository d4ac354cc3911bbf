"""Orders: what is asked of the agent, as small files under /run/trainyard/orders.

Each comes two ways: by a document of Systems Manager and by the run's order.json (agent.standing_order). So it may be
given twice, and is read again after a restart of the agent: doing it once is the agent's care.
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
    """Write the order for the agent, unless the order of a later attempt is there."""
    paths.orders.mkdir(parents=True, exist_ok=True)
    with (paths.orders / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        there = latest(order.word, paths)
        if there is None or there.run != order.run or there.attempt < order.attempt:
            write_whole(paths.orders / f"{order.word}.json", json.dumps(orders.encode(order)))


def latest(word: OrderKind, paths: Paths) -> Order | None:
    """Return the latest order of that kind."""
    path = paths.orders / f"{word}.json"
    try:
        return orders.decode(path.read_text())
    except FileNotFoundError:
        return None


def write_whole(path: Path, text: str, *, mode: int = 0o666) -> None:
    """Readers see the old text or the new, never half. `mode`: who may read it, as the umask lets them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.touch(mode)
    half.write_text(text)
    half.replace(path)


@contextmanager
def presence(paths: Paths) -> Iterator[None]:
    """Held by the one agent of this host while it lives; a second agent waits for the first to end."""
    with _lock(paths, fcntl.LOCK_EX):
        yield


@contextmanager
def _lock(paths: Paths, kind: int) -> Iterator[None]:
    paths.run.mkdir(parents=True, exist_ok=True)
    with (paths.run / "agent.lock").open("w") as lock:
        fcntl.flock(lock, kind)
        yield


def agent_is_there(paths: Paths, *, patience: float) -> bool:
    """Whether an agent lives here; waits up to `patience` seconds for one that is being restarted."""
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
