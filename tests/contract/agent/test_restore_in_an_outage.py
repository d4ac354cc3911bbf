"""Restore of a checkpoint during an outage of S3: the host waits only for the outage, and fetches each file once."""

import json
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.agent.host import become
from tests.contract.conftest import Cloud
from training.host.bucket import Bucket
from training.host.checkpoints import catalogue, fetching
from training.host.checkpoints.catalogue import Version
from training.host.errors import Unreachable

NAMES = [f"20/part-{number:03d}" for number in range(24)]
KEY = "runs/r/checkpoints/00000020/"
VERSION = Version(20, KEY, catalogue.STEP, "2026-11-20T12:00:00.000Z", 20, len(NAMES), 24 * 1000)
SOON_SECONDS = 90.0
"""Limit of the restore. s5cmd's own retries last at least eight minutes."""


@pytest.fixture
def bucket(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    become(monkeypatch, cloud.root)
    s3, name = cloud.client("s3"), f"b-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    files = {each: [1000, 1_000_000_000, 0o644, f"00000020/{each}"] for each in NAMES}
    for each in NAMES:
        s3.put_object(Bucket=name, Key=f"{KEY}{each}", Body=os.urandom(1000))
    document = {"files": files, "links": {}, "folders": {"20": [1, 0o755]}}
    s3.put_object(Bucket=name, Key=f"{KEY[:-1]}.json", Body=json.dumps(document).encode())
    return Bucket(s3, name)


def test_a_transfer_ends_soon_after_s3_has_gone(cloud: Cloud, bucket: Bucket, tmp_path: Path) -> None:
    began = time.monotonic()
    fault = {"action": "s3:GetObject", "seconds": 600, "code": "ServiceUnavailable"}

    def down_once_listed(prefix: str) -> object:
        found = list(Bucket.list(bucket, prefix))
        cloud.admin("POST", "/faults/throttle", fault)
        return iter(found)

    listing: Callable[[str], object] = down_once_listed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket, "list", listing)
        try:
            with pytest.raises(Unreachable):
                fetching.fetch(bucket, VERSION, tmp_path)
        finally:
            cloud.admin("POST", "/faults/clear", {})
    assert time.monotonic() - began < SOON_SECONDS
    fetched = fetching.fetch(bucket, VERSION, tmp_path)
    assert sorted(path.name for path in (fetched.folder / "20").iterdir()) == [name[3:] for name in NAMES]


def test_what_an_interrupted_restore_has_brought_is_not_fetched_again(bucket: Bucket, tmp_path: Path) -> None:
    half = tmp_path / "00000020.part/20"
    half.mkdir(parents=True)
    (half / "part-000").write_bytes(b"here" * 250)
    (half / "part-001").write_bytes(b"cut off")
    (half / "part-002").symlink_to("/etc/passwd")
    fetched = fetching.fetch(bucket, VERSION, tmp_path)
    assert (fetched.folder / "20/part-000").read_bytes() == b"here" * 250
    assert (fetched.folder / "20/part-001").stat().st_size == 1000
    assert not (fetched.folder / "20/part-002").is_symlink()


def test_what_a_killed_agent_left_of_a_transfer_is_no_file_of_the_checkpoint(
    bucket: Bucket, tmp_path: Path
) -> None:
    left = tmp_path / "00000020.part/20/.incoming-0ene0bn7"
    left.mkdir(parents=True)
    (left / "56").write_bytes(b"x")
    fetched = fetching.fetch(bucket, VERSION, tmp_path)
    assert sorted(path.name for path in (fetched.folder / "20").iterdir()) == [name[3:] for name in NAMES]
