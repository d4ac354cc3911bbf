"""The behavior of a simulated program, read from `program.args` and the section `checkpoints` of its job."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from training.host.program.environment import FORM_SECONDS, FORM_SECONDS_WITH_SHARDS
from trainyard.core.model.job import Job
from trainyard.core.model.program import Sharding
from trainyard.protocol import conversions, serving

OF_MODULES: Mapping[str, Mapping[str, Any]] = {
    serving.PROGRAM: {"serves": True, "hoards": True},
    conversions.PROGRAM: {
        "silent": True,
        "steps": 1,
        "step_seconds": 20.0,
        "hoards": True,
        "lacks": "metrics",
    },
}
"""The behavior of the yard's own programs that train nothing."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The behavior of a program. Arguments have the same names with hyphens: `--steps 40 --step-seconds 1
    --error-at 7`."""

    steps: int = 40
    step_seconds: float = 1.0
    export_seconds: float = 2.0
    error_at: int = 0
    """The step at which the program fails with `exit_code`; 0: never."""
    error_on: str = ""
    """The only program that fails, e.g. `worker-1`; empty: all."""
    exit_code: int = 1
    hang_at: int = 0
    """The step at which all programs hang; 0: never."""
    silent: bool = False
    """The program neither reports nor prints."""
    deaf: bool = False
    """The program ignores SIGTERM."""
    handler: bool = True
    """The program handles SIGTERM; without a handler it ends at once."""
    hoards: bool = False
    """The program saves no checkpoints."""
    delegates: bool = False
    """The chief waits for what other programs compute."""
    lacks: str = ""
    """A result that the program does not leave."""
    save_steps: int = 0
    save_seconds: float = 120.0
    form_seconds: float = FORM_SECONDS
    batch_size: int = 32
    metric: str = ""
    """The metric that the program reports after each epoch, by default the job's objective. Empty: none."""
    epoch_steps: int = 10
    lr: float = 0.01
    """The learning rate. The metric is best at 0.01."""
    nan_at: int = 0
    """The first step at which the metric is NaN; 0: never."""
    serves: bool = False
    """The program serves a version, and leaves neither a model nor metrics."""
    model: str = ""
    version: int = 0
    label: str = ""
    """The version that it serves."""
    idle_seconds: float = 900.0

    @staticmethod
    def of(job: Job) -> "Work":
        """Return the behavior of a job. Unknown arguments belong to another program and are ignored."""
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
            metric=job.objective.metric if job.objective else "",
        )
        return replace(work, **OF_MODULES.get(job.program.module or "", {}), **known)

    def report(self, step: int) -> dict[str, Any]:
        """Return the report of a step."""
        if self.serves:
            return {"step": step, "predictions": step - 1}
        return {
            "step": step,
            "steps": self.steps,
            "epoch": 1,
            "loss": round(2.0 / (step + 1), 6),
            "accuracy": round(step / (step + 10), 6),
            "steps_per_second": round(1 / self.step_seconds, 2) if self.step_seconds else 1000.0,
        }

    def measured(self, begin: int, end: int) -> list[dict[str, Any]]:
        """Return the reports of the epochs that end after step `begin` and up to step `end`."""
        ends = range((begin // self.epoch_steps + 1) * self.epoch_steps, end + 1, self.epoch_steps)
        return [{"step": at, "epoch": at // self.epoch_steps, self.metric: self.value(at)} for at in ends]

    def value(self, step: int) -> float:
        """Return the metric at a step. It rises with the steps, up to 1 at the best learning rate."""
        if self.nan_at and step >= self.nan_at:
            return math.nan
        return round(step / (step + 10) / (1 + math.log10(self.lr / 0.01) ** 2), 6)

    def report_restore(self, step: int) -> dict[str, Any] | None:
        """Return the report about the restored checkpoint; None on a fresh start."""
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
        """Return the metrics.json that the program writes at its end."""
        values = self.report(step)
        return {
            "steps": step,
            "epochs": 1,
            "loss": values["loss"],
            "accuracy": values["accuracy"],
            **({self.metric: self.value(step)} if self.metric else {}),
            "history": [{"epoch": 1, "loss": values["loss"], "accuracy": values["accuracy"]}],
        }
