"""Planted defects are found by an invariant or by a test."""

import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lambdas.aws.dynamodb import ledger
from lambdas.aws.dynamodb.ledger import Ledger
from lambdas.aws.dynamodb.write import Write, request_of
from lambdas.aws.ec2 import instances
from lambdas.steps import attempts, orders
from lambdas.steps.signals.context import SignalContext
from lambdas.workflows import signal
from simulation.cases.case import parse
from simulation.invariants.model import Invariant
from simulation.scenarios import SCENARIOS
from simulation.simulate import simulate
from simulation.template import YardTemplate
from tests.simulation.planted.defects import DEFECTS, Defect

ROOT = Path(__file__).parents[2]
SLICE = 3
"""Defects of the table tried with a commit; other commits try others. Each takes a process. `make planted` tries
all."""


def without_catch(yard: YardTemplate, state: str) -> YardTemplate:
    """Remove the Catch of all errors from a state of the train workflow."""
    machine = yard.machine("train")
    states = dict(machine.definition["States"])
    kept = [each for each in states[state]["Catch"] if each["ErrorEquals"] != ["States.ALL"]]
    states[state] = {**states[state], "Catch": kept}
    mended = replace(machine, definition={**machine.definition, "States": states})
    return replace(yard, machines={**yard.machines, machine.arn: mended})


def forgets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a wait store no task token."""
    monkeypatch.setattr(attempts, "token_row", lambda *_: Write("planted", "row", {"by": "a test"}, put=True))


def stops_at_the_first_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop terminating hosts after the first one that EC2 refuses."""

    def each(call: Callable[..., Any], ids: list[str], **_: Any) -> dict[str, str]:
        for instance in ids:
            call(InstanceIds=[instance])
        return {}

    monkeypatch.setattr(instances, "_each", each)


def writes_whatever_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the update of a host or a wait even if its row is missing."""
    monkeypatch.setattr(
        ledger, "request_of", lambda table, write: request_of(table, replace(write, only=None))
    )


def forgets_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat every signal as one of the current attempt."""
    stock = signal._context

    def context(message: Any, yard: Any, ledger: Ledger) -> SignalContext | None:
        found = stock(message, yard, ledger)
        records = ledger.read(found.run) if found else None
        return found.for_attempt(records.run.attempt) if found and records else found

    monkeypatch.setattr(signal, "_context", context)


def orders_by_systems_manager_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write no order to the bucket."""
    monkeypatch.setattr(orders, "_write", lambda bucket, order: True)


def invariants_broken_by(yard: YardTemplate, text: str) -> Iterator[Invariant]:
    case = parse(text)
    result = simulate(yard, SCENARIOS[case.scenario], seed=case.seed, faults=case.faults)
    return (broken.invariant for broken in result.broken)


def test_a_lost_catch_is_found(yard: YardTemplate) -> None:
    world = "train: host host-1 after started #1: dies"
    assert Invariant.SURVIVES not in invariants_broken_by(yard, world)
    assert Invariant.SURVIVES in invariants_broken_by(without_catch(yard, "Train"), world)


def test_a_missing_task_token_is_found(yard: YardTemplate, monkeypatch: pytest.MonkeyPatch) -> None:
    forgets_the_token(monkeypatch)
    assert Invariant.SURVIVES in invariants_broken_by(yard, "train")


def test_a_release_that_stops_at_the_first_error_is_found(
    yard: YardTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops_at_the_first_error(monkeypatch)
    assert Invariant.SURVIVES in invariants_broken_by(yard, "train: pool fleet request #1: grants too few")


def test_a_signal_that_ignores_its_attempt_is_found(
    yard: YardTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = (
        "train: host host-1 after progress #2: dies + event HostSignal stopped host-2 #1: late by 2 minutes"
    )
    assert list(invariants_broken_by(yard, world)) == []
    forgets_the_attempt(monkeypatch)
    assert Invariant.WITHIN_BUDGETS in invariants_broken_by(yard, world)


def test_an_order_by_systems_manager_only_is_found(
    yard: YardTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = "train: host host-1 boots: never registers with Systems Manager"
    assert list(invariants_broken_by(yard, world)) == []
    orders_by_systems_manager_alone(monkeypatch)
    assert Invariant.WITHIN_BUDGETS in invariants_broken_by(yard, world)


def test_a_lost_condition_of_the_ledger_is_found(yard: YardTemplate, monkeypatch: pytest.MonkeyPatch) -> None:
    world = (
        "train: request release#1/3 dynamodb.transact_write_items: "
        "the rows of all runs are deleted before the request"
    )
    assert list(invariants_broken_by(yard, world)) == []
    writes_whatever_is_there(monkeypatch)
    assert Invariant.TRUE_LEDGER in invariants_broken_by(yard, world)


def slice_of_commit() -> list[Defect]:
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    first = int(hashlib.sha256(asked.stdout.encode()).hexdigest()[:6], 16)
    return [DEFECTS[(first + number * len(DEFECTS) // SLICE) % len(DEFECTS)] for number in range(SLICE)]


@pytest.mark.parametrize("number", range(SLICE))
def test_a_defect_of_the_table_is_found(folder: Path, number: int) -> None:
    defect = slice_of_commit()[number]
    module = "tests.simulation.planted.planting"
    done = subprocess.run(
        [sys.executable, "-m", module, defect.name], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{defect.name} is not found: {done.stdout[-3000:]}{done.stderr[-3000:]}"


def test_each_defect_can_be_planted_and_is_in_the_docs() -> None:
    """A defect whose text has changed would plant nothing."""
    page = (ROOT / "docs" / "simulation.md").read_text()
    for defect in DEFECTS:
        assert (ROOT / defect.file).read_text().count(defect.old) == 1, defect.name
        assert defect.row in page.splitlines(), defect.row
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS) >= 30
