"""Allocation of fleet members to capacity pools."""

from dataclasses import dataclass

import pytest

from localcloud.services.ec2.capacity.allocation import Grant, Plan, Pool, Refusal, Rules, plan

FULL = Refusal("InsufficientInstanceCapacity", "no room")
ANY = Rules("prioritized", single_type=False, single_zone=False, least=0)
ONE_ZONE = Rules("prioritized", single_type=False, single_zone=True, least=0)
GANG = Rules("prioritized", single_type=True, single_zone=True, least=4)


@dataclass(frozen=True)
class Choice:
    pool: Pool
    weight: int = 1


def choice(where: str, weight: int = 1) -> Choice:
    kind, zone = where.split("/")
    return Choice(Pool(kind, zone, "spot"), weight)


def planned(overrides: list[str], wanted: int, rules: Rules, slots: dict[str, int]) -> Plan[Choice]:
    def room(override: Choice, count: int) -> Grant:
        free = slots.get(f"{override.pool.instance_type}/{override.pool.zone}", 1000)
        return Grant(count) if free >= count else Grant(free, FULL)

    return plan([choice(where) for where in overrides], wanted, rules, room)


@pytest.mark.parametrize(
    ("why", "overrides", "wanted", "rules", "slots", "launched", "refused"),
    [
        ("the first pool that holds all is taken", ["a/1", "b/1"], 4, GANG, {}, {"a/1": 4}, []),
        ("a gang is never split over zones", ["a/1", "a/2"], 4, GANG, {"a/1": 2, "a/2": 2}, {}, ["a/1", "a/2"]),
        ("a gang moves whole to the next zone", ["a/1", "a/2"], 4, GANG, {"a/1": 3}, {"a/2": 4}, ["a/1"]),
        ("a gang is never of two types", ["a/1", "b/1"], 4, GANG, {"a/1": 2, "b/1": 3}, {}, ["a/1", "b/1"]),
        ("two types may share a zone", ["a/1", "b/1"], 4, ONE_ZONE, {"a/1": 3}, {"a/1": 3, "b/1": 1}, ["a/1"]),
        ("without a least, what there is is taken", ["a/1"], 4, ONE_ZONE, {"a/1": 3}, {"a/1": 3}, ["a/1"]),
        ("without rules, pools are added up", ["a/1", "a/2"], 4, ANY, {"a/1": 1}, {"a/1": 1, "a/2": 3}, ["a/1"]),
        ("the fuller zone wins", ["a/1", "a/2"], 9, ONE_ZONE, {"a/1": 2, "a/2": 5}, {"a/2": 5}, ["a/1", "a/2"]),
        ("nothing wanted is nothing launched", ["a/1"], 0, GANG, {}, {}, []),
        ("no override, no member", [], 4, GANG, {}, {}, []),
    ],
)  # fmt: skip
def test_a_plan(
    why: str,
    overrides: list[str],
    wanted: int,
    rules: Rules,
    slots: dict[str, int],
    launched: dict[str, int],
    refused: list[str],
) -> None:
    answer = planned(overrides, wanted, rules, slots)
    got = {f"{b.override.pool.instance_type}/{b.override.pool.zone}": b.count for b in answer.batches}
    assert got == launched, why
    assert [f"{o.pool.instance_type}/{o.pool.zone}" for o, _ in answer.refusals] == refused, why


def test_weights_count_units_and_not_hosts() -> None:
    answer = plan([choice("big/1", weight=4)], 6, ANY, lambda override, count: Grant(count))
    assert [batch.count for batch in answer.batches] == [2]
