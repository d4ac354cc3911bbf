"""A world that is a fork of its clean world equals the world run from the beginning, byte for byte."""

import os
import signal
from pathlib import Path

import pytest

from simulation.cases import findings
from simulation.cases.case import SIMULATOR, Case, Finding, parse
from simulation.simulate import Result
from simulation.template import YardTemplate

WORLDS = {
    "train": (
        "train: request train-launch#1/4 ec2.create_fleet: connection lost after the effect",
        "train: request train-admit#1/7 dynamodb.transact_write_items: transaction conflicts for 10 s",
        "train: request signal#5/3 dynamodb.transact_write_items: function killed before the request",
        "train: invocation train-launch#1: run twice at the same time",
        "train: event HostSignal ready host-1 #1: lost",
        "train: host host-2 boots: never registers with Systems Manager",
        "train: host host-1 after fetch #1: is interrupted with 30 s of notice",
        "train: host host-1 before ready #1: sends it twice",
        "train: pool fleet request #1: refuses for ten minutes",
        "train: state train Train #1: a user stops the execution",
        "train: pool fleet request #1: grants too few + host host-1 after started #1: dies",
    ),
    "bake": (
        "bake: request bake-launch#1/4 dynamodb.transact_write_items: throttled until botocore gives up",
    ),
    "snapshot": ("snapshot@3: state snapshot Conclude #1: the run's rows are deleted",),
    "patrol": (
        "patrol: event HostGoing stopping host-1 #1: twice",
        "patrol: host host-1 boots: boots after an hour",
    ),
}
NEVER_MET = ("train: host host-9 after started #1: dies", "train")


@pytest.mark.parametrize("scenario", WORLDS)
def test_a_fork_equals_the_world_run_from_the_beginning(
    yard: YardTemplate, folder: Path, scenario: str
) -> None:
    cases = [parse(text) for text in WORLDS[scenario]]
    forked = {each.case: each for each in findings.run_branches(folder, cases)}
    for case in cases:
        alone = findings.run_case(folder, case).finding
        assert (forked[case].digest, forked[case].injected) == (alone.digest, alone.injected)
        assert alone.injected == case.faults


def test_a_world_that_meets_no_fault_is_the_clean_one(yard: YardTemplate, folder: Path) -> None:
    strange, clean = findings.run_branches(folder, [parse(text) for text in NEVER_MET])
    assert strange.digest == clean.digest
    assert strange.injected == ()


@pytest.mark.parametrize("first", [0, 6], ids=["in turn", "forks"])
def test_a_world_that_kills_its_process_is_a_finding_and_the_others_continue(
    yard: YardTemplate, folder: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    killed, well = cases = [parse(text) for text in WORLDS["train"][first : first + 2]]
    stock = findings.make_finding

    def found(case: Case, result: Result) -> Finding:
        if case == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        return stock(case, result)

    monkeypatch.setattr(findings, "make_finding", found)
    by_case = {each.case: each.violations for each in findings.run_branches(folder, cases)}
    assert not by_case[well]
    [violation] = by_case[killed]
    assert (violation.invariant, violation.what) == (
        SIMULATOR,
        "its process ended with exit code -9 without a result",
    )
