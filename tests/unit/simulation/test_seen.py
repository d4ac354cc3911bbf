"""The comparison of two runs: empty if they are alike, otherwise the lines that only one of them has."""

from copy import deepcopy
from typing import Any

from tests.e2e.observed import Seen

EVENT: dict[str, Any] = {"attempt": 1, "instance": None, "source": "workflow", "detail": {}}


def describe(host: str, at: str, run: str) -> dict[str, Any]:
    """Return the description of a run of one host in one cloud."""
    stamp = f"2026-01-05T{at}Z"
    cluster = {"attempt": 1, "hosts": [{"instance": host, "role": "chief", "index": 0}]}
    return {
        "run": run,
        "status": "SUCCEEDED",
        "error": "",
        "states": ["Admit", "Train"],
        "calls": {
            "Yard-Training-TrainLaunchRoleAFDFF371-GYWT": {"ec2:CreateFleet": 1},
            "Yard-Patrol-PatrolRole9F781A85-KPV3": {"ec2:DescribeInstances": 3},
        },
        "rows": [
            {
                "pk": f"run#{run}",
                "sk": "attempt#0001",
                "hosts": [host],
                "launched": stamp,
                "ending": "finished",
            },
        ],
        "timeline": [
            {**EVENT, "sk": f"{stamp}#1", "event": "launched", "reason": f"1 host: {host}"},
            {**EVENT, "sk": f"{stamp}#2", "event": "succeeded", "reason": "", "attempt": None},
        ],
        "keys": ["attempts/1/cluster.json", f"attempts/1/signals/{host}.json"],
        "documents": {"attempts/1/cluster.json": cluster},
    }


ONE = describe("i-0a1b2c3d4e5f60718", "08:00:00.000", "two-0a1b2c3d")
OTHER = describe("i-00000000000000001", "09:30:00.123", "two-cf1324de")


def said(**changes: Any) -> list[str]:
    other = deepcopy(OTHER) | changes
    return [str(each) for each in Seen.of(ONE).differences(Seen.of(other))]


def test_ids_and_instants_make_no_difference() -> None:
    assert said() == []


def test_each_aspect_names_the_line_that_only_one_of_them_has() -> None:
    assert said(states=["Admit", "Recover", "Train"]) == ["states: only in the simulator: Recover"]
    assert said(status="FAILED", error="HostLost") == [
        "states: only on the local cloud: SUCCEEDED",
        "states: only in the simulator: FAILED HostLost",
    ]
    assert said(calls={}) == ["calls: only on the local cloud: TrainLaunch ec2:CreateFleet x 1"]
    assert said(keys=["attempts/1/cluster.json"]) == [
        "keys: only on the local cloud: attempts/1/signals/chief-0.json"
    ]


def test_a_row_differs_by_its_attributes_and_by_values_that_no_chance_has_made() -> None:
    lost = [{**OTHER["rows"][0], "ending": "lost"}]
    assert said(rows=lost) == [
        'rows: only on the local cloud: attempt#0001: ending="finished", hosts, launched',
        'rows: only in the simulator: attempt#0001: ending="lost", hosts, launched',
    ]


def test_events_of_a_source_have_an_order() -> None:
    launched, succeeded = OTHER["timeline"]
    turned = [{**launched, "sk": "2"}, {**succeeded, "sk": "1"}]
    assert said(timeline=turned) == [
        "timeline of workflow: only in the simulator: succeeded:  []",
        "timeline of workflow: only on the local cloud: succeeded:  []",
    ]
