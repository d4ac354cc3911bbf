"""The yard's own limits: who comes first, who waits or is refused, and that nobody gets a place that is another's."""

import functools
import re
from collections.abc import Sequence
from datetime import timedelta

import pytest

from simulation.faults import Fault, singles
from simulation.scenarios import Scenario, job
from simulation.story import Story, tell
from simulation.template import YardTemplate
from simulation.yard import Yard

TWO = {"strategy": "multi_worker", "workers": 2}
OTHERS = 6


def told(
    template: YardTemplate,
    runs: int,
    *,
    wait_minutes: float = 60,
    faults: Sequence[Fault] = (),
    apart: float = 0.0,
) -> tuple[Story, int]:
    """So many runs of two hosts, uploaded so many seconds apart; and the most hosts that there were at once."""
    most = 0

    def begin(yard: Yard) -> None:
        limits = {"hours": 2, "dollars": 20, "restarts": 3, "wait_minutes": wait_minutes}
        for number in range(runs):
            upload = functools.partial(
                yard.upload, f"jobs/r{number}.json", job(f"r{number}", TWO, limits=limits)
            )
            yard.after(1 + number * apart, upload, "an upload")
        yard.ec2.on_change.append(lambda _: count(yard))

    def count(yard: Yard) -> None:
        nonlocal most
        live = sum(each.state in ("pending", "running") for each in yard.ec2.instances.values())
        most = max(most, live)

    def over(yard: Yard) -> bool:
        return len(yard.runs()) >= runs and yard.all_over()

    scenario = Scenario("limits", "", begin, gang=2, longest=timedelta(hours=6), over=over)
    return tell(template, scenario, faults=faults), most


@pytest.mark.parametrize("limits", [{"most_runs": 2, "most_hosts": 0}, {"most_runs": 0, "most_hosts": 5}])
@pytest.mark.parametrize("apart", [0.0, 0.05, 7.0])
def test_runs_wait_for_a_place_and_all_get_one(
    yard: YardTemplate, limits: dict[str, int], apart: float
) -> None:
    story, most = told(yard.limited(**limits), OTHERS, apart=apart)
    assert not story.broken
    assert story.outcome.count("SUCCEEDED") == OTHERS
    assert most == 4


def test_who_waits_too_long_is_told_so(yard: YardTemplate) -> None:
    story, most = told(yard.limited(most_runs=1), 3, wait_minutes=1)
    assert not story.broken
    assert (story.outcome.count("SUCCEEDED"), story.outcome.count("YardFull"), most) == (1, 2, 2)


def test_nobody_waits_where_the_yard_lets_nobody_wait(yard: YardTemplate) -> None:
    story, _ = told(yard.limited(most_runs=4, when_full="refuse"), 5, apart=1.0)
    assert not story.broken
    assert (story.outcome.count("SUCCEEDED"), story.outcome.count("YardFull")) == (4, 1)
    assert story.virtual_seconds < 3600


@pytest.mark.parametrize(
    ("limits", "at_fault"),
    [({"most_dollars_per_run": 19.5}, "JobRefused"), ({"most_hosts": 1}, "JobRefused")],
)
def test_what_no_run_of_the_yard_may_have_is_refused_before_launch(
    yard: YardTemplate, limits: dict[str, float], at_fault: str
) -> None:
    story, most = told(yard.limited(**limits), 1)
    assert at_fault in story.outcome
    assert most == 0


def test_no_fault_of_an_admission_costs_a_place_or_gives_one_twice(yard: YardTemplate) -> None:
    """Every fault of what both admissions say to the ledger, of which the second has to wait."""
    template = yard.limited(most_runs=1)
    clean, _ = told(template, 2, apart=0.02)
    admissions = re.compile(r"train-admit#[1-3](/\d+ dynamodb\..*)?$")
    places = [(kind, place) for kind, place in clean.places if admissions.match(place)]
    assert any(place.startswith("train-admit#3/") for _, place in places), "nobody has waited"
    for fault in singles(places):
        story, most = told(template, 2, apart=0.02, faults=[fault])
        assert not story.broken, (fault, story.broken)
        assert most <= 2, fault
        assert story.outcome.count("LimitReached") == 0, (fault, story.outcome)
