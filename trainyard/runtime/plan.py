"""The plan of a training loop, and the positions and results in it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step, for a program's own output."""

    step: int
    steps: int
    epoch: int
    """Counts from 1."""
    batch: int
    """Counts from 1."""
    batches: int
    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a training loop."""

    epochs: int
    global_batch_size: int
    seed: int
    checkpoint_every: int
    """Steps between checkpoints; 0 turns this off."""
    checkpoint_seconds: float
    """Seconds between checkpoints by the chief's clock. The earlier of the two limits counts."""
    step_delay: float = 0.0
    """Seconds to wait after each step."""
    each_step: Callable[[Step], None] | None = None
    """Called on the chief after each step, instead of the loop's own output."""

    def is_due(self, step: int) -> bool:
        return self.checkpoint_every > 0 and step % self.checkpoint_every == 0

    def metadata_at(self, step: int, steps_per_epoch: int) -> dict[str, Any]:
        """Return what a checkpoint records of the plan and of the position in the data."""
        return {
            "step": step,
            "seed": self.seed,
            "global_batch_size": self.global_batch_size,
            "steps_per_epoch": steps_per_epoch,
            "epoch": step // steps_per_epoch + 1,
            "batch": step % steps_per_epoch,
        }


@dataclass(frozen=True, slots=True)
class Resumed:
    """The position of a restored checkpoint."""

    step: int
    global_batch_size: int
    epoch: int
    batch: int
    """Finished batches of `epoch`."""
    verified: bool
    """True if files, variables and position equal the saved ones."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training loop."""

    step: int
    steps: int
    history: list[dict[str, float]]
    """`epoch`, and the means of `loss` and `accuracy`, for each epoch."""


def resume(saved: Mapping[str, Any], plan: Plan, steps_per_epoch: int) -> Resumed:
    """Return the position to continue from. Raises SystemExit if the checkpoint has another plan or other data."""
    step = int(saved["step"])
    for name, now in plan.metadata_at(step, steps_per_epoch).items():
        if saved[name] != now:
            raise SystemExit(
                f"the checkpoint of step {step} has {name} {saved[name]}, but the program has {now}: arguments, data "
                "and, for data sharded by file, the number of workers must not change; "
                "start a new run to change them"
            )
    return Resumed(step, plan.global_batch_size, saved["epoch"], saved["batch"], verified=True)
