"""The comparison of runs: the differences of their jobs, their results and their costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainyard.client.runs.metric_points import Loss, MetricPoints, samples_in
from trainyard.client.runs.progress import objective_in
from trainyard.core.model import states

if TYPE_CHECKING:
    from trainyard.client.run import Run
    from trainyard.client.trials import Trials

FIGURES = (
    "outcome",
    "steps",
    "loss",
    "accuracy",
    "objective",
    "steps_per_second",
    "seconds",
    "dollars",
    "restarts",
    "trials",
    "best",
)


@dataclass(frozen=True)
class Side:
    """A run or a study: its job by dotted keys, its figures, and samples of its curves by the names of the metrics.

    A study has the values, the figures and the curves of its best trial, with the time and the money of all trials."""

    run: str
    job: Mapping[str, Any]
    figures: Mapping[str, Any]
    samples: Mapping[str, MetricPoints]


@dataclass(frozen=True)
class Comparison:
    """The comparison of several runs. `differences` has the values of each run by the dotted key of the job, None for a
    missing value."""

    sides: tuple[Side, ...]
    differences: Mapping[str, tuple[Any, ...]]
    figures: Mapping[str, tuple[Any, ...]]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Return the names of all metrics with a curve, the loss first."""
        names = dict.fromkeys(name for side in self.sides for name in side.samples)
        return tuple(sorted(names, key=lambda name: name != "loss"))

    def curves(self, metric: str) -> dict[str, tuple[Loss, ...]]:
        """Return the curve of a metric for each run that has it."""
        return {run: points.curve for run, points in self.samples(metric).items()}

    def samples(self, metric: str) -> dict[str, MetricPoints]:
        """Return samples of a metric for each run that has it."""
        return {side.run: side.samples[metric] for side in self.sides if metric in side.samples}

    @classmethod
    def of(cls, sides: Sequence[Side]) -> Comparison:
        keys = dict.fromkeys(key for side in sides for key in side.job)
        values = {key: tuple(side.job.get(key) for side in sides) for key in keys}
        return cls(
            sides=tuple(sides),
            differences={
                key: found for key, found in values.items() if any(each != found[0] for each in found)
            },
            figures={name: tuple(side.figures.get(name) for side in sides) for name in FIGURES},
        )


def side_of(run: Run) -> Side:
    """Return the side of a run or of a study in a comparison."""
    trials = run.yard.trials(run.id)
    return _side_of_study(run, trials) if trials else _side_of_run(run)


def _side_of_study(run: Run, trials: Trials) -> Side:
    best, own = trials.best, _side_of_run(run)
    figures = {**own.figures, "dollars": trials.row.spent, "trials": trials.row.reported}
    row = run.yard.row(best.run_of(run.id)) if best else None
    if best is None or row is None:
        return replace(own, figures=figures)
    found = _side_of_run(replace(run, arn=row.execution_arn))
    values = {f"program.{path}": value for path, value in best.values.items()}
    kept = {name: figures[name] for name in ("outcome", "seconds", "dollars", "restarts", "trials")}
    return replace(
        own,
        job={**own.job, **values},
        figures={**found.figures, **kept, "objective": best.value, "best": best.run_of(run.id)},
        samples=found.samples,
    )


def _side_of_run(run: Run) -> Side:
    """Return the side of a run, from its files and its row."""
    summary, metrics, row = run.summary, run.latest_metrics, run.yard.row(run.id)
    progress = (row.progress if row else None) or {}
    said = {**{key: metrics.get(key, progress.get(key)) for key in ("loss", "accuracy", "steps_per_second")}}
    figures = {
        **{key: None if value is None else float(value) for key, value in said.items()},
        "outcome": summary.get("outcome")
        or states.word_for(row.state if row else "", row.kind if row else "train"),
        "steps": (summary.get("steps") or {}).get("done") or progress.get("step"),
        "seconds": summary.get("seconds"),
        "dollars": (summary.get("cost") or {}).get("dollars"),
        "restarts": summary.get("restarts"),
    }
    job = dict(flatten(run.json("job.json")))
    objective = objective_in(run.json("job.json"), row.objective if row else None, metrics)
    figures["objective"] = objective and objective[1]
    return Side(run.id, job, figures, samples_in(metrics))


def flatten(document: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value by its dotted key."""
    for key, value in document.items():
        name = f"{above}.{key}" if above else key
        if isinstance(value, Mapping):
            yield from flatten(value, name)
        else:
            yield name, value
