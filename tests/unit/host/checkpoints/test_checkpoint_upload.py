"""Checkpoints of a folder in the program's own format: all files that it has written, and never half a file."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from training.host import account
from training.host.bucket import Bucket
from training.host.checkpoints import on_disk, stillness, upload
from training.host.checkpoints.choice import LastCheckpoint
from training.host.checkpoints.upload import CheckpointUpload
from training.host.errors import HostTrouble
from training.host.paths import Paths

PREFIX = "runs/run-1/checkpoints/"
LATEST = f"{PREFIX}latest.json"
WRITES_HALF = """
import sys, time
with open(sys.argv[1], "w") as file:
    file.write("half")
    file.flush()
    print("written", flush=True)
    time.sleep(600)
"""


class S3:
    """Objects by key, and the keys in the order of their writes. Every call from number `dies_at` on fails.

    When latest.json is written, everything that it names must exist already, with the sizes of its manifest.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.written: list[str] = []
        self.calls = 0
        self.dies_at: int | None = None

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> None:  # noqa: N803 - AWS's names
        self._write(Key, Body)

    def upload_file(self, path: str, _bucket: str, key: str, **_: Any) -> None:
        self._write(key, Path(path).read_bytes())

    def get_object(self, *, Bucket: str, Key: str) -> Any:  # noqa: N803
        self._call()
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}

    def delete_objects(self, *, Bucket: str, Delete: Any) -> Any:  # noqa: N803
        self._call()
        for each in Delete["Objects"]:
            self.objects.pop(each["Key"], None)
        check_whole(self.objects)
        return {}

    def get_paginator(self, _: str) -> Any:
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> list[Any]:  # noqa: N803
        self._call()
        at = datetime.now(UTC)
        return [
            {
                "Contents": [
                    {"Key": key, "Size": len(body), "ETag": '"e"', "LastModified": at}
                    for key, body in sorted(self.objects.items())
                    if key.startswith(Prefix)
                ]
            }
        ]

    def _write(self, key: str, body: bytes) -> None:
        self._call()
        self.objects[key] = body
        self.written.append(key)
        check_whole(self.objects)

    def _call(self) -> None:
        self.calls += 1
        if self.dies_at is not None and self.calls >= self.dies_at:
            raise ClientError({"Error": {"Code": "SlowDown", "Message": "the host dies"}}, "PutObject")


def check_whole(objects: dict[str, bytes]) -> None:
    """Check that every checkpoint that latest.json names can be restored."""
    latest = json.loads(objects.get(LATEST, b"null"))
    for version in [latest, *latest["before"]] if latest else []:
        manifest = json.loads(objects[f"{version['key'][:-1]}.json"])
        for name, (size, _, _, key) in manifest["files"].items():
            assert len(objects[PREFIX + key]) == size, f"{name} of {version['key']}"


def contents(s3: S3, version: dict[str, Any] | None = None) -> dict[str, bytes]:
    """Return the files that a restore would find in the newest checkpoint, or in the given one."""
    version = version or json.loads(s3.objects[LATEST])
    manifest = json.loads(s3.objects[f"{version['key'][:-1]}.json"])
    return {name: s3.objects[PREFIX + key] for name, (_, _, _, key) in manifest["files"].items()}


def sent(s3: S3, name: str) -> int:
    """Return how often a file was uploaded."""
    return sum(key.endswith(f"/{name}") for key in s3.written)


@pytest.fixture
def s3() -> S3:
    return S3()


@pytest.fixture
def way(tmp_path: Path, s3: S3) -> CheckpointUpload:
    return upload_of(Paths(tmp_path), s3)


def upload_of(paths: Paths, s3: S3, lines: list[str] | None = None) -> CheckpointUpload:
    paths.checkpoints.mkdir(parents=True, exist_ok=True)
    return CheckpointUpload(
        Bucket(s3, "bucket"),
        "run-1",
        paths,
        account.own(),
        keep=2,
        last=LastCheckpoint(),
        reported=lambda: None,
        uploaded=lambda last, version: None,
        note=(lines if lines is not None else []).append,
    )


def restarted(way: CheckpointUpload) -> CheckpointUpload:
    """Return the upload of a restarted agent, which only remembers the last checkpoint."""
    again = upload_of(way.paths, way.bucket._s3)
    again.last = way.last
    return again


