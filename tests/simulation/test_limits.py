"""The limits of a yard: the order of runs, waiting and refusals, and that a slot is never given twice."""

import functools
import re
from datetime import timedelta

import pytest

from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item, plain
from simulation.aws.ec2.model import Instance
from simulation.cases import forks
from simulation.faults import singles
from simulation.scenario import Scenario, job
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard
from trainyard.protocol.tags import Tag

TWO = {"strategy": "multi_worker", "workers": 2}
PROGRAM = {"module": "training.programs.digits", "args": {"steps": 10, "step-seconds": 2.0}}
"""As short as possible, because the test concerns only the start and the end of runs."""
OTHERS = 6


class Crowd:
    """Runs of two hosts, uploaded `apart` seconds apart; counts the most hosts at once."""

    def __init__(self, runs: int, *, wait_minutes: float = 60, apart: float = 0.0) -> None:
        self.runs, self.wait_minutes, self.apart = runs, wait_minutes, apart
        self.most = 0
        self.scenario = Scenario(
            "limits", "", self.begin, gang=2, longest=timedelta(hours=6), over=self.is_over
        )

    def begin(self, yard: Yard) -> None:
        limits = {"hours": 2, "dollars": 20, "restarts": 3, "wait_minutes": self.wait_minutes}
        for number in range(self.runs):
            body = job(f"r{number}", TWO, limits=limits, program=PROGRAM)
            upload = functools.partial(yard.people.upload, f"jobs/r{number}.json", body)
            yard.after(1 + number * self.apart, upload, "an upload")
        yard.ec2.on_change.append(lambda _: self.count(yard))

    def count(self, yard: Yard) -> None:
        live = sum(each.state in ("pending", "running") for each in yard.ec2.instances.values())
        self.most = max(self.most, live)

    def is_over(self, yard: Yard) -> bool:
        return len(yard.runs()) >= self.runs and yard.all_over()


def simulate_runs(
    template: YardTemplate, runs: int, *, wait_minutes: float = 60, apart: float = 0.0
) -> tuple[Result, int]:
    crowd = Crowd(runs, wait_minutes=wait_minutes, apart=apart)
    return simulate(template, crowd.scenario), crowd.most


@pytest.mark.parametrize("limits", [{"most_runs": 2, "most_hosts": 0}, {"most_runs": 0, "most_hosts": 5}])
@pytest.mark.parametrize("apart", [0.0, 0.05, 7.0])
def test_runs_wait_for_a_slot_and_all_get_one(
    yard: YardTemplate, limits: dict[str, int], apart: float
) -> None:
    result, most = simulate_runs(yard.with_limits(**limits), OTHERS, apart=apart)
    assert not result.broken
    assert result.outcome.count("SUCCEEDED") == OTHERS
    assert most == 4


