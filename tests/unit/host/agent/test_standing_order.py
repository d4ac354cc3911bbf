"""The standing order in the bucket, read by a host."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from training.host import orders
from training.host.agent.standing_order import StandingOrder, seconds_between_looks
from training.host.bucket import Bucket
from training.host.errors import HostTrouble
from training.host.paths import Paths
from training.host.reporting.outbox import Sender
from trainyard.protocol.orders import Order, OrderKind

ME = "i-1"


class S3:
    """Objects by key. `answers` lists the statuses of GetObject."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.answers: list[int] = []

    def get_object(self, *, Bucket: str, Key: str, IfNoneMatch: str = "") -> dict[str, Any]:  # noqa: N803
        body = self.objects.get(Key)
        etag = f'"{hash(body)}"'
        if body is None or IfNoneMatch == etag:
            status = 404 if body is None else 304
            self.answers.append(status)
            raise ClientError({"Error": {"Code": "NoSuchKey" if body is None else "304"}}, "GetObject")
        self.answers.append(200)
        return {"Body": io.BytesIO(body), "ETag": etag}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803
        self.objects[Key] = Body

    def order(self, word: str, attempt: int, *hosts: str) -> None:
        document = {"run": "run-1", "kind": word, "attempt": attempt, "hosts": hosts}
        self.objects["runs/run-1/order.json"] = json.dumps(document).encode()


@pytest.fixture
def s3() -> S3:
    return S3()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


def standing(s3: S3, paths: Paths, phase: str = "waiting") -> StandingOrder:
    me = Sender("bus", f"AROAHOST:{ME}")
    bucket = Bucket(s3, "bucket")
    return StandingOrder(bucket, bucket, "run-1", paths, instance=ME, sender=me, phase=lambda: phase)


def taken(paths: Paths, word: OrderKind = OrderKind.START) -> int | None:
    found = orders.latest(word, paths)
    return found.attempt if found else None


def look(looking: StandingOrder) -> None:
    looking._looked_at = float("-inf")
    looking.turn()


def test_an_order_is_taken_once_and_then_only_asked_whether_it_changed(s3: S3, paths: Paths) -> None:
    looking = standing(s3, paths)
    look(looking)
    s3.order("start", 1, ME, "i-2")
    for _ in range(3):
        look(looking)
    assert taken(paths) == 1
    assert s3.answers == [404, 200, 304, 304]


def test_an_order_for_others_is_none_for_this_host(s3: S3, paths: Paths) -> None:
    s3.order("start", 2, "i-2")
    look(standing(s3, paths))
    assert taken(paths) is None


def test_an_agent_that_was_restarted_reads_the_order_again_and_nothing_is_new(s3: S3, paths: Paths) -> None:
    s3.order("start", 1, ME)
    look(standing(s3, paths))
    orders.give(Order(OrderKind.START, "run-1", 2), paths)  # Systems Manager was faster
    look(standing(s3, paths))
    assert taken(paths) == 2


def test_a_host_leaves_word_that_it_has_the_order_to_leave(s3: S3, paths: Paths) -> None:
    s3.order("stop", 3, ME)
    look(standing(s3, paths, "running"))
    assert taken(paths, OrderKind.STOP) == 3
    assert f"runs/run-1/attempts/3/drain-confirmations/AROAHOST:{ME}.json" in s3.objects


def test_what_is_no_order_is_named(s3: S3, paths: Paths) -> None:
    s3.objects["runs/run-1/order.json"] = b'{"kind": "start"}'
    with pytest.raises(HostTrouble, match="is not an order"):
        look(standing(s3, paths))


def test_it_looks_often_while_it_waits_seldom_while_it_trains_and_not_at_all_when_it_is_done(
    s3: S3, paths: Paths
) -> None:
    s3.order("start", 1, ME)
    for phase, looks in (("waiting", 2), ("running", 1), ("done", 0)):
        looking, s3.answers = standing(s3, paths, phase), []
        if phase == "done":
            looking._looked_at = 0.0
        looking.turn()
        looking._looked_at -= 1.0
        looking.turn()
        assert len(s3.answers) == looks, phase
    assert seconds_between_looks("fetching") == seconds_between_looks("running")


def test_an_order_of_an_earlier_attempt_that_comes_late_does_not_replace_a_later_one(paths: Paths) -> None:
    orders.give(Order(OrderKind.START, "run-1", 2), paths)
    orders.give(Order(OrderKind.START, "run-1", 1), paths)
    assert taken(paths) == 2
    orders.give(Order(OrderKind.START, "run-2", 1), paths)
    assert taken(paths) == 1
