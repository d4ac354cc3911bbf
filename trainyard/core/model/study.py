"""The section `study` of a job file: the search for the best values of a job's parameters in several trials.

A trial is a run of the job with the values of one point. core/jobfile/study_rules.py has the rules between keys.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from trainyard.core.model.program import Scalar
from trainyard.core.model.program_fields import Argument
from trainyard.core.model.study_fields import ByPath, Interval, Point, Points, choices
from trainyard.protocol.objective import METRIC, Goal, Objective
from trainyard.protocol.trial import MOST_TRIALS
from trainyard.values.fields import Choice, Count, Number, Several, Text, key, required
from trainyard.values.lazy import dataclass
from trainyard.values.mappings import Record, Short, section_key

MOST_PARALLEL = 50
MOST_STUDY_DOLLARS = 1_000_000.0
MOST_RUNG = 1_000_000_000
MOST_SEED = 2**32 - 1
MOST_WARM = 10


class Sampler(StrEnum):
    """The way to draw the next point."""

    TPE = "tpe"
    CMAES = "cmaes"
    RANDOM = "random"
    GRID = "grid"
    NONE = "none"


class Unit(StrEnum):
    """The unit of rungs."""

    EPOCH = "epoch"
    STEP = "step"


class Rule(StrEnum):
    """The rule that stops a trial before its end."""

    MEDIAN = "median"
    HALVING = "successive_halving"
    HYPERBAND = "hyperband"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """The values that a study may give to one parameter: an interval or a choice."""

    range: tuple[float, float] | None = key(
        None, Interval(), "Numbers between a lowest and a highest value, as in `[0, 0.9]`."
    )
    log: tuple[float, float] | None = key(
        None,
        Interval(is_positive=True),
        "Numbers between two ends, drawn evenly by order of magnitude, as in `[1.0e-5, 0.1]`.",
    )
    integers: tuple[int, int] | None = key(
        None, Interval(is_whole=True), "Whole numbers from a lowest to a highest value, as in `[16, 256]`."
    )
    choice: tuple[Scalar, ...] | None = key(None, choices(2), "One of these values, as in `[sgd, adam]`.")
    step: float | None = key(
        None,
        Number(most=1e18, unit="the parameter's unit"),
        "The distance between the values of `range` or `integers`. It divides the interval into equal parts.",
        usual="1 for `integers`, none for `range`",
    )
    when: Mapping[str, tuple[Scalar, ...]] = key(
        {},
        ByPath(each=choices(1)),
        "The condition for this parameter: another parameter with a `choice` has one of these values, as in "
        "`{args.optimizer: [sgd]}`. Other trials leave this parameter out.",
    )

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the lowest and the highest value, or None for a choice."""
        return self.range or self.log or self.integers

    @property
    def spacing(self) -> float | None:
        """Return the distance between two values, or None if all numbers of the interval are allowed."""
        return self.step or (1 if self.integers else None)

    def allows(self, value: Scalar) -> bool:
        """Return True if a trial may have the value."""
        if self.choice:
            return any(value == each and type(value) is type(each) for each in self.choice)
        if isinstance(value, bool | str) or self.interval is None:
            return False
        low, high = self.interval
        if not low <= value <= high or (self.integers and not isinstance(value, int)):
            return False
        return self.spacing is None or is_multiple(value - low, self.spacing)

    @property
    def grid_size(self) -> int:
        """Return the number of values in the grid."""
        if self.choice or self.interval is None or self.spacing is None:
            return len(self.choice or ())
        low, high = self.interval
        return round((high - low) / self.spacing) + 1

    def grid(self) -> tuple[Scalar, ...]:
        """Return every value of a choice, of integers, or of a range with a step."""
        if self.choice:
            return self.choice
        assert self.interval, "a parameter has a choice or an interval"
        assert self.spacing, "a grid needs a step"
        values = (self.interval[0] + index * self.spacing for index in range(self.grid_size))
        return tuple(round(value) if self.integers else float(f"{value:.12g}") for value in values)

    def corners(self) -> tuple[Scalar, ...]:
        """Return the values that a job file must accept for the study to be valid."""
        return self.choice or tuple(self.interval or ())


def is_multiple(length: float, step: float) -> bool:
    """Return True if steps of this length make up the whole length, apart from rounding."""
    parts = length / step
    return abs(parts - round(parts)) <= 1e-9 * max(1.0, abs(parts))


