"""Faults that need no world of their own, because another fault gives the same world: kills of a function between
two requests, and errors that botocore's second attempt corrects."""

from collections.abc import Iterator, Mapping

import pytest

from simulation.cases import traces
from simulation.cases.forks import run_forks
from simulation.faults import (
    RETRIED,
    Fault,
    FaultPoint,
    Kind,
    Visit,
    is_chosen_retry,
    is_distinct,
    last_write_before,
    singles,
)
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate

POINTS = 5
Seen = tuple[str, list[tuple[str, str]]]


def seen(result: Result) -> Seen:
    """Return the outcome, and the entries in order."""
    done = [(each.who, each.what) for each in result.trace if not each.what.startswith("fault: ")]
    return result.outcome, done


def digest(result: Result) -> str:
    """Return the digest of the trace without the fault's own entry."""
    return traces.digest(each for each in result.trace if not each.what.startswith("fault: "))


def killed(point: str, when: str) -> Fault:
    return Fault(Kind.REQUEST, point, f"function killed {when} the request")


def kills(points: Mapping[FaultPoint, Visit | None]) -> Iterator[tuple[Fault, Fault]]:
    """Yield each omitted kill with the equivalent kill that is tried."""
    tried = {fault for fault in singles(points) if "killed" in fault.what}
    by_end: dict[tuple[str, int], Fault] = {}
    for (kind, point), visit in points.items():
        if kind is Kind.REQUEST and visit:
            for kill in (killed(point, "before"), killed(point, "after")):
                first = by_end.setdefault(last_write_before(kill, visit.operations), kill)
                assert first in tried or not is_distinct(first)
                if kill not in tried and is_distinct(kill):
                    yield kill, first


def test_a_kill_before_a_request_is_one_after_what_the_function_has_changed_last(yard: YardTemplate) -> None:
    scenario = SCENARIOS["dev-host"]
    pairs = dict(kills(simulate(yard, scenario).points))
    assert len(pairs) > 50
    of = run_forks(yard, scenario, dict.fromkeys([*pairs, *pairs.values()]), seen)
    assert [str(one) for one, other in pairs.items() if of[one] != of[other]] == []


def test_a_function_may_be_killed_after_a_refused_request(yard: YardTemplate) -> None:
    """Systems Manager does not list the hosts yet."""
    fault = killed("train-train#1/7 ssm.send_command", "after")
    _, done = run_forks(yard, SCENARIOS["train"], [fault], seen)[fault]
    assert ("train-train#1", "fails") in done


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_errors_that_a_retry_corrects_give_the_same_world(yard: YardTemplate, scenario: str) -> None:
    """Check some fault points, from the first request to the last."""
    requests = [point for kind, point in simulate(yard, SCENARIOS[scenario]).points if kind is Kind.REQUEST]
    points = requests[:: len(requests) // POINTS]
    faults = {point: [Fault(Kind.REQUEST, point, what) for what in RETRIED] for point in points}
    of = run_forks(yard, SCENARIOS[scenario], [each for one in faults.values() for each in one], digest)
    assert [
        point for point, (one, *others) in faults.items() if any(of[each] != of[one] for each in others)
    ] == []


def test_each_fault_point_has_one_of_the_errors_that_a_retry_corrects() -> None:
    points = [f"signal#{number}/1 dynamodb.query" for number in range(60)]
    turns = [
        [what for what in RETRIED if is_chosen_retry(Fault(Kind.REQUEST, point, what))] for point in points
    ]
    assert [len(turn) for turn in turns] == [1] * 60
    assert all(turns.count([what]) >= 10 for what in RETRIED)
    assert is_chosen_retry(Fault(Kind.REQUEST, points[0], "5xx until botocore gives up"))
