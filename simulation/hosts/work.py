"""What the program of a simulated job does: read from `program.args` and the section `checkpoints` of its job."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from training.host.program.environment import FORM_SECONDS, FORM_SECONDS_WITH_SHARDS
from trainyard.core.model.job import Job
from trainyard.core.model.program import Sharding


@dataclass(frozen=True, kw_only=True)
class Work:
    """Arguments of the same names, with hyphens: `--steps 40 --step-seconds 1 --error-at 7`.

    A program that is `silent` neither reports nor prints; one that is `deaf` does not end at SIGTERM, one without a
    `handler` for it ends at once; one that `hoards` saves nothing; of one that `delegates` the chief waits for what the
    others compute. At `error_at` it ends with `exit_code` everywhere, or on `error_on` (`worker-1`) alone; at `hang_at`
    it stands still everywhere. `lacks` names a result that it does not leave."""

    steps: int = 40
    step_seconds: float = 1.0
    export_seconds: float = 2.0
    error_at: int = 0
    error_on: str = ""
    exit_code: int = 1
    hang_at: int = 0
    silent: bool = False
    deaf: bool = False
    handler: bool = True
    hoards: bool = False
    delegates: bool = False
    lacks: str = ""
    save_steps: int = 0
    save_seconds: float = 120.0
    form_seconds: float = FORM_SECONDS
    batch_size: int = 32

    @staticmethod
    def of(job: Job) -> "Work":
        """Arguments that it does not know are another program's."""
        given = job.program.args if isinstance(job.program.args, Mapping) else {}
        known: Mapping[str, Any] = {
            name: value
            for key, value in given.items()
            if (name := key.replace("-", "_")) in Work.__dataclass_fields__
        }
        sharded = any(data.sharding is Sharding.FILE for data in job.data.values())
        work = Work(
            save_steps=job.checkpoints.steps,
            save_seconds=job.checkpoints.seconds,
            form_seconds=FORM_SECONDS_WITH_SHARDS if sharded else FORM_SECONDS,
        )
        return replace(work, **known)

    def facts(self, step: int) -> dict[str, Any]:
        """What the program reports of a step."""
        return {
            "step": step,
            "steps": self.steps,
            "epoch": 1,
            "loss": round(2.0 / (step + 1), 6),
            "accuracy": round(step / (step + 10), 6),
            "steps_per_second": round(1 / self.step_seconds, 2) if self.step_seconds else 1000.0,
        }

    def resumed(self, step: int) -> dict[str, Any] | None:
        """What it reports beside, where it has restored; None on a fresh start."""
        if step <= 0:
            return None
        return {
            "step": step,
            "global_batch_size": self.batch_size,
            "epoch": 1,
            "batch": step,
            "verified": True,
        }

    def metrics(self, step: int) -> dict[str, Any]:
        """The metrics.json that it writes at its end."""
        facts = self.facts(step)
        return {
            "steps": step,
            "epochs": 1,
            "loss": facts["loss"],
            "accuracy": facts["accuracy"],
            "history": [{"epoch": 1, "loss": facts["loss"], "accuracy": facts["accuracy"]}],
        }
