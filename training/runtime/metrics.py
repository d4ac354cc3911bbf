"""What a run says about itself: lines in the log, progress for the host agent, TensorBoard events, metrics.json."""

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf

EVERY_SECONDS = 1.0


@dataclass(slots=True)
class History:
    """Sums of the epoch under way and the means of those that are over. Travels with the checkpoint."""

    epochs: list[dict[str, float]] = field(default_factory=list)
    loss: float = 0.0
    right: float = 0.0
    steps: int = 0

    def add(self, loss: float, accuracy: float) -> None:
        self.loss += loss
        self.right += accuracy
        self.steps += 1

    def close_epoch(self, epoch: int) -> dict[str, float]:
        steps = max(self.steps, 1)
        closed = {"epoch": epoch, "loss": self.loss / steps, "accuracy": self.right / steps}
        self.epochs.append(closed)
        self.loss, self.right, self.steps = 0.0, 0.0, 0
        return closed

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Reporter:
    """Says the first step after a start at once, then once a second, and the last. `events` is None on non-chiefs."""

    progress: Path
    events: Any
    steps: int
    per_epoch: int
    _said_at: float = 0.0
    _said_step: int = -1

    @staticmethod
    def of(progress: Path, tensorboard: Path | None, *, steps: int, per_epoch: int) -> "Reporter":
        progress.parent.mkdir(parents=True, exist_ok=True)
        events = tf.summary.create_file_writer(str(tensorboard)) if tensorboard else None
        return Reporter(progress, events, steps, per_epoch)

    def say(self, step: int, loss: float, accuracy: float) -> None:
        now = time.monotonic()
        if now - self._said_at < EVERY_SECONDS and step != self.steps:
            return
        pace = (step - self._said_step) / (now - self._said_at) if self._said_step >= 0 else None
        self._said_at, self._said_step = now, step
        facts = {
            "step": step,
            "steps": self.steps,
            "epoch": (step - 1) // self.per_epoch + 1,
            "loss": round(loss, 6),
            "accuracy": round(accuracy, 4),
        }
        if pace is not None:
            facts["steps_per_second"] = round(pace, 2)
        text = f"step {step}/{self.steps} epoch {facts['epoch']} loss {loss:.6f} accuracy {accuracy:.4f}"
        print(text + (f" {pace:.1f} steps/s" if pace is not None else ""), flush=True)
        with self.progress.open("a") as lines:
            lines.write(json.dumps(facts) + "\n")
        if self.events:
            with self.events.as_default(step):
                tf.summary.scalar("train/loss", loss)
                tf.summary.scalar("train/accuracy", accuracy)
            self.events.flush()

    def add_scalars(self, step: int, **values: float) -> None:
        """Further numbers for TensorBoard, from the chief."""
        if self.events:
            with self.events.as_default(step):
                for name, value in values.items():
                    tf.summary.scalar(name.replace("__", "/"), value)
            self.events.flush()


def write_metrics(path: Path, facts: dict[str, Any]) -> None:
    """metrics.json, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(json.dumps(facts, indent=1))
    half.replace(path)
