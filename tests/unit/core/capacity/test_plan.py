"""Launch requests for a capacity pool: the hosts that each gang lacks."""
# ruff: noqa: E501 - one line a row

import pytest

from lambdas.core.capacity.plan import parts
from tests.unit.core.builders import candidate, served_job
from trainyard.protocol.cluster import Gang

HERE = candidate("g6.xlarge", beside=("c7i.large", "m7i.xlarge"))
BOTH = ("c7i.large", "m7i.xlarge")
LACKING = [
    # name, remaining hosts (instance, gang, type), requested hosts (gang, count, types)
    ("at first both gangs, the GPU hosts first", [], [(Gang.MAIN, 3, ("g6.xlarge",)), (Gang.CPU, 2, BOTH)]),
    ("a lost GPU host", [("a", 1, "g6.xlarge"), ("b", 1, "g6.xlarge"), ("c", 2, "c7i.large"), ("d", 2, "c7i.large")],
     [(Gang.MAIN, 1, ("g6.xlarge",))]),
    ("a lost CPU host is replaced by its like", [("a", 1, "g6.xlarge"), ("b", 1, "g6.xlarge"), ("c", 1, "g6.xlarge"), ("d", 2, "m7i.xlarge")],
     [(Gang.CPU, 1, ("m7i.xlarge",))]),
    ("all CPU hosts lost: any type again", [("a", 1, "g6.xlarge"), ("b", 1, "g6.xlarge"), ("c", 1, "g6.xlarge")], [(Gang.CPU, 2, BOTH)]),
    ("nobody lost", [("a", 1, "g6.xlarge"), ("b", 1, "g6.xlarge"), ("c", 1, "g6.xlarge"), ("d", 2, "c7i.large"), ("e", 2, "c7i.large")], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("survivors", "asked"), [row[1:] for row in LACKING], ids=[row[0] for row in LACKING]
)
def test_each_gang_gets_what_it_lacks(
    survivors: list[tuple[str, int, str]], asked: list[tuple[Gang, int, tuple[str, ...]]]
) -> None:
    found = parts(served_job(), [HERE], [(host, Gang(which), name) for host, which, name in survivors])
    assert [(part.gang, part.count, tuple(each.type for each in part.choices)) for part in found] == asked


def test_the_type_that_ec2_chose_has_its_price() -> None:
    _, cpu = parts(served_job(), [HERE], [])
    assert cpu.price_of("m7i.xlarge") == HERE.beside[1]


def test_what_is_asked_of_several_pools_at_once_names_the_types_of_all() -> None:
    other = candidate("g5.xlarge", "us-east-1b", beside=("c7i.large",))
    main, cpu = parts(served_job(), [HERE, other], [])
    assert [each.type for each in main.choices] == ["g6.xlarge", "g5.xlarge"]
    assert {each.type for each in cpu.choices} == set(BOTH)
