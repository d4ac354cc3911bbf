"""What is taken of a folder that a program keeps in its own way: what it has written, and never half a file."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from training.host import account
from training.host.bucket import Bucket
from training.host.checkpoints import on_disk, upload
from training.host.checkpoints.upload import CheckpointUpload, LastCheckpoint
from training.host.places import Places

WRITES_HALF = """
import sys, time
with open(sys.argv[1], "w") as file:
    file.write("half")
    file.flush()
    print("written", flush=True)
    time.sleep(600)
"""


class S3:
    """Objects by key."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803 - AWS's names
        self.objects[Key] = Body

    def upload_file(self, path: str, _bucket: str, key: str, **_: Any) -> None:
        self.objects[key] = Path(path).read_bytes()

    def get_object(self, *, Bucket: str, Key: str) -> Any:  # noqa: N803
        from botocore.exceptions import ClientError

        raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, **_: Any) -> list[Any]:
        return []


@pytest.fixture
def s3() -> S3:
    return S3()


@pytest.fixture
def way(tmp_path: Path, s3: S3) -> CheckpointUpload:
    places = Places(tmp_path)
    places.checkpoints.mkdir(parents=True)
    return CheckpointUpload(
        Bucket(s3, "bucket"),
        "run-1",
        places,
        account.own(),
        keep=2,
        last=LastCheckpoint(),
        reported=lambda: None,
        uploaded=lambda last, manifest: None,
        note=lambda text: None,
    )


@contextmanager
def writing(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Somebody who is in the middle of that file, and waits there."""
    command = [sys.executable, "-c", WRITES_HALF, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        try:
            yield writer
        finally:
            writer.kill()


def taken(s3: S3) -> list[str]:
    found = s3.objects.get("runs/run-1/checkpoints/latest.json")
    return sorted(json.loads(found)["files"]) if found else []


def test_what_lies_still_is_taken_at_the_second_look(way: CheckpointUpload, s3: S3) -> None:
    (way.places.checkpoints / "weights.h5").write_text("all")
    way.update(False)
    assert taken(s3) == []
    way.update(False)
    assert taken(s3) == ["weights.h5"]


def test_a_file_that_waits_half_written_is_not_taken_however_still_it_lies(
    way: CheckpointUpload, s3: S3
) -> None:
    with writing(way.places.checkpoints / "weights.h5"):
        for _ in range(upload.LOG_LOOKS):
            way.update(False)
    assert taken(s3) == []


def test_nor_when_the_program_is_killed_in_the_middle_of_it(way: CheckpointUpload, s3: S3) -> None:
    with writing(way.places.checkpoints / "weights.h5") as writer:
        way.update(False)
        writer.kill()
        writer.wait()
        way.runs = lambda: False
        way.update(False)  # the thread's own look, before it is told of the end
        way.ends_well = False
        way.update(True)
    assert taken(s3) == []


def test_what_a_killed_program_had_written_before_is_taken(way: CheckpointUpload, s3: S3) -> None:
    (way.places.checkpoints / "weights.h5").write_text("all")
    time.sleep(upload.STILL_SECONDS)
    way.update(False)
    way.runs, way.ends_well = lambda: False, False
    way.update(True)
    assert taken(s3) == ["weights.h5"]


def test_of_one_that_ends_well_what_it_wrote_last_is_taken(way: CheckpointUpload, s3: S3) -> None:
    (way.places.checkpoints / "weights.h5").write_text("all")
    way.update(True)
    assert taken(s3) == ["weights.h5"]


def test_a_log_that_is_open_all_the_time_keeps_nothing_back(way: CheckpointUpload, s3: S3) -> None:
    with writing(way.places.checkpoints / "log.csv"):
        for _ in range(upload.LOG_LOOKS + 1):
            way.update(False)
        assert taken(s3) == ["log.csv"]
        (way.places.checkpoints / "weights.h5").write_text("all")
        way.update(False)
        way.update(False)
    assert taken(s3) == ["log.csv", "weights.h5"]


def test_events_for_tensorboard_keep_nothing_back_at_all(way: CheckpointUpload, s3: S3) -> None:
    with writing(way.places.checkpoints / "events.out.tfevents.1"):
        (way.places.checkpoints / "weights.h5").write_text("all")
        way.update(False)
        way.update(False)
    assert taken(s3) == ["events.out.tfevents.1", "weights.h5"]


def test_a_file_that_is_closed_meanwhile_hides_none_that_is_open(tmp_path: Path) -> None:
    """A folder of /proc, in which some descriptors have gone between one look and the next."""
    (tmp_path / "fd").mkdir()
    (tmp_path / "fdinfo").mkdir()
    for number, flags in {
        "3": "0100001",
        "4": "0100002",
        "5": "0100000",
        "6": "gone",
        "7": "0100001",
    }.items():
        if number != "7":
            (tmp_path / "fd" / number).symlink_to(f"/checkpoints/{number}")
        else:
            (tmp_path / "fd" / number).touch()  # no link any more
        if flags != "gone":
            (tmp_path / "fdinfo" / number).write_text(f"pos:\t0\nflags:\t{flags}\n")
    assert sorted(on_disk.written_by(tmp_path)) == [Path("/checkpoints/3"), Path("/checkpoints/4")]
    assert list(on_disk.written_by(tmp_path / "ended")) == []
