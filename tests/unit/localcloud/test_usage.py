"""Busy share of a host between two measurements."""

import pytest

from localcloud.machine.hypervisor.usage import Usage, busy


def look(
    at: float, processor: float = 0.0, threads: dict[int, float] | None = None, boot: str = "b1"
) -> Usage:
    return Usage(at, boot, processor, threads or {}, 0)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        pytest.param(look(0), look(10), 0.0, id="nothing ran"),
        pytest.param(look(0, 3), look(10, 8), 0.5, id="half a processor"),
        pytest.param(look(0), look(10, 40), 1.0, id="four processors are no more than all"),
        pytest.param(
            look(0, 0, {1: 0}), look(10, 3, {1: 9}), 0.9, id="one thread ran for 3 s and waited for 6 s"
        ),
        pytest.param(
            look(0, 0, {}),
            look(10, 1, dict.fromkeys(range(50), 0.2)),
            0.1,
            id="fifty threads that mostly sleep",
        ),
        pytest.param(look(0, 0, {1: 2}), look(10, 1, {2: 8}), 0.8, id="a thread that is new"),
        pytest.param(look(0, 9, {1: 9}), look(10, 9), 0.0, id="a thread that has ended"),
        pytest.param(look(0, 9), look(10, 1, boot="b2"), None, id="rebooted"),
        pytest.param(look(5), look(5), None, id="the same look"),
    ],
)
def test_a_host_is_as_busy_as_its_busiest_thread_would_have_been_alone(
    before: Usage, after: Usage, share: float | None
) -> None:
    found = busy(before, after)
    assert found == (None if share is None else pytest.approx(share))
