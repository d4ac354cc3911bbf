"""The next attempt is requested within three minutes, no matter how many hosts fall silent at once."""

import pytest

from simulation.cases.case import parse
from simulation.detection import LIMITS, Visibility, measure_detection
from simulation.scenarios import SCENARIOS
from simulation.simulate import simulate
from simulation.template import YardTemplate

SILENT = [
    "train: host host-1 after progress #1: hangs + host host-2 after progress #1: hangs",
    "train: host host-1 after progress #1: is cut off + host host-2 after progress #1: is cut off",
    "train: host host-2 after progress #1: hangs + host host-1 after progress #1: is cut off",
    "train: host host-1 before checkpointed #1: hangs + host host-2 after progress #1: hangs",
    "train: host host-1 after started #1: hangs + host host-2 after started #1: hangs",
    "servers: host host-1 after started #1: hangs + host host-2 after started #1: hangs",
]


def test_a_host_that_must_leave_before_it_saw_the_start_order_reports_it(yard: YardTemplate) -> None:
    """Otherwise the gang would wait for two minutes until EC2 reclaims the host."""
    case = parse("train: host host-1 after ready #1: is interrupted with 120 s of notice")
    found = measure_detection(case.faults[0], simulate(yard, SCENARIOS["train"], faults=case.faults).trace)
    assert found
    assert not found.late, found.describe_delay


@pytest.mark.parametrize("text", SILENT)
def test_an_outage_of_every_host_is_seen_within_three_minutes(yard: YardTemplate, text: str) -> None:
    case = parse(text)
    result = simulate(yard, SCENARIOS[case.scenario], faults=case.faults)
    assert not result.broken
    assert set(result.injected) == set(case.faults)
    seen = [found for fault in case.faults if (found := measure_detection(fault, result.trace))]
    assert seen, "no attempt was requested"
    assert max(each.requested for each in seen) <= LIMITS[Visibility.UNREPORTED]
