"""Answers of capacity pools, read from the ledger's rows."""

from typing import Any

from tests.unit.core.builders import candidate
from trainyard.client.runs.records import AnsweredRequest, list_answered_requests
from trainyard.protocol.ledger import reading
from trainyard.values import serialization

AT = "2026-11-20T12:00:00.000Z"
CANDIDATES = [serialization.to_json(candidate("g6.xlarge", f"us-east-1{zone}")) for zone in "ab"]
PLAN = {
    "candidates": CANDIDATES,
    "excluded": [],
    "image": "ami-1",
    "gang": 1,
    "hourly_cap": None,
    "made": AT,
    "reason": "r",
}


def launch_request(**more: Any) -> dict[str, Any]:
    return {
        "sk": "launch-request#0001#000#000",
        "token": "t",
        "at": AT,
        "capacity_pool": "2 spot pools",
        **more,
    }


def asked(*requests: dict[str, Any]) -> tuple[AnsweredRequest, ...]:
    rows = [{**row, "sk": f"launch-request#0001#000#{n:03d}"} for n, row in enumerate(requests)]
    found = reading.read_all("digits-1", [*rows, {"sk": "plan", **PLAN}])
    return list_answered_requests(found.launch_requests, found.plan)


def test_of_a_request_for_several_pools_each_has_its_answer() -> None:
    said = [
        {"candidate": 0, "kind": "capacity", "code": "UnfulfillableCapacity", "reason": "none"},
        {"candidate": 1, "kind": "quota", "code": "MaxSpotInstanceCountExceeded", "reason": "full"},
    ]
    found = asked(launch_request(answer="refused", refusals=said))
    assert [(each.pool, each.answer, each.kind, each.code, each.reason) for each in found] == [
        ("g6.xlarge in us-east-1a, spot", "refused", "capacity", "UnfulfillableCapacity", "none"),
        ("g6.xlarge in us-east-1b, spot", "refused", "quota", "MaxSpotInstanceCountExceeded", "full"),
    ]


def test_one_pools_answer_is_as_its_row_says() -> None:
    refused = launch_request(
        answer="refused", refusal="capacity", code="c", reason="r", capacity_pool="a pool"
    )
    found = asked(refused, launch_request())
    assert [(each.pool, each.kind) for each in found] == [("a pool", "capacity"), ("2 spot pools", "")]
