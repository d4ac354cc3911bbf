"""Data transfers from a bucket of the local cloud to a host's disk."""

import os
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.contract.agent.host import become
from tests.contract.conftest import Cloud, allow
from training.host.bucket import Bucket
from training.host.data.fetch import fetch_shares, fetch_whole
from training.host.data.transfer import download_all
from training.host.errors import AccessDenied, Damaged, HostTrouble, Missing
from training.host.paths import Paths
from trainyard.core.model.hardware import Cluster as Workers
from trainyard.core.model.job import Job
from trainyard.core.model.program import Data, Program, Sharding
from trainyard.protocol.cluster import Assignment, Cluster, Role, Strategy

CHIEF, WORKER = Assignment("i-1", Role.CHIEF, 0, "10.0.1.5"), Assignment("i-2", Role.WORKER, 1, "10.0.1.6")


class Store:
    """A bucket with data, and the disk for downloads."""

    def __init__(self, cloud: Cloud, root: Path) -> None:
        self.name = f"data-{uuid.uuid4().hex[:8]}"
        self.s3 = cloud.client("s3")
        self.s3.create_bucket(Bucket=self.name)
        self.bucket = Bucket(self.s3, self.name)
        self.paths = Paths(root)

    def put(self, **bodies: bytes) -> None:
        for name, body in bodies.items():
            self.s3.put_object(Bucket=self.name, Key=f"data/{name.replace('__', '/')}", Body=body)

    def job(self, sharding: Sharding = Sharding.NONE, **entries: str) -> Job:
        named = entries or {"train": "data/train/"}
        return Job(
            name="digits",
            program=Program(module="main"),
            cluster=Workers(strategy=Strategy.MULTI_WORKER, workers=2),
            data={
                name: Data(source=f"s3://{self.name}/{key}", sharding=sharding) for name, key in named.items()
            },
        )

    def files(self) -> dict[str, bytes]:
        data = self.paths.data
        return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}

    def inodes(self) -> dict[str, int]:
        """Return the inodes. A new download creates a new file."""
        return {path.name: path.stat().st_ino for path in self.paths.data.rglob("*") if path.is_file()}


