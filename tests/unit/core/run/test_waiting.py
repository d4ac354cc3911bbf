"""Waiting runs without hosts, as users see them."""

import dataclasses

from lambdas.core.capacity.plan import Refusal
from lambdas.core.run import waiting
from tests.unit.core.builders import NOON, after, job
from trainyard.client.runs import listing
from trainyard.core.model.names import LISTED
from trainyard.protocol.ledger.run import RunRow, Waiting, WaitsFor
from trainyard.protocol.plan import RefusalKind
from trainyard.values import serialization


def refusal(candidate: int, kind: RefusalKind, round_: int = 0) -> Refusal:
    return Refusal(candidate=candidate, round=round_, kind=kind, code="", reason="", at=after(round_))


def test_a_pool_counts_once_by_what_it_said_last() -> None:
    said = [
        refusal(0, RefusalKind.UNSUPPORTED),
        refusal(1, RefusalKind.THROTTLED),
        refusal(2, RefusalKind.CAPACITY),
        refusal(1, RefusalKind.CAPACITY, 1),
        refusal(2, RefusalKind.CAPACITY, 1),
    ]
    found = waiting.for_capacity(
        said,
        job(limits={"hours": 2, "dollars": 3, "wait_minutes": 30}),
        since=NOON,
        deadline=after(7200),
        seconds=60,
        reason="all 2 open pools refused",
        now=after(10),
    )
    assert found.refused == {"unsupported": 1, "capacity": 2}
    assert (found.what, found.since, found.next_request, found.until) == (
        WaitsFor.CAPACITY,
        NOON,
        after(70),
        after(1800),
    )


def test_it_waits_no_longer_than_the_run_may_last() -> None:
    patient = job(limits={"hours": 1, "dollars": 3, "wait_minutes": 600})
    found = waiting.for_capacity(
        [], patient, since=NOON, deadline=after(3600), seconds=60, reason="", now=NOON
    )
    assert found.until == after(3600)


def test_for_its_place_it_waits_from_its_beginning() -> None:
    found = waiting.for_slot(
        job(limits={"hours": 1, "dollars": 3, "wait_minutes": 5}),
        NOON,
        seconds=30,
        reason="full",
        turn=(3, 5),
        now=after(60),
    )
    assert (found.since, found.next_request, found.until, found.refused) == (NOON, after(90), after(300), {})
    assert (found.position, found.queued) == (3, 5)


def test_a_waiting_run_tells_when_it_asks_next() -> None:
    written = Waiting(
        what=WaitsFor.CAPACITY,
        since=NOON,
        next_request=after(60),
        seconds=60,
        until=after(150),
        reason="no room",
        refused={"capacity": 18},
    )
    read = serialization.from_json(Waiting, serialization.to_json(written))
    assert read == written
    assert read.awaited == "capacity"
    assert [read.next_request_after(after(seconds)) for seconds in (0, 60, 61, 500)] == [
        after(60),
        after(60),
        after(120),
        after(150),
    ]


def test_what_a_list_shows_is_a_part_of_the_runs_row_and_not_its_job() -> None:
    fields = {each.name for each in dataclasses.fields(RunRow)}
    assert set(LISTED) <= fields
    assert not {"job", "recipe", "imaging"} & set(LISTED)
    assert len(LISTED) <= 20, "the most attributes of an index (NonKeyAttributes in DynamoDB's API)"
    computed = {"id", "arn", "created", "metrics", "pool", "market", "gang", "price"}
    shown = {each.name for each in dataclasses.fields(listing.ListedRun)} - computed
    assert shown <= set(LISTED)
    assert {"progress", "scalars", "last_launch"} <= set(LISTED), "these have the computed ones"
