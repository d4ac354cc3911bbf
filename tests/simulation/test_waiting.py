"""The row of a run describes what it waits for, and no longer does once the run has its hosts."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from simulation.aws.dynamodb.tables import Key
from simulation.aws.dynamodb.values import Item, plain
from simulation.scenario import Scenario, job
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard import Yard

TWO = {"strategy": "multi_worker", "workers": 2}
TWO_HOSTS = 8.0
"""vCPUs of a gang of two g6.xlarge."""


class Rows:
    """Every state of the runs' rows in order."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Mapping[str, Any]]] = {}

    def watch(self, yard: Yard) -> None:
        yard.dynamodb.on_change.append(lambda _, key, before, after: self._look(key, after))

    def _look(self, key: Key, after: Item | None) -> None:
        if key[1] == "run" and after and key[0].startswith("run#"):
            row = {name: plain(value) for name, value in after.items()}
            self.seen.setdefault(key[0].removeprefix("run#"), []).append(row)

    def waits(self) -> dict[str, list[Mapping[str, Any]]]:
        """Return what each run waited for, as its row described it."""
        found = {run: [row["waiting"] for row in rows if "waiting" in row] for run, rows in self.seen.items()}
        return {run: rows for run, rows in found.items() if rows}


def simulate_runs(template: YardTemplate, *, spot: float) -> tuple[Result, Rows]:
    """Simulate two simultaneous runs of two hosts, in an account with this quota of GPU vCPUs, all of it spot."""
    rows = Rows()

    def begin(yard: Yard) -> None:
        rows.watch(yard)
        for code in yard.ec2.pools.quotas:
            yard.ec2.pools.quotas[code] = (
                spot if yard.ec2.catalogue.settings.quotas[code].market == "spot" else 0.0
            )
        for number in range(2):
            yard.people.upload(f"jobs/r{number}.json", job(f"r{number}", TWO, hardware={"market": "spot"}))

    return simulate(template, Scenario("waiting", "two runs, the second waits", begin, gang=2)), rows


def test_a_run_without_capacity_names_the_refusal_and_the_next_request(yard: YardTemplate) -> None:
    result, rows = simulate_runs(yard, spot=TWO_HOSTS)
    assert not result.broken
    ((run, waits),) = rows.waits().items()
    first, last = waits[0], waits[-1]
    assert (first["what"], set(first["refused"])) == ("capacity", {"quota"})
    assert first["since"] < first["next_request"] <= first["until"]
    assert last["next_request"] > first["next_request"]
    assert last["since"] == first["since"]
    assert "the next request is in" in last["reason"]
    ended = rows.seen[run][-1]
    assert "waiting" not in ended
    last_launch = ended["last_launch"]
    assert (ended["outcome"], last_launch["gang"], last_launch["market"]) == ("succeeded", 2, "spot")
    assert last_launch["price"] > 0
    assert ended["dollars"] > 0


def test_rows_of_runs_are_found_by_their_month_and_name(yard: YardTemplate) -> None:
    _, rows = simulate_runs(yard, spot=2 * TWO_HOSTS)
    for run, states in rows.seen.items():
        assert {row["month"] for row in states} == {states[0]["created"][:7]}
        assert re.fullmatch(r"r\d", states[0]["name"]), run


@pytest.mark.parametrize("limits", [{"most_runs": 1, "most_hosts": 0}, {"most_runs": 0, "most_hosts": 3}])
def test_a_run_without_a_slot_reports_it(yard: YardTemplate, limits: dict[str, int]) -> None:
    result, rows = simulate_runs(yard.with_limits(**limits), spot=2 * TWO_HOSTS)
    assert not result.broken
    ((run, waits),) = rows.waits().items()
    assert {each["what"] for each in waits} == {"slot"}
    assert [each["next_request"] for each in waits] == sorted({each["next_request"] for each in waits})
    assert "before it" in waits[0]["reason"]
    assert "waiting" not in rows.seen[run][-1]
