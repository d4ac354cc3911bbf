"""Signals that arrive late, twice, or out of order leave the ledger as if each had arrived once and in order."""

import copy
import random
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.workflows.signalled_run import Run, run

__all__ = ["run"]

SAID: list[tuple[str, str, dict[str, Any]]] = [
    ("i-a", "ready", {"at": "12:00:00"}),
    ("i-b", "ready", {"at": "12:00:01"}),
    ("i-a", "started", {"at": "12:00:10", "role": "chief", "index": 0}),
    ("i-b", "started", {"at": "12:00:10", "role": "worker", "index": 1}),
    ("i-a", "progress", {"at": "12:00:20", "step": 10, "loss": 3.0, "resumed": {"step": 5}}),
    ("i-a", "checkpointed", {"at": "12:00:30", "step": 20, "key": "runs/r/checkpoints/20/"}),
    ("i-a", "progress", {"at": "12:00:31", "step": 21, "loss": 2.0}),
    ("i-a", "progress", {"at": "12:00:40", "step": 30, "loss": 1.0}),
    ("i-a", "checkpointed", {"at": "12:00:50", "step": 40, "key": "runs/r/checkpoints/40/"}),
    ("i-a", "progress", {"at": "12:00:51", "step": 41, "loss": 0.5}),
]
LEAVE: list[tuple[str, str, dict[str, Any]]] = [
    ("i-a", "stopped", {"at": "12:01:00", "step": 44, "why": "asked"}),
]


def send(run: Run, said: list[tuple[str, str, dict[str, Any]]]) -> dict[Any, dict[str, Any]]:
    """Handle these signals, and return the rows that are left."""
    for host, word, facts in said:
        at = f"2026-11-20T{facts['at']}.000Z"
        run.says(host, word, **{**facts, "at": at})
    return copy.deepcopy(run.account.table)


@pytest.mark.parametrize("seed", range(12))
def test_the_order_and_the_number_of_signals_change_nothing(run: Run, seed: int) -> None:
    begun = copy.deepcopy(run.account.table)
    once = send(run, [*SAID, *LEAVE])
    run.account.table.clear()
    run.account.table.update(begun)
    chance = random.Random(seed)
    storm = SAID * 3
    chance.shuffle(storm)
    again = send(run, [*storm, *LEAVE, *chance.sample(SAID, 4), *LEAVE])
    assert again == once
    assert run.row("attempt#0002")["checkpointed"] == 40
    assert run.row("attempt#0002")["started"] == "2026-11-20T12:00:10.000Z"
    assert (run.row("run")["progress"]["step"], run.row("run")["progress"]["at"][11:19]) == (44, "12:01:00")


def test_a_late_checkpoint_of_an_attempt_before_does_not_change_the_last_save(run: Run) -> None:
    run.put("token#0001#train", token="over", stored="2026-11-20T12:00:00.000Z")
    run.says("i-a", "checkpointed", step=182, at="2026-11-20T12:03:00.000Z")
    run.says("i-a", "checkpointed", step=20, attempt=1, at="2026-11-20T12:00:20.000Z")
    run.says("i-a", "checkpointed", step=20, at="2026-11-20T12:00:20.000Z")
    row = run.row("attempt#0002")
    assert (row["checkpointed"], row["saved"]) == (182, "2026-11-20T12:03:00.000Z")


def test_a_program_that_counts_down_is_shown_as_it_is_now(run: Run) -> None:
    run.says("i-a", "progress", step=50, at="2026-11-20T12:00:20.000Z")
    run.says("i-a", "progress", step=3, at="2026-11-20T12:00:30.000Z")
    assert run.row("run")["progress"]["step"] == 3


def test_a_late_or_repeated_signal_never_moves_the_objective_back(run: Run) -> None:
    def says(at: str, step: int, *points: tuple[int, float]) -> None:
        objective = [{"step": step, "epoch": step // 10, "value": value} for step, value in points]
        scalars = {"val_f1": points[-1][1] / 2}
        run.says("i-a", "progress", at=at, step=step, objective=objective, scalars=scalars)

    late = "2026-11-20T12:00:20.000Z", 25, (10, 0.5), (20, 0.75)
    says("2026-11-20T12:00:30.000Z", 35, (20, 0.75), (30, 0.25))
    says(*late)
    says(*late)
    assert run.row("run")["objective"] == {"step": 30, "epoch": 3, "value": Decimal("0.25")}
    assert run.row("run")["scalars"] == {"val_f1": Decimal("0.125")}


def test_the_objective_of_the_end_counts_without_a_step(run: Run) -> None:
    assert (
        run.says("i-a", "finished", scalars={"auc": 0.5}, objective=[{"step": 0, "value": "NaN"}])
        == "finished"
    )
    assert run.row("run")["objective"] == {"step": 0, "epoch": None, "value": "NaN"}


def test_a_finish_with_a_step_that_is_too_large_ends_the_run_and_its_timeline_says_so(run: Run) -> None:
    """Names of checkpoints in microseconds once cost three attempts, each after 150 s of silence."""
    assert run.says("i-a", "progress", step=1_764_000_000_000_000, loss=0.25) == "alive"
    assert (run.row("run")["progress"]["step"], run.row("run")["progress"]["loss"]) == (None, Decimal("0.25"))
    assert run.says("i-a", "finished", step=1_764_000_000_000_000) == "finished"
    assert run.row("attempt#0002")["ending"] == "finished"
    (told,) = [row for row in run.account.table.values() if row.get("event") == "finished"]
    assert "which is too large" in told["detail"]["left_out"]
