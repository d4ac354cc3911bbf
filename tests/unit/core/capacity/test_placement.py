"""The launch loop: the next step after some refusals."""
# ruff: noqa: E501 - one line a row

import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from lambdas.core.capacity import placement
from lambdas.core.capacity.placement import FleetRefusal, GiveUp, RetireFirst, Try, TryLater
from lambdas.core.capacity.plan import Refusal
from tests.unit.core.builders import NOON, after, candidate
from trainyard.core.model.hardware import Preference
from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import Candidate, Market, RefusalKind

A = candidate("g6.xlarge", "us-east-1a")
B = candidate("g6.xlarge", "us-east-1b")
C = candidate("g5.xlarge", "us-east-1a")
D = candidate("g6.xlarge", "us-east-1a", Market.ON_DEMAND)
P6 = candidate("p6-b200.48xlarge", "us-east-1a")  # AWS's lists name different spot quotas for it
P6_B = candidate("p6-b200.48xlarge", "us-east-1b")
BIG = candidate("g6.12xlarge", "us-east-1a")
HOUR = after(3600)
DAY = after(86_400 * 2)
S = candidate("g6.xlarge", "us-east-1a", beside=("c7i.xlarge", "c7i.2xlarge"))
S_NO_LESS = candidate("g6.xlarge", "us-east-1b", beside=("m7i.xlarge",))
S_LESS = candidate("g6.xlarge", "us-east-1c", beside=("c7i.large", "c7i.2xlarge"))
S_ON_DEMAND = candidate("g6.xlarge", "us-east-1a", Market.ON_DEMAND, beside=("c7i.xlarge",))


def no(
    index: int,
    round_: int = 0,
    kind: RefusalKind = RefusalKind.CAPACITY,
    at: float = 0.0,
    gang: Gang = Gang.MAIN,
    batch: int | None = None,
) -> Refusal:
    return Refusal(index, round_, kind, f"{kind}-code", f"the {kind} reason", after(at), gang, batch)


def step(
    candidates: list[Candidate],
    refusals: list[Refusal],
    *,
    now: float = 0.0,
    until: datetime = HOUR,
    deadline: datetime = DAY,
    held: int | None = None,
    first: Market | None = None,
    last: tuple[int, ...] = (),
    order: Preference = Preference.PRICE,
) -> Try | TryLater | RetireFirst | GiveUp:
    return placement.next_step(
        candidates,
        refusals,
        now=after(now),
        since=NOON,
        wait_minutes=(until - NOON) / timedelta(minutes=1),
        deadline=deadline,
        held=held,
        first=first,
        last=last,
        order=order,
    )


