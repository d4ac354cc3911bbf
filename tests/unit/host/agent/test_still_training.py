"""The workers that a finished chief waits for."""

import pytest

from training.host.agent.life import IDLE_SECONDS, PeerState, StillTraining

Said = tuple[float, str | None, int | None]
WAITED: list[tuple[str, list[Said], list[bool]]] = [
    # name, last report at each look (seconds, at, exit code), whether the chief waits
    (
        "it trains on and ends",
        [(0, "a", None), (240, "b", None), (480, "c", None), (490, "d", 0)],
        [True, True, True, False],
    ),
    ("it has ended before", [(0, "a", 0)], [False]),
    ("it has failed", [(0, "a", 1)], [False]),
    ("it works no more", [(0, "a", None), (299, "a", None), (301, "a", None)], [True, True, False]),
    ("it has said nothing yet", [(0, None, None), (299, None, None), (300, None, None)], [True, True, False]),
    (
        "it begins to say something",
        [(0, None, None), (290, "a", None), (580, "a", None), (591, "a", None)],
        [True, True, True, False],
    ),
]


@pytest.mark.parametrize(("said", "waited"), [row[1:] for row in WAITED], ids=[row[0] for row in WAITED])
def test_a_worker_is_waited_for_while_it_says_that_it_works(said: list[Said], waited: list[bool]) -> None:
    assert IDLE_SECONDS == 300
    still = StillTraining(0.0)
    found = [
        bool(still.among({"i-w": PeerState(at, ended) if at else None}, seconds))
        for seconds, at, ended in said
    ]
    assert found == waited
