"""A host's outputs in the bucket: uploaded files, omitted files, and files restored by another attempt."""

import io
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from training.host import account
from training.host.bucket import Bucket
from training.host.errors import HostTrouble
from training.host.outputs import restore
from training.host.outputs.index import Index
from training.host.outputs.restore import Begun, Sources
from training.host.outputs.upload import OutputsUpload

RUN, HOST = "run-1", "chief-0"
PREFIX = f"runs/{RUN}/outputs/"
REPORT = f"runs/{RUN}/outputs-of/{HOST}/report.json"


class S3:
    """The part of S3 that outputs need: objects by key, without versions. `refuses` is the error code of all writes."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.writes: list[str] = []
        self.refuses = ""

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> dict[str, Any]:  # noqa: N803 - AWS's names
        self.writes.append(Key)
        if self.refuses:
            raise ClientError({"Error": {"Code": self.refuses, "Message": self.refuses}}, "PutObject")
        self.objects[Key] = Body
        return {}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": Key}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}

    def copy(self, source: Mapping[str, str], _bucket: str, key: str) -> None:
        self.objects[key] = self.objects[source["Key"]]

    def download_file(self, _bucket: str, key: str, path: str, ExtraArgs: Any) -> None:  # noqa: N803
        Path(path).write_bytes(self.get_object(Bucket="", Key=key)["Body"].read())

    def delete_objects(self, *, Bucket: str, Delete: Any) -> dict[str, Any]:  # noqa: N803
        for each in Delete["Objects"]:
            del self.objects[each["Key"]]
        return {}


class Host:
    """One attempt's working folder on its own disk, and the lines of its log."""

    def __init__(
        self, folder: Path, s3: S3, *, attempt: int = 1, max_bytes: int = 1 << 30, begun: Begun | None = None
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.log = folder, list[str]()
        begun = begun or Begun(Sources(), Index())
        self.upload = OutputsUpload(
            Bucket(s3, "bucket"),
            RUN,
            HOST,
            folder,
            account.own(),
            sources=begun.sources,
            index=begun.index,
            max_bytes=max_bytes,
            attempt=attempt,
            note=self.log.append,
        )

    def write(self, name: str, text: str, *, seconds_ago: float = 60) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        at = time.time_ns() - int(seconds_ago * 1e9)
        os.utime(path, ns=(at, at))

    def look(self) -> None:
        self.upload._next_look = 0.0
        self.upload.update(at_the_end=False)

    def end(self) -> None:
        self.upload.update(at_the_end=True)


@pytest.fixture(autouse=True)
def same_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the priority of the tests' own thread, which an ordinary user cannot raise again."""
    monkeypatch.setattr(os, "setpriority", lambda *_: None)


@pytest.fixture
def s3() -> S3:
    return S3()


def kept(s3: S3) -> dict[str, str]:
    return {
        key.removeprefix(PREFIX): body.decode() for key, body in s3.objects.items() if key.startswith(PREFIX)
    }


def test_of_what_exceeds_max_gib_the_largest_files_are_left_out_and_listed_first(
    s3: S3, tmp_path: Path
) -> None:
    host = Host(tmp_path / "a", s3, max_bytes=6)
    for name, size in {"small": 2, "middle": 3, "large": 7, "largest": 9}.items():
        host.write(name, "x" * size)
    host.end()
    assert kept(s3).keys() == {"small", "middle"}
    report = json.loads(s3.objects[REPORT])
    assert [each["path"] for each in report["left_out"]] == ["largest", "large"]
    assert (report["files"], report["bytes"], report["left_out_in_all"]) == (2, 5, 2)
    assert all("outputs.max_gib" in each["reason"] for each in report["left_out"])
    listed = [line for line in host.log if "is left out" in line]
    assert [line.split()[1] for line in listed] == ["largest", "large"]


def test_a_file_that_is_kept_keeps_its_place_when_a_smaller_one_comes(s3: S3, tmp_path: Path) -> None:
    host = Host(tmp_path / "a", s3, max_bytes=6)
    host.write("first", "x" * 5)
    host.look()
    host.write("second", "x" * 2)
    host.end()
    assert kept(s3).keys() == {"first"}
    assert host.upload.left_out.keys() == {"second"}


def test_restored_files_keep_their_modification_times_so_that_the_newest_stays_the_newest(
    s3: S3, tmp_path: Path
) -> None:
    host = Host(tmp_path / "a", s3)
    ages = {"z.ckpt": 300, "a.ckpt": 10, "m.ckpt": 200, "deep/b.ckpt": 100}
    for name, age in ages.items():
        host.write(name, name, seconds_ago=age)
    host.end()
    folder = tmp_path / "b"
    folder.mkdir()
    begun = restore.restore(Bucket(s3, "bucket"), RUN, HOST, folder, Sources(), of=None)
    assert (begun.restored, begun.lost) == (4, ())
    times = {name: (folder / name).stat().st_mtime_ns for name in ages}
    assert times == {name: (host.folder / name).stat().st_mtime_ns for name in ages}
    assert max(times, key=times.__getitem__) == "a.ckpt"
    assert {name: (folder / name).read_text() for name in ages} == {name: name for name in ages}


def test_a_short_program_that_never_paused_and_was_ended_leaves_its_whole_files_to_a_restart(
    s3: S3, tmp_path: Path
) -> None:
    host = Host(tmp_path / "one", s3)
    for number in range(3):  # a file changes at each look
        host.write(f"w-{number}.npy", "whole")
        host.write("last.pt", f"begun {number}", seconds_ago=-60)
        host.look()
    host.upload.ends_well = False
    host.upload.runs = lambda: False
    host.write("last.pt", "half", seconds_ago=-60)
    host.end()
    folder = tmp_path / "two"
    folder.mkdir()
    begun = restore.restore(Bucket(s3, "bucket"), RUN, HOST, folder, Sources(), of=None)
    assert {path.name for path in folder.iterdir()} == {"w-0.npy", "w-1.npy", "w-2.npy"}
    assert begun.restored == 3


def test_files_with_long_names_that_differ_only_at_their_ends_are_restored_each_with_its_own_bytes(
    s3: S3, tmp_path: Path
) -> None:
    names = [f"{'長' * 80}{i:015d}" for i in range(16)]  # 255 bytes each
    first = Host(tmp_path / "a", s3)
    for name in names:
        (first.folder / name).write_bytes(name.encode() * 1000)
    first.upload.update(at_the_end=True)
    folder = tmp_path / "b"
    restore.restore(Bucket(s3, "bucket"), RUN, HOST, folder, Sources(), of=None)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        name: name.encode() * 1000 for name in names
    }


