"""Holds that the host requests itself: the events on the bus, and the host's reaction."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.contract.agent.host import HOLD, INSTANCE, MetadataService, Yard, become
from tests.contract.conftest import allow, eventually
from training.host.__main__ import main
from training.host.agent.deadlines import hold
from training.host.errors import HostTrouble


@pytest.fixture
def metadata(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> Iterator[MetadataService]:
    service = yard.metadata()
    monkeypatch.setattr(hold, "Metadata", lambda: service.client)
    monkeypatch.setattr(hold, "LOOK_SECONDS", 0.1)
    yield service
    service.shutdown()
    service.server_close()


def test_a_person_holds_the_host_and_hears_until_when(
    yard: Yard, metadata: MetadataService, capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    person = threading.Thread(target=lambda: codes.append(main(["hold", "2h"])))
    person.start()
    said = yard.hear("hold")
    assert (said["run"], said["instance"]) == (yard.run, INSTANCE)
    assert (
        timedelta(hours=1.9) < datetime.fromisoformat(said["until"]) - datetime.now(UTC) <= timedelta(hours=2)
    )
    assert person.is_alive(), "the tag is not written yet"
    metadata.pages[HOLD] = said["until"]
    person.join(10)
    assert codes == [0]
    assert f"held until {said['until'][:19]}" in capsys.readouterr().out


def test_a_notebook_releases_it(yard: Yard, metadata: MetadataService) -> None:
    metadata.pages[HOLD] = (datetime.now(UTC) + timedelta(hours=9)).isoformat()
    released: list[datetime] = []
    notebook = threading.Thread(target=lambda: released.append(hold.release()))
    notebook.start()
    assert yard.hear("hold")["until"] is None
    now = datetime.now(UTC)
    metadata.pages[HOLD] = now.isoformat()
    notebook.join(10)
    assert released == [now]


def test_a_hold_that_nobody_hears_is_no_hold(
    metadata: MetadataService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hold, "PATIENCE_SECONDS", 0.5)
    assert main(["hold", "2h"]) == 1
    assert "may not be held; check the log of the yard's function signal" in capsys.readouterr().err


def test_a_role_that_may_not_speak_is_named(
    yard: Yard, metadata: MetadataService, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(monkeypatch, yard.cloud.acting_as(allow("s3:GetObject")))
    with pytest.raises(HostTrouble, match="the host role lacks events:PutEvents on the bus"):
        hold.hold("2h")


def test_the_agent_stays_beyond_its_lease_while_it_is_held(yard: Yard) -> None:
    """Test a hold after the agent's start. The agent reads its tag again."""
    yard.prepare("print('trains')")
    service = yard.start_agent()
    yard.hear("ready")
    until = datetime.now(UTC) + timedelta(hours=9)
    service.pages[HOLD] = until.isoformat()
    eventually(lambda: yard.agent._watchdog.lease.until == until)
    assert yard.powered_off == []