@pytest.fixture
def store(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    become(monkeypatch, cloud.root)
    return Store(cloud, tmp_path)


def cluster(*assignments: Assignment) -> Cluster:
    return Cluster(
        run="r",
        attempt=1,
        strategy=Strategy.MULTI_WORKER,
        assignments=assignments,
        deadline=datetime(2026, 11, 20, tzinfo=UTC),
    )


def test_whatever_a_key_looks_like_its_file_is_whole(store: Store) -> None:
    bodies = {
        "a b/it's.rec": b"1",
        "x*y?[z].rec": b"22",
        'q"uo\\te.rec': b"333",
        "ü/$HOME #1.rec": b"4444",
        "empty": b"",
    }
    for name, body in bodies.items():
        store.s3.put_object(Bucket=store.name, Key=f"data/train/{name}", Body=body)
    store.put(one=b"single", trainer=b"not asked for")
    fetch_whole(store.bucket, store.job(train="data/train", one="data/one"), store.paths)
    assert store.files() == {f"train/{name}": body for name, body in bodies.items()} | {"one": b"single"}


def test_an_object_that_came_in_parts_is_compared_by_its_parts(store: Store) -> None:
    body = os.urandom(12 * 1024 * 1024 + 1)
    asked = {"Bucket": store.name, "Key": "data/train/large"}
    upload = store.s3.create_multipart_upload(**asked)["UploadId"]
    cuts = [0, 6 * 1024 * 1024, 11 * 1024 * 1024, len(body)]
    parts = [
        {
            "PartNumber": number,
            "ETag": store.s3.upload_part(
                **asked, UploadId=upload, PartNumber=number, Body=body[cuts[number - 1] : cuts[number]]
            )["ETag"],
        }
        for number in (1, 2, 3)
    ]
    store.s3.complete_multipart_upload(**asked, UploadId=upload, MultipartUpload={"Parts": parts})
    fetch_whole(store.bucket, store.job(), store.paths)
    assert store.files() == {"train/large": body}


def test_a_restarted_agent_fetches_only_what_is_missing_or_has_changed(store: Store) -> None:
    store.put(train__kept=b"kept", train__lost=b"lost", train__changed=b"old", train__gone=b"gone")
    fetch_whole(store.bucket, store.job(), store.paths)
    before = store.inodes()
    store.put(train__changed=b"new", train__more=b"more")
    store.s3.delete_object(Bucket=store.name, Key="data/train/gone")
    (store.paths.data / "train" / "lost").unlink()
    (store.paths.data / ".incoming-of-an-agent-that-was-killed").mkdir()
    fetch_whole(store.bucket, store.job(), store.paths)
    assert store.files() == {
        "train/kept": b"kept",
        "train/lost": b"lost",
        "train/changed": b"new",
        "train/more": b"more",
    }
    assert store.inodes()["kept"] == before["kept"]
    assert [path.name for path in store.paths.data.iterdir()] == ["train"]


def test_workers_share_the_files_and_another_share_replaces_the_first(store: Store) -> None:
    store.put(**{f"train__{number}": bytes(10) for number in range(5)})
    job = store.job(Sharding.FILE)
    fetch_whole(store.bucket, job, store.paths)
    assert store.files() == {}
    both = cluster(CHIEF, WORKER)
    fetch_shares(store.bucket, both, CHIEF, job, store.paths)
    assert sorted(store.inodes()) == ["0", "2", "4"]
    fetch_shares(store.bucket, both, WORKER, job, store.paths)
    assert sorted(store.inodes()) == ["1", "3"]
    fetch_shares(store.bucket, cluster(CHIEF), CHIEF, job, store.paths)
    assert sorted(store.inodes()) == ["0", "1", "2", "3", "4"]


def test_an_object_that_changes_while_it_is_fetched_is_no_data(store: Store) -> None:
    store.put(train__a=b"first")
    listed = next(iter(store.bucket.list("data/train/a")))
    store.put(train__a=b"other")
    with pytest.raises(
        Damaged, match=r"data/train/a arrived damaged twice: ETag \w+ instead of \w+"
    ) as damaged:
        download_all(store.bucket, {store.paths.data / "a": listed})
    assert damaged.value.final
    assert store.files() == {}


def test_an_object_that_is_gone_is_named(store: Store) -> None:
    store.put(train__a=b"first")
    listed = next(iter(store.bucket.list("data/train/a")))
    store.s3.delete_object(Bucket=store.name, Key="data/train/a")
    with pytest.raises(Missing, match=r"/data/train/a does not exist"):
        download_all(store.bucket, {store.paths.data / "a": listed})


def test_a_permission_that_lacks_is_named(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(train__a=b"first")
    become(monkeypatch, cloud.acting_as(allow("s3:ListBucket", f"arn:aws:s3:::{store.name}")))
    with pytest.raises(AccessDenied, match=r"lacks s3:GetObject on s3://.*/data/train/a"):
        fetch_whole(store.bucket, store.job(), store.paths)


def test_what_is_given_up_leaves_nothing_half(store: Store) -> None:
    store.put(train__a=b"first")
    with pytest.raises(HostTrouble, match=r"data\.train: given up"):
        fetch_whole(store.bucket, store.job(), store.paths, given_up=lambda: True)
    assert [path.name for path in store.paths.data.iterdir()] == ["train"]


def test_an_object_with_others_below_it_cannot_be_a_file(store: Store) -> None:
    store.put(train__a=b"first", train__a__b=b"second")
    with pytest.raises(HostTrouble, match="a file is no folder"):
        fetch_whole(store.bucket, store.job(), store.paths)
