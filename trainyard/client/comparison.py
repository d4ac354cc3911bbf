"""The comparison of runs: the differences of their jobs, their results and their costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainyard.client.runs.progress import Loss, losses_in, objective_in
from trainyard.core.model import states

if TYPE_CHECKING:
    from trainyard.client.run import Run

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
)


@dataclass(frozen=True)
class Side:
    """One run: its job by dotted keys, its figures, and its loss curve."""

    run: str
    job: Mapping[str, Any]
    figures: Mapping[str, Any]
    losses: tuple[Loss, ...]


@dataclass(frozen=True)
class Comparison:
    """The comparison of several runs. `differences` has the values of each run by the dotted key of the job, None for a
    missing value."""

    sides: tuple[Side, ...]
    differences: Mapping[str, tuple[Any, ...]]
    figures: Mapping[str, tuple[Any, ...]]

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
    """Return the run's side of a comparison, from its files and its row."""
    summary, metrics, row = run.summary, run.metrics, run.yard.row(run.id)
    progress = (row.progress if row else None) or {}
    said = {**{key: metrics.get(key, progress.get(key)) for key in ("loss", "accuracy", "steps_per_second")}}
    figures = {
        **{key: None if value is None else float(value) for key, value in said.items()},
        "outcome": summary.get("outcome") or states.word_for(row.state if row else "", "train"),
        "steps": (summary.get("steps") or {}).get("done") or progress.get("step"),
        "seconds": summary.get("seconds"),
        "dollars": (summary.get("cost") or {}).get("dollars"),
        "restarts": summary.get("restarts"),
    }
    job = dict(flatten(run.json("job.json")))
    objective = objective_in(run.json("job.json"), row.objective if row else None, metrics)
    figures["objective"] = objective and objective[1]
    return Side(run.id, job, figures, tuple(losses_in(metrics)))


def flatten(document: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value by its dotted key."""
    for key, value in document.items():
        name = f"{above}.{key}" if above else key
        if isinstance(value, Mapping):
            yield from flatten(value, name)
        else:
            yield name, value
