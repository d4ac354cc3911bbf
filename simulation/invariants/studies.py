"""Invariants of studies: caps hold at every write, each trial is reported once, and nothing runs after the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lambdas.aws.dynamodb.serialization import unpack
from lambdas.aws.dynamodb.studies import trial_of
from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item
from simulation.aws.stepfunctions import Execution, Status
from simulation.invariants.model import Invariant
from trainyard.protocol.ledger.study import STUDY, StudyRow
from trainyard.protocol.trial import study_of
from trainyard.values import serialization

if TYPE_CHECKING:
    from simulation.yard import Yard

OVERSHOOT = 0.05
"""The most dollars above the caps of all trials. A trial at its cap runs until patrol finds it."""


def is_study(execution: Execution) -> bool:
    """Return True for the execution of a study, even if its rows were deleted."""
    return execution.machine.name.endswith("-study")


def check_write(yard: Yard, key: Key, after: Item | None) -> str | None:
    """Return how the counters of a study exceed its limits; None if they do not."""
    if after is None or not key[0].startswith("study#") or key[1] != STUDY:
        return None
    row = serialization.from_json(StudyRow, unpack(after))
    if row.spent + row.lent > row.dollars + OVERSHOOT:
        return f"{key[0]} has spent ${row.spent} and lent ${row.lent} of ${row.dollars}"
    job = (yard.run_row(key[0].removeprefix("study#")) or {}).get("job") or {}
    parallel = (job.get("study") or {}).get("parallel")
    if parallel is not None and row.running > parallel:
        return f"{key[0]} runs {row.running} trials at once, but {parallel} are allowed"
    return None


def check_ends(yard: Yard) -> Iterator[tuple[Invariant, str]]:
    """Yield each study with a trial that still runs or is not reported, and each trial without a row."""
    executions = {each.name: each for each in yard.runs()}
    for name, execution in executions.items():
        study = study_of(name)
        if study and study in executions and execution.status is Status.RUNNING:
            yield Invariant.NO_ORPHAN, f"{name} runs after the end of its study"
    for name in executions:
        row = yard.run_row(name) or {}
        if row.get("kind") != STUDY or "ended" not in row or "cut_short" in row:
            continue
        for trial in (
            trial_of(each) for each in yard.rows(f"study#{name}") if each["sk"].startswith("trial#")
        ):
            if trial.state.is_open:
                yield (
                    Invariant.ONE_END,
                    f"trial {trial.number} of {name} is {trial.state} after the end of its study",
                )
            if trial.run_of(name) not in executions:
                yield (
                    Invariant.ONE_END,
                    f"trial {trial.number} of {name} is {trial.state} and was never started",
                )
