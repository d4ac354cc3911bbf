"""The hosts of a yard. A verdict's reason is shown only while it is true."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trainyard.client.inventory.hosts import Judged, YardHost

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def later(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


BOOTS = Judged("it started at 11:59 and boots until 12:15", later(15))
BUSY = Judged("its busiest GPU was at 87 %", None)


def host(at: datetime, judged: Judged, state: str = "running", **tags: str) -> YardHost:
    named = {"trainyard:verdict": "keep 2026-11-28T11:59:00.000Z"} | {
        f"trainyard:{k}": v for k, v in tags.items()
    }
    described: dict[str, Any] = {
        "InstanceId": "i-1",
        "InstanceType": "g6.xlarge",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "State": {"Name": state},
        "LaunchTime": NOON,
        "Tags": [{"Key": key, "Value": value} for key, value in named.items()],
    }
    return YardHost.of(described, {"i-1": judged}, at)


@pytest.mark.parametrize(
    ("at", "judged", "tags", "says"),
    [
        (NOON, BOOTS, {}, BOOTS.reason),
        (later(15), BOOTS, {}, ""),
        (later(60), BUSY, {}, BUSY.reason),
        (later(5), BOOTS, {"hold": "2026-11-28T14:00:00Z"}, "it is held until 2026-11-28T14:00Z"),
        (later(150), BOOTS, {"hold": "2026-11-28T14:00:00Z"}, ""),
        (NOON, Judged("it waits until 12:10. It costs $1", later(10)), {"hold": "2026-11-28T12:10:00Z"},
         "it waits until 12:10. It costs $1"),
        (NOON, Judged("it waits until 12:05", later(5)), {"hold": "2026-11-28T12:40:00Z"},
         "it is held until 2026-11-28T12:40Z"),
    ],
)  # fmt: skip
def test_a_reason_is_shown_while_it_is_true(
    at: datetime, judged: Judged, tags: dict[str, str], says: str
) -> None:
    assert host(at, judged, **tags).reason == says


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_a_host_that_is_gone_has_no_verdict(state: str) -> None:
    gone = host(NOON, BUSY, state)
    assert (gone.verdict, gone.reason, gone.since) == ("", "", None)
