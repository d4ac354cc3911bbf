"""The second of two runs gets the warm hosts of the first one without its remains."""

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.e2e.published import script
from tests.e2e.runs import Runs
from trainyard.client import Run
from trainyard.client.inventory import hosts as inventory

TWO = {"strategy": "multi_worker", "workers": 2}
FEW = {"few": "s3://BUCKET/data/few/"}
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="hosts of an ordinary user's local cloud have one account only"
)


def warm(runs: Runs) -> list[str]:
    """Return the wiped hosts in the warm pool."""
    rows = runs.yard.session.resource("dynamodb").Table(runs.yard.table)
    found = rows.query(KeyConditionExpression="pk = :pool", ExpressionAttributeValues={":pool": "pool"})[
        "Items"
    ]
    return sorted(str(row["sk"]) for row in found if row.get("ready"))


def hosts_of(run: Run) -> list[str]:
    return sorted(host["instance"] for host in run.summary["hosts"])


def start_of(run: Run) -> datetime:
    """Return the time at which the chief's program began."""
    began: str = run.summary["attempts"][0]["started"]
    return datetime.fromisoformat(began)


def leftovers(runs: Runs, name: str, do: str, **changes: Any) -> dict[str, Any]:
    job = script(runs, "leftovers", args={"do": do}, cluster=TWO, data=FEW, program={"expect": []}, **changes)
    return job | {"name": name}


@needs_root
def test_a_second_run_starts_on_warm_hosts_and_finds_nothing_of_the_first(runs: Runs) -> None:
    pool = {"keep": 2, "minutes": 20}
    first = runs.run(leftovers(runs, "first-of-two", "leave", pool=pool) | {"labels": {"turn": "first"}})
    assert first.succeeded, first.why()
    assert "left a queue: True" in first.log()
    kept = runs.until("both hosts are wiped", lambda: (found := warm(runs)) and len(found) == 2 and found)
    assert kept == hosts_of(first)
    shown = {host.instance: host for host in inventory.hosts(runs.yard)}
    assert all(shown[each].warm and shown[each].price for each in kept)
    for each in kept:
        output = runs.on(
            each, "ls -A /var/lib/trainyard /run/trainyard /var/log/trainyard 2>/dev/null || true"
        )
        assert not {"job.json", "state.json", "credentials.json", "aws-config", "home"} & set(output.split())

    submitted = datetime.now(UTC)
    second = runs.run(leftovers(runs, "second-of-two", "look", pool={"keep": 1, "minutes": 20}))
    assert second.succeeded, second.why()
    assert hosts_of(second) == kept
    for role in ("chief-0", "worker-1"):
        runs.until_log(second, role, "looked")
        output = second.log(role)
        assert "few: ['numbers.txt']" in output
        assert "found:" not in output, output
    took = (start_of(second) - submitted).total_seconds()
    print(f"the program of the second run started {took:.1f} s after its upload")
    assert took <= 10
    paid = runs.until(
        "the first pays for the pool", lambda: (row := runs.yard.row(first.id)) and row.pool_dollars
    )
    assert float(paid) > 0

    (left,) = runs.until("one of the two waits again", lambda: (found := warm(runs)) and found)
    assert left in kept
    inventory.end_warm_hosts(runs.yard, second.id)
    runs.until("no host waits", lambda: not warm(runs))
    runs.until("patrol ends it", lambda: not runs.living())
