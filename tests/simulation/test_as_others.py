"""Faults whose worlds are those of others, which are tried in their stead: kills of a function between two requests,
and what botocore's second try makes good."""

from collections.abc import Iterator, Mapping

import pytest

from simulation.cases import traces
from simulation.cases.forks import told
from simulation.faults import (
    RETRIED,
    Fault,
    Kind,
    Passed,
    Place,
    end_of_killed,
    has_its_turn,
    makes_sense,
    singles,
)
from simulation.scenarios import SCENARIOS
from simulation.story import Story, tell
from simulation.template import YardTemplate

PLACES = 6
Seen = tuple[str, list[tuple[str, str]]]


def seen(story: Story) -> Seen:
    """Its outcome, and who did what in which order."""
    done = [(each.who, each.what) for each in story.trace if not each.what.startswith("meets a fault")]
    return story.outcome, done


def digest(story: Story) -> str:
    """Of all that happened, and when, but for the fault's own word."""
    return traces.digest(each for each in story.trace if not each.what.startswith("meets a fault"))


def killed(place: str, when: str) -> Fault:
    return Fault(Kind.REQUEST, place, f"function killed {when} the request")


def kills(places: Mapping[Place, Passed | None]) -> Iterator[tuple[Fault, Fault]]:
    """Each kill that is left out, and the one that is tried in its stead."""
    tried = {fault for fault in singles(places) if "killed" in fault.what}
    by_end: dict[tuple[str, int], Fault] = {}
    for (kind, place), passed in places.items():
        if kind is Kind.REQUEST and passed:
            for kill in (killed(place, "before"), killed(place, "after")):
                first = by_end.setdefault(end_of_killed(kill, passed.asks), kill)
                assert first in tried or not makes_sense(first)
                if kill not in tried and makes_sense(kill):
                    yield kill, first


def test_a_kill_before_a_request_is_one_after_what_the_function_has_changed_last(yard: YardTemplate) -> None:
    scenario = SCENARIOS["dev-host"]
    pairs = dict(kills(tell(yard, scenario).places))
    assert len(pairs) > 50
    of = told(yard, scenario, dict.fromkeys([*pairs, *pairs.values()]), seen)
    assert [str(one) for one, other in pairs.items() if of[one] != of[other]] == []


def test_a_function_whose_request_aws_refuses_is_killed_all_the_same(yard: YardTemplate) -> None:
    """Systems Manager does not know the hosts yet."""
    fault = killed("train-train#1/7 ssm.send_command", "after")
    _, done = told(yard, SCENARIOS["train"], [fault], seen)[fault]
    assert ("train-train#1", "fails") in done


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_a_second_try_makes_good_is_one_world_whatever_it_was(yard: YardTemplate, scenario: str) -> None:
    """At some places, from the first request to the last."""
    requests = [place for kind, place in tell(yard, SCENARIOS[scenario]).places if kind is Kind.REQUEST]
    places = requests[:: len(requests) // PLACES]
    faults = {place: [Fault(Kind.REQUEST, place, what) for what in RETRIED] for place in places}
    of = told(yard, SCENARIOS[scenario], [each for one in faults.values() for each in one], digest)
    assert [
        place for place, (one, *others) in faults.items() if any(of[each] != of[one] for each in others)
    ] == []


def test_each_place_has_one_of_what_a_second_try_makes_good_and_other_places_others() -> None:
    places = [f"signal#{number}/1 dynamodb.query" for number in range(60)]
    turns = [[what for what in RETRIED if has_its_turn(Fault(Kind.REQUEST, place, what))] for place in places]
    assert [len(turn) for turn in turns] == [1] * 60
    assert all(turns.count([what]) >= 10 for what in RETRIED)
    assert has_its_turn(Fault(Kind.REQUEST, places[0], "5xx until botocore gives up"))