@dataclass(frozen=True, kw_only=True)
class Pruner:
    """The comparison of trials at rungs, which stops the worse trials."""

    rule: Rule = key(
        Rule.MEDIAN,
        Choice(Rule),
        "`median`: at each rung, the worse half stops, once the rung has 4 values. `successive_halving` and "
        "`hyperband`, by Optuna: at each rung, only the best third continues, and the first trial of a rung always "
        "does; `hyperband` compares trials in groups, and some groups have later rungs. `none`: every trial trains to "
        "its end. `pruner: none` is short for `pruner: {rule: none}`.",
    )
    by: Unit = key(
        Unit.EPOCH, Choice(Unit), "Count rungs in epochs or in steps, as the program reports them."
    )
    start: int = key(
        4,
        Count(least=1, most=MOST_RUNG),
        "The first rung. Each later rung is three times as far as the one before: 4, 12, 36 and so on.",
    )
    end: int | None = key(
        None,
        Count(least=1, most=MOST_RUNG),
        "The last epoch or step of a trial, which `hyperband` needs.",
        usual="`program.args.epochs`",
    )


@dataclass(frozen=True, kw_only=True)
class Then:
    """The steps after the search."""

    retrain: Point | None = key(
        None,
        ByPath(each=Argument()),
        "Train once more with the values of the best trial and with these, as in `{args.epochs: 60}`. Its dollars "
        "(`limits.dollars`) are reserved from the beginning.",
    )


@dataclass(frozen=True, kw_only=True)
class StudyLimits:
    """The limits of a whole study."""

    dollars: float = field(
        metadata=required(
            Number(most=MOST_STUDY_DOLLARS, unit="dollars"),
            "The most that all trials may cost together. `limits.dollars` limits one trial.",
        )
    )
    hours: float = key(
        24.0,
        Number(most=720, unit="hours"),
        "The longest duration of the study. Then its running trials save and stop.",
    )


@dataclass(frozen=True, kw_only=True)
class Study:
    """A search for the best values of a job's parameters."""

    maximize: str | None = key(
        None,
        METRIC,
        "The metric whose highest value is the best: a number in the metrics.json of each trial, as in "
        "`val_accuracy`. A study has either `maximize` or `minimize`.",
        usual="required without `minimize`",
    )
    minimize: str | None = key(
        None,
        METRIC,
        "The metric whose lowest value is the best.",
        usual="required without `maximize`",
    )
    parameters: Mapping[str, Parameter] = key(
        {},
        ByPath(each=Record(Parameter)),
        "The values to search. A path `args.NAME` is an argument of the program, `environment.NAME` an environment "
        "variable.",
        usual="required",
    )
    sampler: Sampler = key(
        Sampler.TPE,
        Choice(Sampler),
        "How the next point is drawn, by [Optuna](https://optuna.org): `tpe`, `cmaes` (needs at least two parameters "
        "that are intervals without `when`), `random`, `grid`, which tries all combinations, or `none`: only the "
        "points of `first`, and those that users add with `trainyard study add`.",
    )
    first: tuple[Point, ...] = key(
        (),
        Points(),
        "Points to begin with, as in `[{args.lr: 0.01}]`. The sampler draws the parameters that a point leaves out; "
        "`none` draws them at random.",
    )
    pruner: Pruner = key(Pruner(), Short(Pruner, "rule"), "When to stop a trial before its end.")
    trials: int | None = key(
        None,
        Count(least=1, most=MOST_TRIALS),
        "The number of trials.",
        usual="`20`; with `grid` all combinations; with `none` the points of `first`",
    )
    parallel: int = key(
        1,
        Count(least=1, most=MOST_PARALLEL),
        "The number of trials at once, at most `most_runs` of the yard.",
    )
    limits: StudyLimits = field(metadata=required(Record(StudyLimits), "The limits of the study."))
    warm: tuple[str, ...] = key(
        (),
        Several(
            each=Text(r"[a-z][a-z0-9-]{0,63}", "the id of a study"),
            named=f"up to {MOST_WARM} ids of studies",
            most=MOST_WARM,
        ),
        "Earlier studies whose trials inform the sampler, as in `[digits-0a1b2c3d]`. Values that this study does not "
        "allow are left out, and a warning lists them.",
    )
    keep: int = key(
        1,
        Count(least=1, most=MOST_TRIALS),
        "The number of best trials whose model and checkpoints are kept after the end of the study. Stopped trials "
        "are worse than all complete ones. Metrics, logs and outputs of all trials are kept.",
    )
    then: Then = section_key(Then, "The steps after the search.")
    seed: int = key(
        1,
        Count(least=0, most=MOST_SEED),
        "The seed of the sampler. Equal seeds and equal results give equal points.",
    )

    @property
    def objective(self) -> Objective:
        """Return the objective of each trial."""
        goal = Goal.MINIMIZE if self.maximize is None else Goal.MAXIMIZE
        return Objective(metric=self.maximize or self.minimize or "", goal=goal)
