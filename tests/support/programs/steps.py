"""A training program without TensorFlow: counts steps, keeps checkpoints, reports progress. Standard library only.

It follows docs/contracts/programs.md, so a run of it shows only Trainyard's own behavior and cost. `--work` is the
number of kilobytes to hash in a step, and `--step-delay` the seconds to sleep in a step. `--first-delay` replaces it in
the first attempt, so that a fault meets a running program even on a slow machine. The chief takes its last step when
the file `--waits-for` exists.
"""

import argparse
import hashlib
import json
import math
import os
import shutil
import signal
import statistics
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

RESTART_ME = 75
BLOCK_SECONDS = 0.5

asked_to_leave = False


def main() -> int:
    """Run the remaining steps and return the exit code."""
    signal.signal(signal.SIGTERM, leave)
    given = arguments()
    chief = is_chief()
    checkpoints = Path(os.environ["TRAINYARD_CHECKPOINTS"])
    found = restored(checkpoints)
    step = int(found["step"]) if found else 0
    print(f"starting at step {step} of {given.steps}", flush=True)
    is_first = os.environ.get("TRAINYARD_ATTEMPT") == "1"
    delay = given.first_delay if is_first and given.first_delay else given.step_delay
    data = os.urandom(1024) * given.work
    report = Report(chief, given.steps, found)
    while step < given.steps:
        if asked_to_leave:
            save(checkpoints, step)
            print(f"asked to leave at step {step}", flush=True)
            return RESTART_ME
        if step == given.fail_at:
            raise RuntimeError(f"told to fail at step {step}")
        if chief and step == given.steps - 1 and not is_there(given.waits_for):
            time.sleep(0.1)
            continue
        hashlib.sha256(data).digest()
        time.sleep(delay)
        step += 1
        report.step(step)
        if chief and step % given.checkpoint_every == 0 and step < given.steps:
            save(checkpoints, step)
    if chief:
        finish(step, report)
        if given.events:
            write_events(step)
    print(f"finished at step {step}", flush=True)
    return 0


def arguments() -> argparse.Namespace:
    """Parse program.args."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step-delay", type=float, default=0.0)
    parser.add_argument("--first-delay", type=float, default=0.0)
    parser.add_argument("--waits-for", type=Path)
    parser.add_argument("--work", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=10)
    parser.add_argument("--fail-at", type=int, default=-1)
    parser.add_argument("--events", action="store_true")
    return parser.parse_args()


def is_there(file: Path | None) -> bool:
    """Return True if the file exists, or none was given."""
    return file is None or file.exists()


def is_chief() -> bool:
    """Return True on the chief; without TF_CONFIG, the only host is the chief."""
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    kind, index = str(task.get("type", "chief")), int(task.get("index", 0))
    return kind == "chief" or (kind == "worker" and index == 0)


def leave(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM: leave at the next step."""
    global asked_to_leave
    asked_to_leave = True


def restored(checkpoints: Path) -> dict[str, Any] | None:
    """Return the metadata of the latest checkpoint on disk, or None."""
    steps = sorted(int(folder.name) for folder in checkpoints.glob("[0-9]*") if folder.is_dir())
    if not steps:
        return None
    metadata: dict[str, Any] = json.loads(
        (checkpoints / f"{steps[-1]:08d}" / "trainyard-metadata.json").read_text()
    )
    return metadata


def save(checkpoints: Path, step: int) -> None:
    """Save a checkpoint, which appears by one rename."""
    target, half = checkpoints / f"{step:08d}", checkpoints / f".trainyard-partial-{step}"
    if target.exists():
        return
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    (half / "trainyard-metadata.json").write_text(
        json.dumps({"step": step, "loss": loss_at(step), "files": {}})
    )
    half.replace(target)


def loss_at(step: int) -> float:
    """Return the loss of a step, which falls and depends only on the step."""
    return 2.3 * math.exp(-step / 100)


class Report:
    """The chief's progress lines, one each half second, with their steps per second."""

    def __init__(self, chief: bool, steps: int, found: dict[str, Any] | None) -> None:
        self.path = Path(os.environ["TRAINYARD_PROGRESS"]) if chief else None
        self.steps = steps
        self.resumed = (
            {"step": found["step"], "verified": found["loss"] == loss_at(found["step"])} if found else None
        )
        self.history: list[dict[str, Any]] = []
        self._since = time.monotonic()
        self._steps = 0

    def step(self, step: int) -> None:
        """Count a step, and write a line if it is due."""
        self._steps += 1
        seconds = time.monotonic() - self._since
        if seconds < BLOCK_SECONDS and step < self.steps:
            return
        line = {"step": step, "steps": self.steps, "epoch": 1, "loss": loss_at(step)}
        line["steps_per_second"] = self._steps / max(seconds, 1e-6)
        self.history.append(line)
        print(f"step {step} loss {line['loss']:.6f}", flush=True)
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as lines:
                lines.write(json.dumps(line | ({"resumed": self.resumed} if self.resumed else {})) + "\n")
        self._since, self._steps = time.monotonic(), 0


def finish(step: int, report: Report) -> None:
    """Write metrics.json and a model of one file."""
    rates = [line["steps_per_second"] for line in report.history] or [0.0]
    metrics: dict[str, Any] = {
        "step": step,
        "steps": step,
        "epochs": 1,
        "loss": loss_at(step),
        "accuracy": 1.0,
    }
    metrics |= {"steps_per_second": statistics.median(rates), "history": report.history}
    model = Path(os.environ["TRAINYARD_MODEL"])
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.json").write_text(json.dumps({"step": step}))
    Path(os.environ["TRAINYARD_METRICS"]).write_text(json.dumps(metrics))


def write_events(step: int) -> None:
    """Write a file like TensorBoard's."""
    folder = Path(os.environ["TRAINYARD_TENSORBOARD"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.out.tfevents.steps").write_text(f"{step} steps")


if __name__ == "__main__":
    sys.exit(main())
