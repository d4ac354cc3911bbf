"""Policy: the same keys in context, job and tags. Budget: the cost of the month, and its effects."""

from dataclasses import replace
from typing import Any

import pytest

from lambdas.core.capacity import cost
from lambdas.core.patrol import budget
from lambdas.core.patrol.budget import Billed
from tests.unit.core.builders import NOON, after
from trainyard.core.model.yard import policy
from trainyard.core.model.yard.billing import disk_hour
from trainyard.core.model.yard.policy import IdleSpot, Policy
from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.ledger.yard import Money
from trainyard.protocol.plan import Market
from trainyard.values.validation import InputFaults


def test_a_policy_without_a_word_is_the_default() -> None:
    assert policy.read_policy({}, path="policy") == policy.read_policy(None, path="policy") == Policy()


def test_a_policy_says_what_differs() -> None:
    said = policy.read_policy({"window_minutes": 5, "idle_spot": "archive"}, path="policy")
    assert said == replace(Policy(), window_minutes=5, idle_spot=IdleSpot.ARCHIVE)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"window": 5}, "policy.window: unknown key; allowed are window_minutes, idle_percent"),
        ({"window_minutes": 0.5}, "from 1 to 1440"),
        ({"window_minutes": "5"}, 'found "5"'),
        ({"idle_percent": 0}, "above 0 and up to 100"),
        ({"idle_percent": 101}, "above 0 and up to 100"),
        ({"archive_days": -1}, "archive_days: found the number -1"),
        ({"idle_spot": "stop"}, "allowed are archive, terminate"),
        ({"grace_minutes": True}, "the boolean true"),
        ("busy", "a mapping with the keys"),
    ],
)
def test_every_fault_of_a_policy_is_named(given: Any, says: str) -> None:
    found = policy.read_policy(given, path="policy")
    assert isinstance(found, InputFaults)
    assert says in found.reason


def test_a_job_s_policy_travels_by_tags() -> None:
    said: dict[str, Any] = {"window_minutes": 10.0, "idle_spot": IdleSpot.ARCHIVE, "archive_days": 1e-7}
    tags = policy.tags(said)
    assert tags == {
        "trainyard:policy-window_minutes": "10",
        "trainyard:policy-idle_spot": "archive",
        "trainyard:policy-archive_days": "1e-07",
    }
    assert policy.host_policy(Policy(), tags) == (replace(Policy(), **said), ())


def test_what_a_tag_says_wrongly_counts_for_nothing_and_is_told() -> None:
    tags = {"trainyard:policy-window_minutes": "soon", "trainyard:policy-idle_percent": "20", "Name": "x"}
    found, problems = policy.host_policy(Policy(grace_minutes=1), tags)
    assert found == Policy(grace_minutes=1, idle_percent=20)
    assert len(problems) == 1
    assert 'the tag trainyard:policy-window_minutes: found "soon"' in problems[0]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("window_minutes", "", 'found ""; a number of minutes from 1 to 1440 is allowed'),
        ("window_minutes", "-30", 'found "-30"'),
        ("window_minutes", "9" * 256, 'found "9999'),
        ("window_minutes", "1e999", 'found "1e999"'),
        ("archive_days", "nan", 'found "nan"'),
        ("archive_days", "0", "found the number 0"),
        ("idle_percent", "5 %", 'found "5 %"'),
        ("idle_percent", "\u00b2", "a number of percent above 0 and up to 100"),
        ("idle_percent", "\u0663", "a number of percent above 0 and up to 100"),
        ("idle_spot", "Archive", 'did you mean "archive"?'),
        ("windows", "5", 'did you mean "window_minutes"?'),
        ("", "5", "unknown key"),
        ("a.b[0]", "5", "unknown key"),
    ],
)
def test_any_tag_of_a_policy_is_told_of_or_understood(key: str, value: str, says: str) -> None:
    found, problems = policy.host_policy(Policy(), {f"trainyard:policy-{key}": value})
    assert found == Policy()
    assert problems[0].startswith(f"the tag trainyard:policy-{key}: ")
    assert says in problems[0]


def test_the_stacks_give_the_function_what_it_reads_back() -> None:
    said = Policy(window_minutes=7, unknown_stop_minutes=90)
    assert policy.read_policy(policy.to_json(said), path="policy") == said


# ------------------------------------------------------------------------------------------------------------- money


def test_the_count_begins_with_nothing_and_goes_on_by_the_second() -> None:
    hosts = [
        Billed(after(-7200), None, 1.0),
        Billed(after(1800), None, 2.0),
        Billed(after(-60), after(900), 4.0),
    ]
    first = budget.count_costs(None, hosts, NOON)
    assert first == Money("2026-11", 0.0, NOON)
    second = budget.count_costs(first, hosts, after(3600))
    assert second == Money("2026-11", 1.0 + 1.0 + 1.0, after(3600))