class Launches:
    """The names of jobs in the order of their first hosts. `waits` has the first wait of each job's run."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.waits: dict[str, tuple[int, int, str]] = {}

    def look_at_row(self, table: str, key: Key, before: Item | None, after: Item | None) -> None:
        name = key[0].removeprefix("run#").partition("-")[0]
        if key[1] == "run" and after and "waiting" in after and name not in self.waits:
            row = plain(after["waiting"])
            self.waits[name] = int(row["position"]), int(row["queued"]), row["reason"]

    def look(self, instance: Instance) -> None:
        name = instance.tags.get(Tag.RUN, "").partition("-")[0]
        if name and name not in self.order:
            self.order.append(name)


PRIORITIES = {"r0": 0, "r1": 10, "r2": 50, "r3": 90, "r4": 50, "r5": 100}


@pytest.mark.parametrize("limits", [{"most_runs": 1, "most_hosts": 0}, {"most_runs": 0, "most_hosts": 3}])
def test_waiting_runs_start_by_priority_and_a_running_run_keeps_its_slot(
    yard: YardTemplate, limits: dict[str, int]
) -> None:
    launches = Launches()

    def begin(world: Yard) -> None:
        world.ec2.on_change.append(launches.look)
        world.dynamodb.on_change.append(launches.look_at_row)
        for number, (name, priority) in enumerate(PRIORITIES.items()):
            waits = {"hours": 2, "dollars": 20, "wait_minutes": 120}
            body = job(name, TWO, program=PROGRAM, limits=waits, priority=priority)
            upload = functools.partial(world.people.upload, f"jobs/{name}.json", body)
            world.after(1 + 5 * number, upload, "an upload")

    scenario = Scenario(
        "limits",
        "",
        begin,
        gang=2,
        longest=timedelta(hours=6),
        over=lambda world: len(world.runs()) == len(PRIORITIES) and world.all_over(),
    )
    result = simulate(yard.with_limits(**limits), scenario)
    assert not result.broken
    assert result.outcome.count("SUCCEEDED") == len(PRIORITIES)
    assert launches.order == ["r0", "r5", "r3", "r2", "r4", "r1"]
    assert {name: wait[:2] for name, wait in launches.waits.items()} == {
        "r1": (1, 1),
        "r2": (1, 2),
        "r3": (1, 3),
        "r4": (3, 4),
        "r5": (1, 5),
    }
    assert "; it is number 3 of 4 waiting runs, with priority 50; " in launches.waits["r4"][2]


def test_a_run_that_waits_too_long_ends_as_yard_full(yard: YardTemplate) -> None:
    result, most = simulate_runs(yard.with_limits(most_runs=1), 3, wait_minutes=1)
    assert not result.broken
    assert (result.outcome.count("SUCCEEDED"), result.outcome.count("YardFull"), most) == (1, 2, 2)


def test_no_run_waits_if_the_yard_refuses_when_full(yard: YardTemplate) -> None:
    result, _ = simulate_runs(yard.with_limits(most_runs=4, when_full="refuse"), 5, apart=1.0)
    assert not result.broken
    assert (result.outcome.count("SUCCEEDED"), result.outcome.count("YardFull")) == (4, 1)
    assert result.virtual_seconds < 3600


@pytest.mark.parametrize(
    ("limits", "at_fault"),
    [({"most_dollars_per_run": 19.5}, "JobRefused"), ({"most_hosts": 1}, "JobRefused")],
)
def test_a_job_beyond_the_limits_of_the_yard_is_refused_before_launch(
    yard: YardTemplate, limits: dict[str, float], at_fault: str
) -> None:
    result, most = simulate_runs(yard.with_limits(**limits), 1)
    assert at_fault in result.outcome
    assert most == 0


def test_a_bake_is_refused_if_its_builders_may_cost_more_than_the_month_has_left(yard: YardTemplate) -> None:
    """The month's dollars count what the bake may cost, although nothing is spent yet. A refused bake releases the
    lock."""
    result = simulate(yard.with_limits(monthly_dollars=0.5), SCENARIOS["bakes"])
    assert result.outcome.count("BudgetSpent") == 2


def test_a_run_leaves_a_bake_the_dollars_that_it_may_cost(yard: YardTemplate) -> None:
    """The run may cost $4.11 and the bake $3.08, so $6 are enough for one of them only."""

    def begin(world: Yard) -> None:
        world.people.upload("images/gpu.yaml", world.recipe)
        limits = {"hours": 2, "dollars": 20, "restarts": 3}
        body = job("late", TWO, limits=limits, program=PROGRAM)
        world.after(3, functools.partial(world.people.upload, "jobs/late.json", body), "an upload")

    scenario = Scenario(
        "limits",
        "",
        begin,
        longest=timedelta(hours=6),
        over=lambda world: len(world.runs()) == 2 and world.all_over(),
    )
    alone = simulate(yard, scenario)
    assert alone.outcome.count("SUCCEEDED") == 2
    result = simulate(yard.with_limits(monthly_dollars=6), scenario)
    assert (result.outcome.count("SUCCEEDED"), result.outcome.count("BudgetSpent")) == (1, 1)


def test_no_fault_of_an_admission_loses_a_slot_or_gives_one_twice(yard: YardTemplate) -> None:
    """Try every fault of the ledger requests of both admissions. The second run has to wait."""
    template = yard.with_limits(most_runs=1)
    clean, _ = simulate_runs(template, 2, apart=0.02)
    crowd = Crowd(2, apart=0.02)
    admissions = re.compile(r"train-admit#[1-3](/\d+ dynamodb\..*)?$")
    points = {each: visit for each, visit in clean.points.items() if admissions.match(each[1])}
    assert any(point.startswith("train-admit#3/") for _, point in points), "no run has waited"
    worlds = forks.run_forks(
        template, crowd.scenario, singles(points), lambda result: (result.broken, result.outcome, crowd.most)
    )
    for fault, (broken, outcome, most) in worlds.items():
        assert not broken, (fault, broken)
        assert most <= 2, fault
        assert outcome.count("LimitReached") == 0, (fault, outcome)