def test_a_history_that_grows_line_by_line_all_the_time_is_restored_with_the_newest_state(
    s3: S3, tmp_path: Path
) -> None:
    host = Host(tmp_path / "a", s3)
    lines = [f"step {step}\n" for step in range(5)]
    for step in range(len(lines)):
        host.write("history.csv", "".join(lines[: step + 1]), seconds_ago=-60)  # changed just now
        host.write("weights.bin", "w" * (step + 1), seconds_ago=-60)
        host.write(f"states/{step}.txt", f"state {step}")
        host.look()
    host.upload.ends_well = False
    host.end()
    begun = restore.restore(Bucket(s3, "bucket"), RUN, HOST, tmp_path / "b", Sources(), of=None)
    assert begun.lost == ()
    assert (tmp_path / "b/history.csv").read_text() == "".join(lines)
    assert (tmp_path / "b/states/4.txt").read_text() == "state 4"
    assert not (tmp_path / "b/weights.bin").exists(), "what may be half of a file is not restored"


def test_restored_files_are_not_sent_again(s3: S3, tmp_path: Path) -> None:
    host = Host(tmp_path / "a", s3)
    host.write("last.ckpt", "7")
    host.end()
    (tmp_path / "b").mkdir()
    begun = restore.restore(Bucket(s3, "bucket"), RUN, HOST, tmp_path / "b", Sources(), of=None)
    again = Host(tmp_path / "b", s3, attempt=2, begun=begun)
    s3.writes.clear()
    again.end()
    assert f"{PREFIX}last.ckpt" not in s3.writes
    assert kept(s3) == {"last.ckpt": "7"}