def test_an_hour_without_patrol_is_counted_by_the_next() -> None:
    money = Money("2026-11", 5.0, NOON)
    assert budget.count_costs(money, [Billed(after(-60), None, 3.0)], after(7200)).dollars == 11.0


def test_a_host_that_ran_for_seconds_is_billed_for_a_minute_once() -> None:
    """This holds if patrol saw the host run, and if patrol saw it only after its end."""
    seen, unseen = Billed(NOON, after(20), 3600.0), Billed(after(70), after(90), 3600.0)
    money = Money("2026-11", 0.0, after(-10))
    looks: tuple[tuple[int, list[Billed]], ...] = (
        (10, [Billed(NOON, None, 3600.0)]),
        (60, [seen]),
        (120, [seen, unseen]),
        (180, [seen, unseen]),
        (240, [seen, unseen]),
        (3600, []),
    )
    for passed, hosts in looks:
        money = budget.count_costs(money, hosts, after(passed))
    assert money.dollars == pytest.approx(120.0)


def test_the_month_counts_what_runs_are_billed() -> None:
    """The sum over hosts of all durations, with a pass each minute, equals the runs' bills to the cent."""
    lengths = (3, 19, 59, 60, 61, 150, 1234, 7200)
    hosts = [
        BilledHost(
            instance=f"i-{length}",
            type="g6.xlarge",
            zone="a",
            market=Market.SPOT,
            price=0.37,
            disk_gib=100,
            volume_charge=0.0012,
            launched=after(11 * number),
            ended=after(11 * number + length),
        )
        for number, length in enumerate(lengths)
    ]
    money = Money("2026-11", 0.0, after(-1))
    for passed in range(0, 7800, 60):
        now = after(passed)
        shown = [
            Billed(
                host.launched,
                host.ended if host.ended and host.ended <= now else None,
                host.price + disk_hour(host.disk_gib, host.gib_month),
                host.volume_charge,
                host.launched,
            )
            for host in hosts
            if host.launched <= now
        ]
        money = budget.count_costs(money, shown, now)
    assert money.dollars == pytest.approx(cost.bill(hosts, now=after(7800)).dollars, abs=1e-4)


def test_what_a_disk_costs_once_is_counted_once() -> None:
    """This holds if EC2 lists the host late, if the host starts again, and if it ends at once."""
    lives, short = (
        Billed(NOON, None, 0.0, volume_charge=0.36, made=NOON),
        Billed(NOON, after(30), 0.0, volume_charge=0.24, made=NOON),
    )
    money = Money("2026-11", 0.0, after(-60))
    for passed, hosts in ((0, []), (60, []), (120, [lives, short]), (180, [lives, short]), (3600, [lives])):
        money = budget.count_costs(money, hosts, after(passed))
    money = budget.count_costs(
        money, [Billed(after(3590), None, 0.0, volume_charge=0.36, made=NOON)], after(3720)
    )
    assert money.dollars == pytest.approx(0.60)


def test_a_new_month_begins_with_what_it_has_cost_itself() -> None:
    money = Money("2026-11", 50.0, NOON.replace(day=30, hour=23))
    now = NOON.replace(month=12, day=1, hour=1)
    assert budget.count_costs(money, [Billed(NOON, None, 2.0)], now) == Money("2026-12", 2.0, now)
    assert budget.month_dollars(money, now) == 0.0


@pytest.mark.parametrize(
    ("before", "after_", "percent"),
    [(0, 49.9, None), (49, 50, 50), (50, 51, None), (40, 85, 80), (79, 120, 100), (100, 130, None)],
)
def test_a_warning_at_50_80_and_100_percent(before: float, after_: float, percent: int | None) -> None:
    assert budget.find_crossed(before, after_, 100) == percent
    assert budget.find_crossed(before, after_, None) is None


def test_no_run_begins_when_the_month_s_money_is_spent() -> None:
    assert budget.refusal(Money("2026-11", 99.9, NOON), 100, NOON) is None
    assert budget.refusal(Money("2026-11", 100.0, NOON), None, NOON) is None
    assert budget.refusal(None, 100, NOON) is None
    said = budget.refusal(Money("2026-11", 100.5, NOON), 100, NOON)
    assert said is not None
    assert "has spent $100.50 in 2026-11 and may spend $100.00 a month" in said
    assert budget.refusal(Money("2026-10", 100.5, NOON), 100, NOON) is None