@contextmanager
def writing(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Yield while a writer waits in the middle of this file."""
    command = [sys.executable, "-c", WRITES_HALF, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        try:
            yield writer
        finally:
            writer.kill()


def taken(s3: S3) -> list[str]:
    return sorted(contents(s3)) if LATEST in s3.objects else []


def look(way: CheckpointUpload, times: int = 2) -> None:
    """Look at the folder this many times."""
    for _ in range(times):
        way._next_look = 0.0
        way.update(False)


def test_what_lies_still_is_taken_at_the_second_look(way: CheckpointUpload, s3: S3) -> None:
    (way.paths.checkpoints / "weights.h5").write_text("all")
    look(way, 1)
    assert taken(s3) == []
    look(way, 1)
    assert taken(s3) == ["weights.h5"]


def test_a_file_that_waits_half_written_is_not_taken_however_still_it_lies(
    way: CheckpointUpload, s3: S3
) -> None:
    with writing(way.paths.checkpoints / "weights.h5"):
        for _ in range(stillness.LOG_LOOKS):
            look(way, 1)
    assert taken(s3) == []


def test_nor_when_the_program_is_killed_in_the_middle_of_it(way: CheckpointUpload, s3: S3) -> None:
    with writing(way.paths.checkpoints / "weights.h5") as writer:
        look(way, 1)
        writer.kill()
        writer.wait()
        way.runs = lambda: False
        look(way, 1)  # the thread looks before it learns of the end
        way.ends_well = False
        way.update(True)
    assert taken(s3) == []


def test_what_a_killed_program_had_written_before_is_taken(way: CheckpointUpload, s3: S3) -> None:
    (way.paths.checkpoints / "weights.h5").write_text("all")
    time.sleep(upload.STILL_SECONDS)
    look(way, 1)
    way.runs, way.ends_well = lambda: False, False
    way.update(True)
    assert taken(s3) == ["weights.h5"]


def test_of_one_that_ends_well_what_it_wrote_last_is_taken(way: CheckpointUpload, s3: S3) -> None:
    (way.paths.checkpoints / "weights.h5").write_text("all")
    way.update(True)
    assert taken(s3) == ["weights.h5"]


def test_a_log_that_is_open_all_the_time_keeps_nothing_back(way: CheckpointUpload, s3: S3) -> None:
    with writing(way.paths.checkpoints / "log.csv"):
        for _ in range(stillness.LOG_LOOKS + 1):
            look(way, 1)
        assert taken(s3) == ["log.csv"]
        (way.paths.checkpoints / "weights.h5").write_text("all")
        look(way)
    assert taken(s3) == ["log.csv", "weights.h5"]


def test_events_for_tensorboard_keep_nothing_back_at_all(way: CheckpointUpload, s3: S3) -> None:
    with writing(way.paths.checkpoints / "events.out.tfevents.1"):
        (way.paths.checkpoints / "weights.h5").write_text("all")
        look(way)
    assert taken(s3) == ["events.out.tfevents.1", "weights.h5"]


def test_a_file_that_is_closed_meanwhile_hides_none_that_is_open(tmp_path: Path) -> None:
    """Some descriptors in the folder of /proc vanish between two looks."""
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
            (tmp_path / "fd" / number).touch()  # no longer a link
        if flags != "gone":
            (tmp_path / "fdinfo" / number).write_text(f"pos:\t0\nflags:\t{flags}\n")
    assert sorted(on_disk.written_by(tmp_path)) == [Path("/checkpoints/3"), Path("/checkpoints/4")]
    assert list(on_disk.written_by(tmp_path / "ended")) == []


def test_a_log_beside_a_checkpoint_neither_keeps_it_back_nor_sends_it_again(
    way: CheckpointUpload, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "LOG_SECONDS", 3600.0)
    folder = way.paths.checkpoints
    (folder / "model.pt").write_bytes(b"m" * 5_000_000)
    for line in range(40):
        with (folder / "log.csv").open("a") as log:
            log.write(f"{line},0.5\n")
        look(way, 1)
    assert (sent(s3, "model.pt"), sent(s3, "log.csv")) == (1, 1)
    assert taken(s3) == ["log.csv", "model.pt"]
    way.update(True)
    assert (sent(s3, "model.pt"), sent(s3, "log.csv")) == (1, 2)
    assert contents(s3)["log.csv"] == (folder / "log.csv").read_bytes()
    assert json.loads(s3.objects[LATEST])["before"] == [], "a longer log does not make a new checkpoint"


def test_a_line_now_and_then_is_a_log_too(
    way: CheckpointUpload, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "LOG_SECONDS", 3600.0)
    folder = way.paths.checkpoints
    (folder / "model.pt").write_text("weights")
    for line in range(12):
        with (folder / "log.csv").open("a") as log:
            log.write(f"{line},0.5\n")
        look(way, 4)
    assert sent(s3, "model.pt") == 1
    assert sent(s3, "log.csv") < 5
    (folder / "model.pt").write_text("weights of 2")
    look(way)
    assert contents(s3)["model.pt"] == b"weights of 2"
    assert contents(s3)["log.csv"] == (folder / "log.csv").read_bytes()


@pytest.mark.parametrize("replaces", [True, False], ids=["replaced", "in place"])
def test_a_status_file_that_never_lies_still_keeps_no_checkpoint_back(
    way: CheckpointUpload, s3: S3, replaces: bool
) -> None:
    folder = way.paths.checkpoints
    (folder / "model.pt").write_text("weights")
    for number in range(8):
        (folder / "half").write_text(f"{number:09d}" * 3)
        if replaces:
            (folder / "half").replace(folder / "status.json")
        else:
            (folder / "status.json").write_text((folder / "half").read_text())
            (folder / "half").unlink()
        look(way, 1)
    assert taken(s3) == ["model.pt", "status.json"]
    assert sent(s3, "model.pt") == 1


def test_only_files_that_changed_are_sent_and_checkpoints_share_the_others(
    way: CheckpointUpload, s3: S3
) -> None:
    folder = way.paths.checkpoints
    (folder / "vocabulary.txt").write_text("words")
    for step in range(1, 5):
        (folder / f"step-{step}.pt").write_text(f"weights of {step}")
        look(way)
    assert sent(s3, "vocabulary.txt") == 1
    assert all(sent(s3, f"step-{step}.pt") == 1 for step in range(1, 5))
    newest, before = json.loads(s3.objects[LATEST]), json.loads(s3.objects[LATEST])["before"]
    assert set(contents(s3, newest)) == {"vocabulary.txt", *(f"step-{step}.pt" for step in range(1, 5))}
    assert [set(contents(s3, each)) for each in before] == [
        {"vocabulary.txt", *(f"step-{step}.pt" for step in range(1, 4))}
    ]


def test_what_no_checkpoint_needs_is_deleted(way: CheckpointUpload, s3: S3) -> None:
    folder = way.paths.checkpoints
    for step in range(1, 6):
        (folder / "model.pt").write_text(f"weights of {step}")
        look(way)
    bodies = {key: body for key, body in s3.objects.items() if key.endswith("model.pt")}
    assert sorted(bodies.values()) == [b"weights of 4", b"weights of 5"]
    assert len(s3.objects) == 5, "two files, two manifests, latest.json"


def test_a_renamed_file_is_not_sent_again(way: CheckpointUpload, s3: S3) -> None:
    folder = way.paths.checkpoints
    (folder / "new").write_text("weights")
    look(way)
    (folder / "new").rename(folder / "best")
    os.link(folder / "best", folder / "last")
    look(way)
    assert contents(s3) == {"best": b"weights", "last": b"weights"}
    assert sum(body == b"weights" for body in s3.objects.values()) == 1


def test_a_replaced_file_of_the_same_size_and_time_is_sent(way: CheckpointUpload, s3: S3) -> None:
    path = way.paths.checkpoints / "model.pt"
    for text in ("one", "two"):
        path.with_name("half").write_text(text)
        os.utime(path.with_name("half"), (1e9, 1e9))
        path.with_name("half").replace(path)
        look(way)
    assert contents(s3) == {"model.pt": b"two"}


def test_an_agent_that_was_restarted_sends_nothing_again(way: CheckpointUpload, s3: S3) -> None:
    (way.paths.checkpoints / "model.pt").write_text("weights")
    look(way)
    again = restarted(way)
    look(again, 3)
    assert sent(s3, "model.pt") == 1
    (way.paths.checkpoints / "other.pt").write_text("more")
    look(again)
    assert (sent(s3, "model.pt"), taken(s3)) == (1, ["model.pt", "other.pt"])


def test_a_program_that_dies_between_any_two_calls_leaves_whole_checkpoints(tmp_path: Path) -> None:
    """S3 itself checks what latest.json names, at every write and every deletion."""

    def train(s3: S3) -> None:
        root = tmp_path / f"{s3.dies_at}"
        way = upload_of(Paths(root), s3)
        folder = way.paths.checkpoints
        with suppress(HostTrouble):
            for step in range(1, 5):
                (folder / "constant").write_text("all the time")
                os.utime(folder / "constant", (1e9, 1e9))
                (folder / "model.pt").write_text(f"weights of {step}")
                look(way)
        s3.dies_at = None
        (folder / "model.pt").write_text("weights of the next host")
        look(restarted(way))
        assert contents(s3)["model.pt"] == b"weights of the next host"

    whole = S3()
    train(whole)
    for call in range(1, whole.calls):
        s3 = S3()
        s3.dies_at = call
        train(s3)


def test_steps_that_are_names_are_no_checkpoints_of_the_runtime(way: CheckpointUpload, s3: S3) -> None:
    folder = way.paths.checkpoints
    for step in (10, 20):
        (folder / f"{step:07d}.pt").write_text(f"{step}")
        (folder / f"{step:08d}").mkdir()
        (folder / f"{step:08d}" / "facts.json").write_text("{}")
    look(way)
    assert set(taken(s3)) == {"00000010/facts.json", "0000010.pt", "00000020/facts.json", "0000020.pt"}
    assert way.last.folder, "its steps are no steps of the runtime"


def test_files_beside_the_runtimes_checkpoints_are_kept_too(way: CheckpointUpload, s3: S3) -> None:
    folder = way.paths.checkpoints
    (folder / "vocabulary.txt").write_text("words")
    for step in (10, 20, 30):
        made = folder / f".trainyard-partial-{step:08d}"
        made.mkdir()
        (made / "variables").write_text(f"{step}")
        (made / "variables.data-00000-of-00001").write_text("without an index")
        (made / "trainyard-metadata.json").write_text("{}")
        look(way, 1)
        made.rename(folder / f"{step:08d}")
        look(way, 1)
        assert way.last == LastCheckpoint(step)
        assert contents(s3)[f"{step:08d}/variables"] == f"{step}".encode()
    (folder / "report.txt").write_text("written last")
    way.update(True)
    assert taken(s3) == [
        "00000030/trainyard-metadata.json",
        "00000030/variables",
        "00000030/variables.data-00000-of-00001",
        "report.txt",
        "vocabulary.txt",
    ]
    assert sorted(path.name for path in folder.iterdir()) == [
        "00000020",
        "00000030",
        "report.txt",
        "vocabulary.txt",
    ]


def test_halves_of_tensorflow_wait_and_a_users_file_of_that_name_comes_at_the_end(
    way: CheckpointUpload, s3: S3
) -> None:
    folder = way.paths.checkpoints
    (folder / "model.pt").write_text("weights")
    (folder / "table.data-00000-of-00001").write_text("not TensorFlow's")
    look(way)
    assert taken(s3) == ["model.pt"]
    way.update(True)
    assert taken(s3) == ["model.pt", "table.data-00000-of-00001"]


def test_names_that_no_bucket_can_store_are_left_out_and_named(way: CheckpointUpload, s3: S3) -> None:
    lines: list[str] = []
    way = upload_of(way.paths, s3, lines)
    for name in (b"model.pt", b"r\xe9sum\xe9.pt", b"a\x01b"):
        (way.paths.checkpoints / os.fsdecode(name)).write_text("x")
    look(way, 4)
    assert taken(s3) == ["model.pt"]
    assert [line.partition(" is left out")[0] for line in sorted(lines)] == [
        r"${checkpoints}/a\x01b",
        r"${checkpoints}/r\xe9sum\xe9.pt",
    ]


def test_a_program_that_writes_a_large_file_for_long_is_not_taken_for_a_log(
    way: CheckpointUpload, s3: S3
) -> None:
    with (way.paths.checkpoints / "model.pt").open("wb") as file:
        for _ in range(stillness.LOG_LOOKS + 5):
            file.write(b"m" * (stillness.SLOW_BYTES + 1))
            file.flush()
            look(way, 1)
            assert taken(s3) == []
    look(way)
    assert taken(s3) == ["model.pt"]


def test_a_checkpoint_of_links_alone_changes_with_them(way: CheckpointUpload, s3: S3) -> None:
    folder = way.paths.checkpoints
    for step in (30, 40):
        (folder / f"step-{step}").mkdir()
        (folder / f"step-{step}" / "model.pt").write_text(f"{step}")
        (folder / "latest").unlink(missing_ok=True)
        (folder / "latest").symlink_to(f"step-{step}")
        look(way)
    version = json.loads(s3.objects[LATEST])
    manifest = json.loads(s3.objects[f"{version['key'][:-1]}.json"])
    assert manifest["links"]["latest"][0] == "step-40"
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("step-30")
    look(way)
    version = json.loads(s3.objects[LATEST])
    assert json.loads(s3.objects[f"{version['key'][:-1]}.json"])["links"]["latest"][0] == "step-30"


def test_a_step_that_appears_while_the_folder_is_listed_is_taken_whole_at_the_next_look(
    way: CheckpointUpload, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, listing_of = way.paths.checkpoints, on_disk.listing_of

    def save(step: int) -> None:
        made = folder / f".trainyard-partial-{step:08d}"
        made.mkdir()
        (made / "variables").write_text(f"{step}")
        (made / "trainyard-metadata.json").write_text("{}")
        made.rename(folder / f"{step:08d}")

    def slow(folder: Path) -> on_disk.Listing:
        found = listing_of(folder)
        save(20)
        return found

    save(10)
    monkeypatch.setattr(on_disk, "listing_of", slow)
    look(way, 1)
    assert taken(s3) == ["00000010/trainyard-metadata.json", "00000010/variables"]
    monkeypatch.setattr(on_disk, "listing_of", listing_of)
    look(way, 1)
    assert taken(s3) == ["00000020/trainyard-metadata.json", "00000020/variables"]


def test_the_runtimes_checkpoint_is_whole_although_the_program_is_killed_right_after(
    way: CheckpointUpload, s3: S3
) -> None:
    folder = way.paths.checkpoints
    (folder / "log.txt").write_text("half a li")
    look(way, 1)
    made = folder / ".trainyard-partial-00000010"
    made.mkdir()
    for name in ("variables", "trainyard-metadata.json"):
        (made / name).write_text("{}")
    made.rename(folder / "00000010")
    (folder / "log.txt").write_text("torn")
    way.runs, way.ends_well, way.has_finished = lambda: False, False, False
    way.update(True)
    assert taken(s3) == ["00000010/trainyard-metadata.json", "00000010/variables"]


def test_a_checkpoint_without_the_only_file_that_changes_too_fast_to_be_copied_is_none(
    way: CheckpointUpload, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program rewrites its weights faster than a busy host copies them."""
    weights, copy_start, numbers = (
        way.paths.checkpoints / "weights.h5",
        on_disk.copy_start,
        iter(range(1000)),
    )
    (way.paths.checkpoints / "events.out.tfevents.1").write_text("curve")

    def slow(source: Path, target: Path, size: int) -> None:
        copy_start(source, target, size)
        weights.write_text(f"epoch {next(numbers)}")

    monkeypatch.setattr(on_disk, "copy_start", slow)
    for _ in range(8):
        weights.write_text(f"epoch {next(numbers)}")
        look(way, 1)
        assert taken(s3) == []
    monkeypatch.setattr(on_disk, "copy_start", copy_start)
    weights.write_text("epoch last")
    look(way, 1)
    assert taken(s3) == ["events.out.tfevents.1", "weights.h5"]


KEEPS_OPEN = """
import sys, time
with open(sys.argv[1], "wb", buffering=0) as file:
    file.write(sys.argv[2].encode().decode("unicode_escape").encode("latin-1"))
    print("written", flush=True)
    time.sleep(600)
"""


@contextmanager
def keeping_open(path: Path, content: str) -> Iterator["subprocess.Popen[str]"]:
    """Yield a program that has written `content`, with Python's escapes, into a file and keeps the file open."""
    command = [sys.executable, "-c", KEEPS_OPEN, str(path), content]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        try:
            yield writer
        finally:
            writer.kill()


def killed(way: CheckpointUpload, writer: "subprocess.Popen[str]") -> None:
    """Kill the program, and upload the rest."""
    writer.kill()
    writer.wait()
    way.runs, way.ends_well, way.has_finished = lambda: False, False, False
    way.update(True)


def test_a_log_of_whole_lines_keeps_nothing_back_from_the_first_look(way: CheckpointUpload, s3: S3) -> None:
    (way.paths.checkpoints / "weights.h5").write_text("all")
    with keeping_open(way.paths.checkpoints / "log.csv", "step,loss\\n1,0.5\\n"):
        look(way)
        assert contents(s3) == {"weights.h5": b"all", "log.csv": b"step,loss\n1,0.5\n"}


@pytest.mark.parametrize("content", ["epoch 1\\n", "\\r 10%|#\\r", "模型\\n", ""])
def test_a_program_that_is_killed_right_after_it_opened_a_log_has_a_checkpoint(
    content: str, way: CheckpointUpload, s3: S3
) -> None:
    (way.paths.checkpoints / "weights.h5").write_text("all")
    time.sleep(upload.STILL_SECONDS)
    with keeping_open(way.paths.checkpoints / "log", content.encode().decode("latin-1")) as writer:
        look(way, 1)
        killed(way, writer)
    assert "weights.h5" in taken(s3)
    assert ("log" in taken(s3)) == bool(content)


def test_so_has_one_that_keeps_a_file_of_any_format_open(way: CheckpointUpload, s3: S3) -> None:
    (way.paths.checkpoints / "weights.h5").write_text("all")
    with keeping_open(way.paths.checkpoints / "study.db", "SQLite\\0") as writer:
        look(way, stillness.IDLE_LOOKS)
        assert taken(s3) == []
        killed(way, writer)
    assert taken(s3) == ["weights.h5"]


def test_a_killed_program_that_was_saving_again_keeps_the_checkpoint_before(
    way: CheckpointUpload, s3: S3
) -> None:
    (way.paths.checkpoints / "weights.h5").write_text("all")
    look(way)
    with keeping_open(way.paths.checkpoints / "weights.h5", "") as writer:
        (way.paths.checkpoints / "optimizer.pt").write_text("of the next save")
        look(way, stillness.IDLE_LOOKS)
        killed(way, writer)
    assert contents(s3) == {"weights.h5": b"all"}


def test_temporary_files_at_each_look_keep_nothing_back(
    way: CheckpointUpload, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program removes these files right after each listing."""
    folder, listing_of, numbers = way.paths.checkpoints, on_disk.listing_of, iter(range(100))

    def busy(folder: Path) -> on_disk.Listing:
        passing = folder / f"passing-{next(numbers)}"
        passing.write_text("soon gone")
        found = listing_of(folder)
        passing.unlink()
        return found

    monkeypatch.setattr(on_disk, "listing_of", busy)
    (folder / "weights.h5").write_text("all")
    look(way, 2)
    assert taken(s3) == ["weights.h5"]
    look(way, 4)
    assert len(s3.written) == 3, "the same files are no new checkpoint: one file, one manifest, latest.json"


def test_nor_do_temporary_files_that_stay_from_one_look_to_the_next(way: CheckpointUpload, s3: S3) -> None:
    """The program writes these files during one look and removes them before the next."""
    folder = way.paths.checkpoints
    (folder / "weights.h5").write_text("all")
    for number in range(upload.TEMPORARY_LOOKS + 3):
        with (folder / f"spill-{number}").open("wb", buffering=0) as file:
            file.write(b"half")
            look(way, 1)
        (folder / f"spill-{number}").unlink()
    assert taken(s3) == ["weights.h5"]


def test_a_save_that_takes_long_is_waited_for_although_temporary_files_come_and_go(
    way: CheckpointUpload, s3: S3
) -> None:
    folder = way.paths.checkpoints
    (folder / "weights.h5").write_text("all")
    with (folder / "optimizer.pt").open("wb", buffering=0) as saving:
        for number in range(upload.TEMPORARY_LOOKS + 3):
            saving.write(b"o" * (stillness.SLOW_BYTES + 1))
            with (folder / f"spill-{number}").open("wb", buffering=0) as file:
                file.write(b"half")
                look(way, 1)
            (folder / f"spill-{number}").unlink()
        assert taken(s3) == []


@pytest.mark.parametrize(
    ("last", "tells"),
    [
        (LastCheckpoint(), False),
        (LastCheckpoint(step=35), True),
        (LastCheckpoint(step=7, folder="the seventh state of a folder"), False),
    ],
)
def test_only_the_runtimes_checkpoints_tell_how_far_the_program_was(
    last: LastCheckpoint, tells: bool
) -> None:
    """The seventh upload of a program at step 35 does not count as a checkpoint of step 7."""
    assert last.tells_step is tells