K = RefusalKind
TABLE = [
    # name, candidates, refusals, now, next step
    ("at first the first candidate", [A, B], [], 0, (Try, 0, 0)),
    ("a full pool makes room for the next", [A, B], [no(0)], 1, (Try, 1, 0)),
    ("after throttling the next candidate is tried", [A, B], [no(0, kind=K.THROTTLED)], 1, (Try, 1, 0)),
    ("an unsupported pool is excluded, the round continues", [A, B], [no(0, kind=K.UNSUPPORTED)], 1, (Try, 1, 0)),
    ("a full quota excludes every pool that needs as much of it", [A, B, C, D], [no(0, kind=K.QUOTA)], 1, (Try, 3, 0)),
    ("a full quota leaves smaller types a chance", [BIG, A], [no(0, kind=K.QUOTA)], 1, (Try, 1, 0)),
    ("a full quota of the CPU hosts excludes what needs as much of it", [S, S_NO_LESS, S_LESS], [no(0, kind=K.QUOTA, gang=Gang.CPU)], 1, (Try, 2, 0)),
    ("it leaves the other market a chance", [S, S_NO_LESS, S_ON_DEMAND], [no(0, kind=K.QUOTA, gang=Gang.CPU)], 1, (Try, 2, 0)),
    ("a full quota of the GPU hosts says nothing of the CPU hosts", [S, S_LESS, S_ON_DEMAND], [no(0, kind=K.QUOTA)], 1, (Try, 2, 0)),
    ("without room for the CPU hosts the next pool is asked", [S, S_NO_LESS], [no(0, gang=Gang.CPU)], 1, (Try, 1, 0)),
    ("after a round the loop waits half a minute", [A, B], [no(0), no(1, at=5)], 5, (TryLater, 30)),
    ("the wait counts from the last refusal", [A], [no(0)], 10, (TryLater, 20)),
    ("part seconds are waited whole", [A], [no(0)], 10.2, (TryLater, 20)),
    ("after the wait the next round begins", [A, B], [no(0), no(1)], 30, (Try, 0, 1)),
    ("the second wait is twice as long", [A], [no(0), no(0, 1, at=30)], 30, (TryLater, 60)),
    ("an excluded pool is not asked in later rounds", [A, B], [no(0, kind=K.UNSUPPORTED), no(1)], 31, (Try, 1, 1)),
    ("where all quotas are full the loop waits", [A, B], [no(0, kind=K.QUOTA)], 1, (TryLater, 29)),
    ("a full quota is asked for again in the next round", [A, B], [no(0, kind=K.QUOTA)], 30, (Try, 0, 1)),
    ("quotas that stay full end the search with patience", [A, B], [no(0, kind=K.QUOTA), no(0, 1, kind=K.QUOTA, at=3600)], 3601, (GiveUp, "QuotaExceeded")),
    ("the first refusal for an unknown quota is the last", [P6], [no(0, kind=K.QUOTA)], 1, (GiveUp, "QuotaExceeded")),
    ("and says nothing of other pools", [P6, P6_B], [no(0, kind=K.QUOTA)], 1, (Try, 1, 0)),
    ("all unsupported ends the search", [A], [no(0, kind=K.UNSUPPORTED)], 1, (GiveUp, "NoCapacity")),
    ("a missing permission ends it at once", [A, B], [no(0, kind=K.ACCESS)], 1, (GiveUp, "AccessDenied")),
    ("a wrong setting ends it at once", [A, B], [no(0, kind=K.CONFIGURATION)], 1, (GiveUp, "Misconfigured")),
    ("no wait goes beyond patience", [A], [no(0, at=3590)], 3590, (TryLater, 10)),
    ("a last round is asked when patience ends", [A, B], [no(0, at=3590), no(1, at=3590)], 3600, (Try, 0, 1)),
    ("the last round is finished", [A, B], [no(0, at=1), no(1, at=1), no(0, 1, at=3600)], 3601, (Try, 1, 1)),
    ("after the last round it gives up", [A], [no(0, at=1), no(0, 1, at=3600)], 3601, (GiveUp, "NoCapacity")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("candidates", "refusals", "now", "expected"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE]
)
def test_what_follows(
    candidates: list[Candidate], refusals: list[Refusal], now: float, expected: tuple[object, ...]
) -> None:
    found = step(candidates, refusals, now=now)
    match found:
        case Try(candidate=index, round=round_):
            assert (Try, index, round_) == expected
        case TryLater(seconds=seconds):
            assert (TryLater, seconds) == expected
        case GiveUp(error=error):
            assert (GiveUp, error) == expected
        case RetireFirst():
            pytest.fail("no host remains here")
    assert found.reason


def test_missing_hosts_join_the_survivors_or_all_start_over() -> None:
    first = step([A, B], [], held=1)
    assert isinstance(first, Try)
    assert (first.candidate, first.round) == (1, 0)
    answer = step([A, B], [no(1)], held=1)
    assert isinstance(answer, RetireFirst)
    assert B.pool in answer.reason


def test_once_the_survivors_are_released_the_search_goes_on_elsewhere() -> None:
    assert isinstance(answer := step([A, B], [no(1)]), Try)
    assert answer.candidate == 0


def test_giving_up_says_every_pools_last_reason() -> None:
    answer = step([A, C], [no(0), no(1), no(0, 1, at=60), no(1, 1, at=60)], now=61, until=after(60))
    assert isinstance(answer, GiveUp)
    assert "No capacity pool had room within 60 s" in answer.reason
    assert f"- {A.pool}: refused 2 times; capacity-code: the capacity reason" in answer.reason
    assert f"- {C.pool}: refused 2 times" in answer.reason


def test_who_waits_for_a_quota_in_vain_learns_what_to_do() -> None:
    answer = step([A, C], [no(0, kind=K.QUOTA), no(0, 1, kind=K.QUOTA, at=60)], now=61, until=after(60))
    assert isinstance(answer, GiveUp)
    assert f"- {C.pool}: not requested, because it needs as much of a full quota" in answer.reason
    assert "raise the full quota" in answer.reason
    assert "make preflight" in answer.reason


def test_patience_never_outlives_the_run() -> None:
    full = [no(0, at=60)]
    assert isinstance(step([A], full, now=61, deadline=after(61)), Try)
    assert isinstance(step([A], full, now=61, deadline=after(60)), GiveUp)
    assert isinstance(step([A], full, now=61, until=after(60), deadline=after(600)), GiveUp)


def test_giving_up_names_the_limit_that_ended_the_search() -> None:
    impatient = step([A], [no(0, at=60)], now=61, until=after(60), deadline=after(600))
    assert isinstance(impatient, GiveUp)
    assert "within 60 s (limits.wait_minutes)" in impatient.reason
    answer = step([A], [no(0, at=60)], now=61, deadline=after(60))
    assert isinstance(answer, GiveUp)
    assert "within 60 s (limits.hours)" in answer.reason
    assert "a longer limits.hours" in answer.reason


@pytest.mark.parametrize(("minutes", "pools"), [(0.2, 1), (1, 3), (60, 18), (1440, 60), (1440, 1)])
def test_a_search_ends_in_time_with_few_tries(minutes: float, pools: int) -> None:
    """Run a search of full pools to its end. It fits an execution's history and ends after wait_minutes."""
    candidates = [candidate(("g6.xlarge", "g5.xlarge")[n % 2], f"us-east-1{n}") for n in range(pools)]
    until, now = NOON + timedelta(minutes=minutes), NOON
    refusals: list[Refusal] = []
    for _ in range(3 * placement.MOST_TRIES + 21 * pools):
        found = placement.next_step(
            candidates, refusals, now=now, since=NOON, wait_minutes=minutes, deadline=DAY
        )
        match found:
            case Try(candidate=index, round=round_):
                assert (index, round_) not in {(no.candidate, no.round) for no in refusals}
                refusals.append(Refusal(index, round_, RefusalKind.CAPACITY, "Full", "no room", now))
            case TryLater(seconds=seconds):
                assert seconds >= 1
                now += timedelta(seconds=seconds)
                then = placement.next_step(
                    candidates, refusals, now=now, since=NOON, wait_minutes=minutes, deadline=DAY
                )
                assert not isinstance(then, TryLater), "a pause that was waited for is over"
            case _:
                break
    assert isinstance(found, GiveUp)
    assert timedelta(0) <= now - until < timedelta(seconds=1)
    assert len(refusals) <= placement.MOST_TRIES + 7 * pools


def test_whatever_is_refused_the_loop_always_answers() -> None:
    chance = random.Random(7)
    candidates = [A, B, C, D, BIG]
    for _ in range(300):
        refusals: list[Refusal] = []
        now = 0.0
        while isinstance(found := step(candidates, refusals, now=now, until=after(300)), Try | TryLater):
            now += 1
            if isinstance(found, Try):
                refusals.append(
                    no(found.candidate, found.round, chance.choice(list(RefusalKind)[:4]), at=now)
                )
            else:
                now += found.seconds
        assert isinstance(found, GiveUp)
        assert now < 400


E = candidate("g5.xlarge", "us-east-1b", Market.ON_DEMAND)
BY_SPEED = [
    # name, candidates, refusals, now, candidates of one request, round
    ("all pools of a market at once", [A, B, C, D, E], [], 0, ((0, 1, 2), 0)),
    ("then all of the next market", [A, B, C, D, E], [no(0), no(1), no(2)], 1, ((3, 4), 0)),
    ("a pool that said never is asked no more", [A, B, C], [no(0), no(1, kind=K.UNSUPPORTED), no(2)], 31, ((0, 2), 1)),
    ("after a pause all of them again", [A, B], [no(0), no(1)], 31, ((0, 1), 1)),
    ("types with more GPUs are asked on their own", [A, BIG, B], [], 0, ((0, 2), 0)),
    ("and after the others", [A, BIG, B], [no(0), no(2)], 1, ((1,), 0)),
    ("where fewer workers fit there is a request of its own", [A, replace(B, workers=2), C], [], 0, ((0, 2), 0)),
    ("and for disks that are fetched at another rate", [A, replace(B, initialization_rate=300), C], [], 0, ((0, 2), 0)),
    ("what a full quota excludes is not named", [A, BIG, C, D], [no(1, kind=K.QUOTA), no(3)], 1, ((0, 2), 0)),
    ("only the pool of the remaining hosts", [A, B, C], [], 0, ((1,), 0)),
    ("one that has no room beside it is not asked again, in the name of another", [A, B, C], [no(2, batch=0, gang=Gang.CPU)], 1, ((1, 0), 0)),
    ("and the last one left waits for the next round", [A, B], [no(1, batch=0, gang=Gang.CPU)], 31, ((0, 1), 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "candidates", "refusals", "now", "asked"), BY_SPEED, ids=[row[0] for row in BY_SPEED]
)
def test_by_speed_one_request_asks_all_that_it_can(
    sentence: str,
    candidates: list[Candidate],
    refusals: list[Refusal],
    now: float,
    asked: tuple[tuple[int, ...], int],
) -> None:
    held = 1 if "remaining hosts" in sentence else None
    found = step(candidates, refusals, now=now, held=held, order=Preference.SPEED)
    assert isinstance(found, Try)
    assert ((found.candidate, *found.batch), found.round) == asked


def test_the_request_for_several_says_so_and_what_ec2_takes() -> None:
    spot = step([A, B, replace(C, price=0.5), D, E], [], order=Preference.SPEED)
    assert spot.reason == (
        "any of 3 spot pools in one request: EC2 chooses the one with the most room "
        "($0.300 to $0.500 per host and hour)"
    )
    then = step([A, D, E], [no(0)], now=1, order=Preference.SPEED)
    assert "any of 2 on-demand pools in one request: EC2 chooses the cheapest with room" in then.reason
    assert "after 1 refusal" in then.reason


def test_by_speed_whatever_is_refused_no_request_is_made_twice() -> None:
    chance = random.Random(11)
    candidates = [A, B, C, D, E, BIG]
    for _ in range(300):
        refusals: list[Refusal] = []
        made: set[tuple[int, int]] = set()
        now = 0.0
        while isinstance(
            found := step(candidates, refusals, now=now, until=after(300), order=Preference.SPEED),
            Try | TryLater,
        ):
            if isinstance(found, TryLater):
                now += found.seconds
                continue
            assert (found.candidate, found.round) not in made
            made.add((found.candidate, found.round))
            now += 1
            indexes = [found.candidate, *found.batch]
            if chance.random() < 0.4:
                indexes = [chance.choice(indexes)]
            batch = found.candidate if found.batch else None
            refusals += [
                no(index, found.round, chance.choice(list(RefusalKind)[:4]), now, batch=batch)
                for index in indexes
            ]
        assert isinstance(found, GiveUp)
        assert now < 400


PAUSES = [
    # name, hours to wait, pools, seconds of the first pauses
    ("half a minute, a minute, then two each time", 1, 1, [30, 60, 120, 120, 120]),
    ("three pools are asked no more rarely", 1, 3, [30, 60, 120, 120, 120]),
    ("more pools make the longest pause longer", 1, 10, [30, 60, 120, 240, 360, 360]),
    ("and so does more patience", 24, 1, [30, 60, 120, 240, 480, 864, 864]),
    ("with much of both the first pause is longer too", 24, 10, [270, 540, 1080, 2160, 4320, 8640, 8640]),
]


@pytest.mark.parametrize(
    ("hours", "pools", "pauses"), [row[1:] for row in PAUSES], ids=[row[0] for row in PAUSES]
)
def test_how_long_the_loop_waits_between_rounds(hours: int, pools: int, pauses: list[int]) -> None:
    found = [
        placement.pause_after(round_over, patience=timedelta(hours=hours), asks=pools)
        for round_over in range(len(pauses))
    ]
    assert found == [timedelta(seconds=seconds) for seconds in pauses]


FIRST = [
    # name, refusals, next candidate
    ("a market that goes first is asked first", [], 3),
    ("then the others, in the plan's order", [no(3)], 0),
    ("and the next of them", [no(3), no(0)], 1),
]


@pytest.mark.parametrize(("refusals", "asked"), [row[1:] for row in FIRST], ids=[row[0] for row in FIRST])
def test_a_market_can_go_first(refusals: list[Refusal], asked: int) -> None:
    found = step([A, B, C, D], refusals, now=1, first=Market.ON_DEMAND)
    assert isinstance(found, Try)
    assert (found.candidate, found.round) == (asked, 0)


LAST = [
    # name, refusals, next candidate
    ("a pool that goes last is passed over", [], 1),
    ("until no other is left", [no(1), no(2), no(3)], 0),
]


@pytest.mark.parametrize(("refusals", "asked"), [row[1:] for row in LAST], ids=[row[0] for row in LAST])
def test_a_pool_can_go_last(refusals: list[Refusal], asked: int) -> None:
    found = step([A, B, C, D], refusals, now=1, last=(0,))
    assert isinstance(found, Try)
    assert (found.candidate, found.round) == (asked, 0)


ANSWERS = [
    # name, (type, kind) of every refusal, the kind that decides
    ("one type's only reason", [("a", K.CAPACITY)], K.CAPACITY),
    ("one type's gravest reason", [("a", K.CAPACITY), ("a", K.QUOTA)], K.QUOTA),
    (
        "a full quota for one, no room for another: room may come",
        [("a", K.QUOTA), ("b", K.CAPACITY)],
        K.CAPACITY,
    ),
    ("two types that the zone never has", [("a", K.UNSUPPORTED), ("b", K.UNSUPPORTED)], K.UNSUPPORTED),
    ("a permission is missing for all", [("a", K.CAPACITY), ("b", K.ACCESS)], K.ACCESS),
    ("a wrong setting is wrong for all", [("a", K.CONFIGURATION), ("b", K.THROTTLED)], K.CONFIGURATION),
]


@pytest.mark.parametrize(("refusals", "kind"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_what_a_request_for_several_types_is_answered(
    refusals: list[tuple[str, RefusalKind]], kind: RefusalKind
) -> None:
    said = [(name, FleetRefusal(each, f"{each}-code", f"no {name}")) for name, each in refusals]
    found = placement.answer_of(said)
    assert (found.kind, found.code) == (kind, f"{kind}-code")
    for name, _ in refusals:
        assert f"no {name}" in found.reason
