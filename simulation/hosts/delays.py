"""How long things take on a host: ranges in seconds. Each host draws its own values."""

from dataclasses import dataclass

Range = tuple[float, float]


@dataclass(frozen=True)
class Delays:
    boot: Range = (20.0, 60.0)
    register: Range = (5.0, 25.0)
    agent: Range = (1.0, 3.0)
    fetch: Range = (2.0, 8.0)
    order: Range = (0.3, 1.5)
    """From SendCommand to the end of the SSM document on the host."""
    prepare: Range = (0.5, 2.0)
    program: Range = (4.0, 10.0)
    """From the start of the program's process until it looks for its peers."""
    peer_gone: Range = (7.0, 15.0)
    """Until a program notices that a peer is gone."""
    upload: Range = (0.5, 3.0)
    results: Range = (1.0, 3.0)
    install: Range = (200.0, 500.0)
    test: Range = (100.0, 250.0)
    generalize: Range = (3.0, 10.0)
    wipe: Range = (1.0, 4.0)
    """From the tag that keeps the host until nothing of its run is left."""
    shut_down: Range = (2.0, 8.0)