def test_a_link_to_a_file_that_is_being_written_leads_to_the_one_before_after_a_restart(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a link, a program that looks for `latest` or `last.ckpt` would start from the beginning."""
    monkeypatch.setattr("training.host.outputs.upload.MERGE_SECONDS", -1.0)
    host = Host(tmp_path / "a", s3)
    host.write("5.ckpt", "5")
    (host.folder / "last.ckpt").symlink_to("5.ckpt")
    for look in range(3):
        host.write("busy", str(look), seconds_ago=0)
        host.look()
    (host.folder / "last.ckpt").unlink()
    (host.folder / "last.ckpt").symlink_to("6.ckpt")
    for look in range(3):
        host.write("busy", str(look), seconds_ago=0)
        host.write("6.ckpt", "6" * (look + 1), seconds_ago=0)
        host.upload._index_due = 0.0
        host.look()
    (tmp_path / "b").mkdir()
    restore.restore(Bucket(s3, "bucket"), RUN, HOST, tmp_path / "b", Sources(), of=None)
    assert (tmp_path / "b" / "last.ckpt").readlink() == Path("5.ckpt")
    assert (tmp_path / "b" / "last.ckpt").read_text() == "5"


def test_a_name_that_an_attempt_without_restore_writes_again_leaves_the_earlier_file_at_attempt_1(
    s3: S3, tmp_path: Path
) -> None:
    first = Host(tmp_path / "a", s3)
    first.write("logs/log.txt", "of attempt 1")
    first.write("only-1.txt", "of attempt 1")
    first.end()
    (tmp_path / "b").mkdir()
    begun = restore.keep_on(Bucket(s3, "bucket"), RUN, HOST, tmp_path / "b", Sources())
    second = Host(tmp_path / "b", s3, attempt=2, begun=begun)
    second.write("logs/log.txt", "of attempt 2")
    second.end()
    assert kept(s3) == {
        "logs/log.txt": "of attempt 2",
        "@attempt-1/logs/log.txt": "of attempt 1",
        "only-1.txt": "of attempt 1",
    }


def test_the_bucket_follows_a_rotation_of_checkpoints_while_the_program_runs(s3: S3, tmp_path: Path) -> None:
    host = Host(tmp_path / "a", s3)
    for step in range(1, 6):
        host.write(f"{step}.ckpt", str(step))
        (host.folder / f"{step - 2}.ckpt").unlink(missing_ok=True)
        host.look()
    assert kept(s3).keys() == {"3.ckpt", "4.ckpt", "5.ckpt"}, "3.ckpt is missing in one look only"
    host.look()
    assert kept(s3).keys() == {"4.ckpt", "5.ckpt"}
    host.end()
    assert kept(s3) == {"4.ckpt": "4", "5.ckpt": "5"}


def test_a_file_that_is_being_replaced_is_not_removed_from_the_bucket(s3: S3, tmp_path: Path) -> None:
    host = Host(tmp_path / "a", s3)
    host.write("last.ckpt", "1")
    host.look()
    (host.folder / "last.ckpt").unlink()
    host.look()
    assert kept(s3) == {"last.ckpt": "1"}
    host.write("last.ckpt", "2")
    host.end()
    assert kept(s3) == {"last.ckpt": "2"}


def test_a_final_trouble_of_the_bucket_is_named_once_and_ends_no_run(s3: S3, tmp_path: Path) -> None:
    host = Host(tmp_path / "a", s3)
    host.write("last.ckpt", "1")
    s3.refuses = "AccessDenied"
    host.look()
    (line,) = host.log
    assert line.startswith("the outputs of this program are not kept: ")
    assert "s3:PutObject" in line
    s3.writes.clear()
    host.look()
    host.end()
    assert s3.writes == []
    assert host.log == [line]


def test_a_trouble_of_the_bucket_that_passes_is_raised_so_that_the_upload_is_repeated(
    s3: S3, tmp_path: Path
) -> None:
    host = Host(tmp_path / "a", s3)
    host.write("last.ckpt", "1")
    s3.refuses = "SlowDown"
    with pytest.raises(HostTrouble) as said:
        host.look()
    assert not said.value.final
    s3.refuses = ""
    host.look()
    assert kept(s3) == {"last.ckpt": "1"}
