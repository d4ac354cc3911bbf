"""However many hosts are silent at once, whatever they were at: the next attempt is asked for within three minutes."""

import pytest

from simulation.cases.case import parse
from simulation.detection import LIMITS, Told, detected
from simulation.scenarios import SCENARIOS
from simulation.story import tell
from simulation.template import YardTemplate

SILENT = [
    "train: host host-1 after progress #1: hangs + host host-2 after progress #1: hangs",
    "train: host host-1 after progress #1: is cut off + host host-2 after progress #1: is cut off",
    "train: host host-2 after progress #1: hangs + host host-1 after progress #1: is cut off",
    "train: host host-1 before checkpointed #1: hangs + host host-2 after progress #1: hangs",
    "train: host host-1 after started #1: hangs + host host-2 after started #1: hangs",
    "servers: host host-1 after started #1: hangs + host host-2 after started #1: hangs",
]


def test_who_is_told_to_leave_before_it_saw_the_order_to_start_says_so(yard: YardTemplate) -> None:
    """Or a gang waits until EC2 takes the host, two minutes later."""
    case = parse("train: host host-1 after ready #1: is interrupted with 120 s of notice")
    found = detected(case.faults[0], tell(yard, SCENARIOS["train"], faults=case.faults).trace)
    assert found
    assert not found.late, found.how_late


@pytest.mark.parametrize("text", SILENT)
def test_an_outage_of_every_host_is_seen_within_three_minutes(yard: YardTemplate, text: str) -> None:
    case = parse(text)
    story = tell(yard, SCENARIOS[case.scenario], faults=case.faults)
    assert not story.broken
    assert set(story.struck) == set(case.faults)
    seen = [found for fault in case.faults if (found := detected(fault, story.trace))]
    assert seen, "nobody asked for another attempt"
    assert max(each.asked for each in seen) <= LIMITS[Told.BY_NOBODY]
