"""Systems Manager is one of two ways to a host. Its delays change neither the start of a gang nor the end of a
host."""

from datetime import datetime

import pytest

from simulation.faults import BootFault, Fault, HostFault, Kind
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate

MOST_SECONDS = 3.0


def boots(host: str, what: BootFault) -> Fault:
    return Fault(Kind.HOST, f"{host} boots", what)


def first(result: Result, who: str, what: str) -> datetime:
    return next(entry.at for entry in result.trace if (entry.who, entry.what) == (who, what))


def hosts(result: Result) -> list[str]:
    return list(dict.fromkeys(entry.who for entry in result.trace if entry.what == "boots"))


def until_it_starts(result: Result) -> list[float]:
    """Return the seconds from boot to program for each host of the first attempt."""
    return [
        (first(result, host, "sends started") - first(result, host, "boots")).total_seconds()
        for host in hosts(result)[:2]
    ]


def times(result: Result, host: str, what: str) -> int:
    return sum((entry.who, entry.what) == (host, what) for entry in result.trace)


@pytest.mark.parametrize("what", [BootFault.REGISTERS_LATE, BootFault.NEVER_REGISTERS])
@pytest.mark.parametrize("who", [("host-1",), ("host-1", "host-2")], ids=len)
def test_a_gang_begins_as_soon_and_once(yard: YardTemplate, who: tuple[str, ...], what: BootFault) -> None:
    scenario = SCENARIOS["train"]
    clean, result = (
        simulate(yard, scenario),
        simulate(yard, scenario, faults=[boots(host, what) for host in who]),
    )
    assert not result.broken
    assert len(hosts(result)) == 2, "no host was replaced"
    for here, there in zip(until_it_starts(result), until_it_starts(clean), strict=True):
        assert here - there <= MOST_SECONDS
    for host in hosts(result):
        assert times(result, host, "takes the order start") == times(result, host, "sends started") == 1


def test_an_unregistered_host_is_asked_to_leave_and_continues(yard: YardTemplate) -> None:
    """Its peer is interrupted with two minutes of notice; the host saves, and joins the next attempt."""
    peer_goes = Fault(Kind.HOST, "host-2 after started #1", HostFault.WARNED_120)
    result = simulate(
        yard, SCENARIOS["train"], faults=[boots("host-1", BootFault.NEVER_REGISTERS), peer_goes]
    )
    assert not result.broken
    assert len(result.injected) == 2
    asked, _, newcomer = hosts(result)
    assert times(result, asked, "takes the order stop") == times(result, asked, "sends stopped") == 1
    assert times(result, asked, "sends started") == 2
    assert times(result, newcomer, "sends started") == 1
