"""What a loop is to do, where in it a checkpoint stands, and what it has done. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One step that is done, for a program's own lines. `epoch` and `batch` (of `batches`) count from 1."""

    step: int
    steps: int
    epoch: int
    batch: int
    batches: int
    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`checkpoint_every` steps (0: never), or `checkpoint_seconds` by the chief's clock, whichever comes first.

    `step_delay` seconds after each step let a person watch. `each_step` is the chief's, in place of the loop's lines.
    """

    epochs: int
    global_batch_size: int
    seed: int
    checkpoint_every: int
    checkpoint_seconds: float
    step_delay: float = 0.0
    each_step: Callable[[Step], None] | None = None

    def is_due(self, step: int) -> bool:
        return self.checkpoint_every > 0 and step % self.checkpoint_every == 0

    def facts_at(self, step: int, steps_per_epoch: int) -> dict[str, Any]:
        """What a checkpoint says of this plan and of the place in the data."""
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
    """What was found in a checkpoint: `batch` batches of `epoch` were done. `verified`: files, variables and place
    in the data are those that were saved."""

    step: int
    global_batch_size: int
    epoch: int
    batch: int
    verified: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Trained:
    """`history`: for each epoch `epoch`, `loss` and `accuracy`, the means over its steps."""

    step: int
    steps: int
    history: list[dict[str, float]]


def resume(saved: Mapping[str, Any], plan: Plan, steps_per_epoch: int) -> Resumed:
    """Where to go on. Raises SystemExit when the checkpoint is not of this plan and these data."""
    step = int(saved["step"])
    for name, now in plan.facts_at(step, steps_per_epoch).items():
        if saved[name] != now:
            raise SystemExit(
                f"the checkpoint of step {step} was made with {name} {saved[name]}, now it is {now}: arguments, data "
                "and, where data are sharded by file, the number of workers must stay what they were; "
                "start a new run to change them"
            )
    return Resumed(step, plan.global_batch_size, saved["epoch"], saved["batch"], verified=True)
