"""Answers of the metadata service about a machine."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from localcloud.machine.hypervisor.machine import InstanceDetails, Machine
from localcloud.machine.hypervisor.metadata import Tokens, answer

MACHINE = Machine(
    instance_id="i-1", image_id="ami-1", instance_type="g6.xlarge", zone="us-east-1a", region="us-east-1",
    private_ip="10.0.1.5", mac="02:00:00:00:00:01", gpus=1, vcpus=4, memory_mib=16384, role="host",
    user_data=None, launched_at=datetime(2026, 11, 21, tzinfo=UTC),
)  # fmt: skip
DETAILS = InstanceDetails(
    tags={"trainyard:run": "r-1"},
    shows_tags=True,
    spot_action=("terminate", datetime(2026, 11, 21, 12, 0, tzinfo=UTC)),
    credentials={"AccessKeyId": "A"},
)
QUIET = InstanceDetails()


@pytest.mark.parametrize(
    ("path", "details", "said"),
    [
        ("/latest/meta-data/instance-id", QUIET, b"i-1"),
        ("/2021-07-15/meta-data/instance-id/", QUIET, b"i-1"),
        ("/latest/meta-data/placement/", QUIET, b"availability-zone\nregion"),
        ("/latest/meta-data/tags/instance", DETAILS, b"trainyard:run"),
        ("/latest/meta-data/tags/instance", replace(DETAILS, shows_tags=False), None),
        ("/latest/meta-data/tags/instance/trainyard%3Arun", DETAILS, b"r-1"),
        ("/latest/meta-data/iam/security-credentials/", DETAILS, b"host"),
        (
            "/latest/meta-data/spot/instance-action",
            DETAILS,
            b'{"action": "terminate", "time": "2026-11-21T12:00:00Z"}',
        ),
        ("/latest/meta-data/spot/termination-time", DETAILS, b"2026-11-21T12:00:00Z"),
        ("/latest/meta-data/spot/instance-action", QUIET, None),
        ("/latest/meta-data/iam/info", QUIET, None),
        ("/latest/meta-data/nothing", QUIET, None),
        ("/latest/meta-data/instance-id/below", QUIET, None),
        ("/latest/user-data", QUIET, None),
        ("/latest/elsewhere", QUIET, None),
    ],
)
def test_a_path_is_answered(path: str, details: InstanceDetails, said: bytes | None) -> None:
    assert answer(MACHINE, details, path) == said


def test_a_token_is_good_for_its_host_and_its_time() -> None:
    tokens = Tokens()
    token = tokens.issue("i-1", ttl=60, now=0.0)
    assert tokens.is_good(token, "i-1", now=59.0)
    assert not tokens.is_good(token, "i-1", now=60.0)
    assert not tokens.is_good(token, "i-2", now=1.0)
    assert not tokens.is_good(None, "i-1", now=1.0)
