"""Listings with the credentials of a run, and the difference between a missing and a denied object."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lambdas.core.run.bucket_access import session_policy
from tests.contract.conftest import Cloud
from tests.unit.core.builders import job
from training.host.bucket import Bucket, Object
from training.host.errors import AccessDenied, Missing

RUN = "mine-1a2b3c4d"
OWN = f"runs/{RUN}/order.json"
THEIRS = "runs/theirs-1a2b3c4d/order.json"


@pytest.fixture
def name(cloud: Cloud) -> Iterator[str]:
    name, s3 = f"b-{uuid.uuid4().hex[:12]}", cloud.client("s3")
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key=THEIRS, Body=b"theirs")
    yield name
    s3.delete_object(Bucket=name, Key=THEIRS)


@pytest.fixture
def bucket(cloud: Cloud, name: str) -> Bucket:
    """Return the bucket with the credentials of a run, as its host's agent uses it."""
    asked = job(
        program={"module": "mine", "source": f"s3://{name}/programs/mine.tar.gz"}, data={}, checkpoints={}
    )
    statements = json.loads(session_policy(name, RUN, asked, yard="trainyard"))["Statement"]
    return Bucket(cloud.client("s3", cloud.acting_as(*statements)), name)


def test_a_missing_object_of_the_run_is_missing_and_anothers_is_denied(
    bucket: Bucket, tmp_path: Path
) -> None:
    for key in (OWN, "programs/mine.tar.gz"):
        assert bucket.read_if_there(key) is None
        with pytest.raises(Missing, match=f"{key} does not exist"):
            bucket.download(key, tmp_path / "fetched")
    for key in (THEIRS, f"{THEIRS}.bak", "programs/other.tar.gz"):
        with pytest.raises(AccessDenied):
            bucket.read(key)
        with pytest.raises(AccessDenied):
            bucket.download(key, tmp_path / "fetched")
        with pytest.raises(AccessDenied):
            bucket.read_if_changed(key, "")
    with pytest.raises(Missing):
        bucket.download_version(
            f"runs/{RUN}/outputs/a", "3L4kqtJlcpXroDTDmJrmSpXd3dIbrHY1", tmp_path / "fetched"
        )


@pytest.mark.parametrize("prefix", ["", "runs/", "runs", f"runs/{RUN}", "runs/theirs-1a2b3c4d/", "programs/"])
def test_no_list_reaches_beyond_the_run(bucket: Bucket, prefix: str) -> None:
    with pytest.raises(AccessDenied, match="s3:ListBucket"):
        list(bucket.list(prefix))


def test_an_object_that_is_looked_at_again_and_again_is_found_once_it_appears(
    cloud: Cloud, bucket: Bucket, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[str] = []
    listing = Bucket.list

    def counted(me: Bucket, prefix: str) -> Iterator[Object]:
        lists.append(prefix)
        return listing(me, prefix)

    monkeypatch.setattr(Bucket, "list", counted)
    assert [bucket.read_if_changed(OWN, "") for _ in range(24)] == [None] * 24
    assert len(lists) == 2, "a list costs 12 times a GetObject"
    cloud.client("s3").put_object(Bucket=name, Key=OWN, Body=b"stop")
    found = bucket.read_if_changed(OWN, "")
    assert found is not None
    assert found.body == b"stop"
    assert bucket.read_if_changed(OWN, found.etag) is None
