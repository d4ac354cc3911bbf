"""Orders to hosts: in the bucket for all of them, through Systems Manager for registered ones."""

from typing import Any

import pytest

from lambdas.aws import s3, ssm, states
from lambdas.core.run.recovery import Trouble
from lambdas.steps import orders
from lambdas.workflows.train import train
from tests.support.recorded import CONTEXT
from tests.support.records import AT
from tests.unit.workflows.conftest import Place
from trainyard.core.model.errors import ServiceUnavailable, StartFailed
from trainyard.protocol.orders import Order, OrderKind

KEY = "runs/digits-1/order.json"
BOTH = ("i-1", "i-2")


class SystemsManager:
    """Systems Manager with the registered hosts in `knows`; `told` are the hosts that got a command."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.knows, self.trouble = frozenset(BOTH), False
        self.told: list[str] = []
        monkeypatch.setattr(ssm, "send", self._send)
        monkeypatch.setattr(ssm, "find_online", lambda ids: self.knows & frozenset(ids))

    def _send(self, document: str, ids: Any, parameters: Any, *, comment: str) -> tuple[str, ...]:
        if self.trouble:
            raise ServiceUnavailable("ssm does not do SendCommand now", "ThrottlingException")
        if not set(ids) <= self.knows:
            raise StartFailed("Systems Manager has no registration of one of them")
        self.told += ids
        return ("c-1",)


@pytest.fixture
def manager(place: Place, monkeypatch: pytest.MonkeyPatch) -> SystemsManager:
    return SystemsManager(monkeypatch)


def give(word: str, attempt: int, hosts: tuple[str, ...] = BOTH) -> tuple[str, ...] | None:
    return orders.give(
        Order(OrderKind(word), "digits-1", attempt, hosts), bucket="bucket", document=f"trainyard-{word}"
    )


def test_an_order_goes_both_ways(place: Place, manager: SystemsManager) -> None:
    assert give("start", 1) == ()
    assert place.object(KEY) == {"run": "digits-1", "attempt": 1, "kind": "start", "hosts": list(BOTH)}
    assert manager.told == list(BOTH)


def test_a_host_that_systems_manager_does_not_know_has_it_from_the_bucket_alone(
    place: Place, manager: SystemsManager
) -> None:
    manager.knows = frozenset({"i-2"})
    assert give("start", 1) == ("i-1",)
    assert manager.told == ["i-2"]
    manager.knows = frozenset()
    assert give("stop", 1) == BOTH
    assert place.object(KEY)["kind"] == "stop"


def test_systems_managers_own_trouble_keeps_no_order_back(place: Place, manager: SystemsManager) -> None:
    manager.trouble = True
    assert give("start", 1) == BOTH
    assert place.object(KEY)["hosts"] == list(BOTH)


@pytest.mark.parametrize(
    ("there", "late"),
    [
        (("start", 1), ("start", 1)),
        (("start", 2), ("stop", 1)),
        (("stop", 1), ("start", 1)),
        (("start", 2), ("start", 1)),
        (("stop", 2), ("stop", 2)),
    ],
    ids=str,
)
def test_an_order_that_comes_late_changes_nothing_in_the_bucket(
    place: Place, manager: SystemsManager, there: tuple[str, int], late: tuple[str, int]
) -> None:
    give(*there)
    manager.told.clear()
    assert (give(*late, hosts=("i-1",)) is None) is (there != late)
    assert (manager.told == []) is (there != late), "no host gets it, except a repeated order"
    document = place.object(KEY)
    assert (document["kind"], document["attempt"], document["hosts"]) == (*there, list(BOTH))


def test_of_two_that_write_at_once_the_later_order_stays(
    place: Place, manager: SystemsManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    give("start", 1)
    read, others = s3.get_tagged, ["start"]

    def another_writes_meanwhile(bucket: str, key: str) -> Any:
        found = read(bucket, key)
        if others:
            give(others.pop(), 2)
        return found

    monkeypatch.setattr(s3, "get_tagged", another_writes_meanwhile)
    give("stop", 1)
    assert (place.object(KEY)["kind"], place.object(KEY)["attempt"]) == ("start", 2)


def test_what_a_program_has_written_there_is_written_over(place: Place, manager: SystemsManager) -> None:
    place.put(KEY, {"attempt": "many"})
    give("start", 1)
    assert place.object(KEY)["attempt"] == 1


def test_a_gang_that_was_asked_to_leave_before_its_start_is_not_waited_for(
    place: Place, manager: SystemsManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hosts wait for the next attempt, so none of them would report the end of this one."""
    failed: list[Trouble] = []
    monkeypatch.setattr(states, "fail", lambda _token, trouble: failed.append(trouble))
    manager.knows = frozenset(place.hosts)
    place.row(f"host#{place.worker}", {"warned": AT})
    give("stop", 1, (place.chief,))
    manager.told.clear()
    train.handler({"run": "digits-1", "attempt": 1, "task_token": "t"}, CONTEXT)
    assert manager.told == []
    assert place.object(KEY)["kind"] == "stop"
    ((error, lost),) = [(trouble.error, trouble.lost) for trouble in failed]
    assert (error, lost) == ("Interrupted", (place.worker,))
