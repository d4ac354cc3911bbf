"""The time limit of runs of other frameworks."""

import time
from collections.abc import Callable

from trainyard.client import Run

SECONDS = 800


def until(run: Run, true: Callable[[], object]) -> None:
    ends = time.monotonic() + SECONDS
    while not true():
        assert not run.json("summary.json"), run.why()
        assert time.monotonic() < ends, run.timeline
        time.sleep(0.5)
