"""A damaged checkpoint in a cluster. Each host decides for itself, one after the other."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulation.hosts.agent import checkpoints as simulated
from simulation.hosts.disk import Disk
from training.host.bucket import Bucket
from training.host.checkpoints.restore import restore
from training.host.errors import GivenUp, HostTrouble, Missing
from training.host.paths import Paths
from trainyard.protocol.cluster import Checkpoint

METADATA = json.dumps({"files": {}})


class S3:
    """The part of S3 that a restore uses."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": Key}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}

    def put_object(self, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803 - as above
        self.objects[Key] = Body

    def get_paginator(self, _operation: str) -> "S3":
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        """List nothing: only the hosts' disks have files of checkpoints."""
        return [{}]


def key(step: int) -> str:
    return f"runs/r/checkpoints/{step:08d}/"


def manifest(step: int) -> dict[str, Any]:
    at = "2026-11-20T12:00:00.000Z"
    return {"step": step, "key": key(step), "kind": "step", "at": at, "at_step": step}


@pytest.fixture
def s3() -> S3:
    made = S3()
    latest = manifest(30) | {"before": [manifest(20), manifest(10)]}
    made.objects["runs/r/checkpoints/latest.json"] = json.dumps(latest).encode()
    for step in (30, 20, 10):
        name = f"{step:08d}/trainyard-metadata.json"
        files = {name: [len(METADATA), 1_000_000_000 * step, 0o644, f"{step:08d}/{name}"]}
        document = {"files": files, "links": {}, "folders": {f"{step:08d}": [1, 0o755]}}
        made.objects[f"{key(step)[:-1]}.json"] = json.dumps(document).encode()
    return made


def host(folder: Path, *whole: int) -> Paths:
    """Return a host whose disk has these checkpoints."""
    paths = Paths(folder)
    for step in whole:
        (paths.checkpoints / f"{step:08d}").mkdir(parents=True)
        (paths.checkpoints / f"{step:08d}/trainyard-metadata.json").write_text(METADATA)
    return paths


def restored(s3: S3, paths: Paths, step: int, *, alone: bool = False) -> int:
    return restore(Bucket(s3, "b"), "r", Checkpoint(step, key(step)), paths, alone=alone).checkpoint.step


def test_who_comes_after_another_has_given_it_up_says_the_same_and_gives_up_no_more(
    s3: S3, tmp_path: Path
) -> None:
    for name in ("first", "second", "third"):
        with pytest.raises(GivenUp, match="of step 20, is restored instead, in the next attempt") as said:
            restored(s3, host(tmp_path / name), 30)
        assert (said.value.kind, said.value.final) == ("checkpoint", False)
    assert json.loads(s3.objects["runs/r/checkpoints/latest.json"])["key"] == key(20)


def test_who_restores_alone_goes_on_where_its_earlier_life_has_given_it_up(s3: S3, tmp_path: Path) -> None:
    with pytest.raises(GivenUp):
        restored(s3, host(tmp_path / "first"), 30)
    assert restored(s3, host(tmp_path / "alone", 20), 30, alone=True) == 20


def test_when_none_is_left_the_run_is_over(s3: S3, tmp_path: Path) -> None:
    for step in (30, 20):
        with pytest.raises(GivenUp):
            restored(s3, host(tmp_path / str(step)), step)
    with pytest.raises(HostTrouble, match="no earlier checkpoint is kept") as said:
        restored(s3, host(tmp_path / "last"), 10)
    assert (said.value.kind, said.value.final) == ("host", True)


def test_without_latest_json_the_checkpoint_is_missing(s3: S3, tmp_path: Path) -> None:
    del s3.objects["runs/r/checkpoints/latest.json"]
    with pytest.raises(Missing, match=r"latest\.json"):
        restored(s3, host(tmp_path), 30)


@pytest.mark.parametrize("gone", [15, 5])
def test_a_checkpoint_that_newer_ones_have_replaced_is_not_called_damaged(
    s3: S3, tmp_path: Path, gone: int
) -> None:
    """A disconnected host may save and prune while the next attempt restores."""
    with pytest.raises(GivenUp, match="was replaced; the checkpoint of step 30 is restored instead") as said:
        restored(s3, host(tmp_path / "gang"), gone)
    assert "damaged" not in said.value.reason
    assert restored(s3, host(tmp_path / "alone", 30), gone, alone=True) == 30
    assert json.loads(s3.objects["runs/r/checkpoints/latest.json"])["key"] == key(30)


@pytest.mark.parametrize("alone", [True, False])
def test_a_checkpoint_that_is_pruned_while_a_host_reads_it_is_not_called_damaged(
    s3: S3, tmp_path: Path, alone: bool
) -> None:
    paths = host(tmp_path, 40)
    read = s3.get_object

    def get_object(Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - boto3's names
        if Key == f"{key(30)[:-1]}.json":  # the manifest that latest.json names
            s3.objects["runs/r/checkpoints/latest.json"] = json.dumps(manifest(40) | {"before": []}).encode()
            s3.objects[f"{key(40)[:-1]}.json"] = s3.objects.pop(Key).replace(b"00000030", b"00000040")
        return read(Bucket, Key)

    s3.get_object = get_object  # type: ignore[method-assign]
    if alone:
        assert restored(s3, paths, 30, alone=True) == 40
    else:
        with pytest.raises(GivenUp, match="was replaced; the checkpoint of step 40 is restored instead"):
            restored(s3, paths, 30)


def test_a_pruned_checkpoint_of_the_run_that_is_resumed_says_what_to_type(s3: S3, tmp_path: Path) -> None:
    other = "runs/other/checkpoints/"
    own = manifest(20) | {"key": f"{other}00000020/", "before": []}
    s3.objects["runs/r/checkpoints/latest.json"] = json.dumps(own).encode()
    s3.objects[f"{other}latest.json"] = json.dumps(
        manifest(50) | {"key": f"{other}00000050/", "before": []}
    ).encode()
    with pytest.raises(HostTrouble, match="trainyard resume other") as said:
        restore(Bucket(s3, "b"), "r", Checkpoint(20, f"{other}00000020/"), host(tmp_path), alone=True)
    assert said.value.final
    assert "replaced by the checkpoint of step 50" in said.value.reason
    assert "damaged" not in said.value.reason


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("case", ["whole", "damaged", "all damaged", "given up", "replaced", "no catalogue"])
def test_the_simulator_ends_a_restore_as_the_host_does(
    s3: S3, tmp_path: Path, case: str, alone: bool
) -> None:
    """Both call `bring`. This test compares their results and errors."""

    def prepare(objects: dict[str, bytes]) -> int:
        if case == "no catalogue":
            del objects["runs/r/checkpoints/latest.json"]
        return {"given up": 40, "replaced": 5}.get(case, 30)

    def outcome(act: Callable[[Bucket, int], int]) -> object:
        mine = S3()
        mine.objects = dict(s3.objects)
        asked = prepare(mine.objects)
        try:
            return act(Bucket(mine, "b"), asked)
        except HostTrouble as trouble:
            return type(trouble), trouble.kind, trouble.final

    whole = {"damaged": [20, 10], "all damaged": []}.get(case, [30, 20, 10])

    def on_host(bucket: Bucket, step: int) -> int:
        paths = host(tmp_path / "host", *whole)
        return restore(bucket, "r", Checkpoint(step, key(step)), paths, alone=alone).checkpoint.step

    def in_simulator(bucket: Bucket, step: int) -> int:
        disk = Disk(checkpoints=set(whole))
        return simulated.restore(bucket, "r", Checkpoint(step, key(step)), disk, alone=alone)[0]

    assert outcome(in_simulator) == outcome(on_host)
