"""Processor time that the agent of a host spends on metrics and on the use of the host, for one minute of a program.

The program makes ten steps a second. At each it reports 20 metrics and writes 20 scalars for TensorBoard. It
prints 100 lines a second, which are only read if it reports nothing. nvidia-smi, which a host with GPUs calls every 20
seconds, is not measured.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from tests.support.event_files import event, simple, write
from training.host.agent.attempt import TICK_SECONDS
from training.host.agent.monitor import LINES_SHARE
from training.host.agent.uploads import LONG_INTERVAL_SECONDS
from training.host.agent.usage import SAMPLE_SECONDS
from training.host.bucket import Bucket
from training.host.disk import readable_files
from training.host.reporting.events import EventFiles
from training.host.reporting.metric_points import EVERY_SECONDS
from training.host.reporting.metrics import Metrics
from training.host.reporting.printed import PrintedLines, RecentLines
from training.host.reporting.progress import Progress
from training.host.share import Share
from training.host.use.sampling import Sampler

SECONDS, STEPS_A_SECOND, NAMES = 60, 10, tuple(f"train/metric_{number}" for number in range(20))
LINES_A_SECOND, REAL_SECONDS = 100, 10.0


@dataclass(frozen=True)
class Collected:
    """Seconds of a processor for one minute of a program."""

    what: str
    seconds: float


class Written:
    """A bucket that only counts the bytes it gets."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, key: str, body: bytes) -> None:
        self.size += len(body)


def measure() -> list[Collected]:
    """Measure each part by itself."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            Collected("reports", _reports(Path(folder))),
            Collected("printed lines", _printed_lines()),
            Collected("scalars for TensorBoard", _events(Path(folder) / "logs")),
            Collected("use of the host", _use(Path(folder))),
        ]


def _reports(folder: Path) -> float:
    """Read the reports once a second, and write all points every 30 s."""
    path, seconds = folder / "progress.jsonl", 0.0
    progress = Progress(path, started=0.0)
    metrics = Metrics(cast(Bucket, Written()), "run", progress.scalars)
    for second in range(SECONDS):
        with path.open("a") as lines:
            for step in range(second * STEPS_A_SECOND, (second + 1) * STEPS_A_SECOND):
                values = dict.fromkeys(NAMES, step / 7)
                lines.write(json.dumps({"step": step, "loss": 1 / (step + 1), **values}) + "\n")
        seconds += _timed(lambda: _take(progress, metrics))
        if (second + 1) % EVERY_SECONDS == 0:
            seconds += _timed(lambda: metrics.send(last=True))
    return seconds


def _take(progress: Progress, metrics: Metrics) -> None:
    for values in progress.update():
        metrics.add(values, datetime.now(UTC))


def _printed_lines() -> float:
    """Read for ten real seconds: a host reads only as many lines as its share of a processor allows."""
    lines, recent, share = PrintedLines(), RecentLines(), Share(LINES_SHARE)
    text = (
        "Epoch 1: {step}/600 [====>....] - 1s 3ms/step - loss: 0.3821 - accuracy: 0.8912 - val_loss: 0.4012"
    )
    began, step, before = time.monotonic(), 0, time.process_time()
    while time.monotonic() < began + REAL_SECONDS:
        for _ in range(round(LINES_A_SECOND * TICK_SECONDS)):
            step += 1
            recent.add(text.format(step=step))
        if share.is_left:
            with share.turn():
                for line in recent.take():
                    lines.metrics(line)
        time.sleep(TICK_SECONDS)
    return (time.process_time() - before) * SECONDS / REAL_SECONDS


def _events(folder: Path) -> float:
    files, seconds = EventFiles(lambda: readable_files(folder), folder, 0), 0.0
    progress = Progress(folder / "none", started=0.0)
    for begin in range(0, SECONDS, round(LONG_INTERVAL_SECONDS)):
        steps = range(begin * STEPS_A_SECOND, (begin + round(LONG_INTERVAL_SECONDS)) * STEPS_A_SECOND)
        write(
            folder / str(begin), *(event(step, *(simple(name, step / 7) for name in NAMES)) for step in steps)
        )
        seconds += _timed(lambda: _look(files, progress))
    return seconds


def _look(files: EventFiles, progress: Progress) -> None:
    for values in files.look():
        progress.see(values)
    for scalar in files.take_further():
        progress.add_further(scalar, is_printed=False)


def _use(folder: Path) -> float:
    sampler = Sampler(lambda: (os.getpid(),), folder / "waits")

    def sample() -> None:
        for number in range(round(SECONDS / SAMPLE_SECONDS)):
            sampler.sample(float(number))

    return _timed(sample)


def _timed(do: Callable[[], None]) -> float:
    """Return the seconds of a processor that a call takes."""
    before = time.process_time()
    do()
    return time.process_time() - before
