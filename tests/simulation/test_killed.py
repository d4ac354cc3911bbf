"""A function that is killed: between two requests nothing of it can be seen, so one kill there is as any other."""

from collections.abc import Iterator, Mapping

from simulation.faults import Fault, Kind, Passed, Place, end_of_killed, makes_sense, singles
from simulation.scenarios import SCENARIOS
from simulation.story import Story, tell
from simulation.template import YardTemplate
from simulation.trials.forks import told

Seen = tuple[str, list[tuple[str, str]]]


def seen(story: Story) -> Seen:
    """Its outcome, and who did what in which order."""
    done = [(each.who, each.what) for each in story.trace if not each.what.startswith("meets a fault")]
    return story.outcome, done


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
    scenario = SCENARIOS["launch"]
    pairs = dict(kills(tell(yard, scenario).places))
    assert len(pairs) > 50
    of = told(yard, scenario, dict.fromkeys([*pairs, *pairs.values()]), seen)
    assert [str(one) for one, other in pairs.items() if of[one] != of[other]] == []


def test_a_function_whose_request_aws_refuses_is_killed_all_the_same(yard: YardTemplate) -> None:
    """Systems Manager does not know the hosts yet."""
    fault = killed("train-train#1/8 ssm.send_command", "after")
    _, done = told(yard, SCENARIOS["train"], [fault], seen)[fault]
    assert ("train-train#1", "fails") in done
