"""`get` fetches changed files only, writes whole files, and never mixes the files of two runs."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from trainyard.client import Session, fetching
from trainyard.client.bucket import Bucket
from trainyard.client.errors import ArchiveBroken, FileUnreadable, NoModel
from trainyard.client.fetch_record import HALF, RECORD
from trainyard.client.fetching import Fetched, Tree
from trainyard.client.run import Run

NAME = "trainyard-bucket"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        boto = boto3.Session(aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1")
        made = Bucket(Session(boto), NAME)
        made.session.client("s3").create_bucket(Bucket=NAME)
        yield made


def get(bucket: Bucket, folder: Path, run: str = "a", part: str = "model/") -> Fetched:
    return bucket.fetch(f"runs/{run}/{part}", folder, owner=run)


def files(folder: Path) -> dict[str, bytes]:
    found = (each for each in folder.rglob("*") if each.is_file())
    return {
        each.relative_to(folder).as_posix(): each.read_bytes() for each in found if each != folder / RECORD
    }


def test_weights_of_equal_size_replace_those_of_another_run(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("runs/a/model/weights", b"aaaa")
    bucket.put("runs/b/model/weights", b"bbbb")
    assert get(bucket, tmp_path, "a") == Fetched(1, 1)
    assert get(bucket, tmp_path, "b") == Fetched(1, 1)
    assert files(tmp_path) == {"weights": b"bbbb"}


def test_weights_that_were_fetched_without_a_record_are_compared_by_content(
    bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "weights").write_bytes(b"aaaa")
    bucket.put("runs/b/model/weights", b"bbbb")
    assert get(bucket, tmp_path, "b") == Fetched(1, 1, replaced=("weights",)), "the user learns of it"
    assert files(tmp_path) == {"weights": b"bbbb"}
    assert get(bucket, tmp_path, "b") == Fetched(1, 0)


def test_what_is_there_is_not_fetched_again(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("runs/a/model/x/y", b"1")
    get(bucket, tmp_path)
    before = (tmp_path / "x/y").stat()
    assert get(bucket, tmp_path) == Fetched(1, 0)
    assert (tmp_path / "x/y").stat().st_ino == before.st_ino


def test_an_object_in_parts_has_no_md5_and_is_known_by_its_record(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bucket.session.client("s3")
    upload = client.create_multipart_upload(Bucket=NAME, Key="runs/a/model/big")["UploadId"]
    part = {"Bucket": NAME, "Key": "runs/a/model/big", "UploadId": upload}
    etag = client.upload_part(**part, PartNumber=1, Body=b"x" * 100)["ETag"]
    client.complete_multipart_upload(**part, MultipartUpload={"Parts": [{"ETag": etag, "PartNumber": 1}]})
    assert get(bucket, tmp_path).new == 1
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("read"))
    assert get(bucket, tmp_path).new == 0
    os.utime(tmp_path / "big", (1, 1))
    assert get(bucket, tmp_path).new == 1


def test_files_of_another_run_are_removed_unless_the_user_has_changed_them(
    bucket: Bucket, tmp_path: Path
) -> None:
    for name in ("shards/1", "shards/2", "notes"):
        bucket.put(f"runs/a/model/{name}", b"a")
    bucket.put("runs/b/model/weights", b"b")
    get(bucket, tmp_path, "a")
    (tmp_path / "notes").write_text("my own")
    (tmp_path / "mine").write_text("mine")
    assert set(get(bucket, tmp_path, "b").removed) == {"shards/1", "shards/2"}
    assert files(tmp_path) == {"weights": b"b", "notes": b"my own", "mine": b"mine"}
    assert not (tmp_path / "shards").exists()


def test_parts_of_one_run_stay_beside_each_other(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("runs/a/model/weights", b"a")
    bucket.put("runs/a/tensorboard/events", b"e")
    get(bucket, tmp_path)
    get(bucket, tmp_path, part="tensorboard/")
    assert files(tmp_path) == {"weights": b"a", "events": b"e"}


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("../up", "leads out"),
        ("a/../../up", "leads out"),
        ("/etc/x", "leads out"),
        ("a//b", "not a valid path"),
        ("./a", "not a valid path"),
        ("n" * 256, "longer than"),
        ("ü" * 128, "longer than"),
        ("dir", "other objects need"),
        ("out/x", "a link leads out"),
        (RECORD, "the record"),
        (".trainyard", "the record"),
        (f"{RECORD}/x", "the record"),
    ],
)
def test_a_name_that_no_file_can_have_is_reported_and_the_others_arrive(
    bucket: Bucket, tmp_path: Path, key: str, reason: str
) -> None:
    folder, outside = tmp_path / "model", tmp_path / "outside"
    outside.mkdir()
    folder.mkdir()
    (folder / "out").symlink_to(outside)
    for each in (key, "dir/inside", "good"):
        bucket.put(f"runs/a/model/{each}", b"1")
    fetched = get(bucket, folder)
    (sentence,) = fetched.left_out
    assert reason in sentence
    assert files(folder) == {"dir/inside": b"1", "good": b"1"}
    assert list(outside.iterdir()) == []
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model", "outside"]


def test_what_the_user_has_at_a_name_stays_and_the_others_arrive(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder" / "inside").mkdir(parents=True)
    for name in ("file/a/b", "folder", "good"):
        bucket.put(f"runs/a/model/{name}", b"1")
    first, second = get(bucket, tmp_path).left_out
    assert first.startswith("file/a/b: file is a file in the folder already")
    assert second == "folder: a folder of that name is in the folder already"
    assert files(tmp_path) == {"file": b"mine", "good": b"1"}


@pytest.mark.parametrize("run", ["a", "b"])
@pytest.mark.parametrize(("before", "after"), [("x", "x/y"), ("x/y", "x"), ("x/y", "x/y/z")])
def test_a_file_that_has_become_a_folder_is_replaced(
    bucket: Bucket, tmp_path: Path, run: str, before: str, after: str
) -> None:
    bucket.put(f"runs/a/model/{before}", b"1")
    get(bucket, tmp_path)
    bucket.session.client("s3").delete_object(Bucket=NAME, Key=f"runs/a/model/{before}")
    bucket.put(f"runs/{run}/model/{after}", b"2")
    fetched = get(bucket, tmp_path, run)
    if (run, before, after) == ("a", "x/y", "x"):  # files fetched from this run stay
        assert fetched.left_out == ("x: a folder of that name is in the folder already",)
    else:
        assert fetched.left_out == ()
        assert files(tmp_path) == {after: b"2"}


@pytest.mark.parametrize("name", ["a b", "läuft", "n" * 255, "ü" * 127, "a\nb", "100%", "#?&", "-x", "名前"])
def test_an_odd_name_arrives_as_it_is(bucket: Bucket, tmp_path: Path, name: str) -> None:
    bucket.put(f"runs/a/model/{name}", b"1")
    assert get(bucket, tmp_path) == Fetched(1, 1)
    assert files(tmp_path) == {name: b"1"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_end_in_the_middle_leaves_whole_files_alone(bucket: Bucket, tmp_path: Path, error: Any) -> None:
    for number in range(20):
        bucket.put(f"runs/a/model/{number:02}", bytes(1000))

    def on_progress(key: str, done: int, total: int) -> None:
        if key.endswith("07"):
            raise error

    with pytest.raises((KeyboardInterrupt, OSError)) as ended:
        bucket.fetch("runs/a/model/", tmp_path, on_progress, owner="a")
    assert getattr(ended.value, "filename", None) in (None, str(tmp_path / "07"))
    assert "07" not in files(tmp_path)
    assert set(files(tmp_path).values()) <= {bytes(1000)}
    assert not [each for each in tmp_path.rglob("*") if each.name.startswith(HALF)]
    assert get(bucket, tmp_path).files == 20
    assert len(files(tmp_path)) == 20


def test_a_large_object_is_fetched_whole(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "LARGE", 1000)
    bucket.put("runs/a/model/large", b"x" * 5000)
    assert get(bucket, tmp_path) == Fetched(1, 1)
    assert files(tmp_path) == {"large": b"x" * 5000}


def test_files_keep_the_times_of_their_objects(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("runs/a/model/x", b"1")
    get(bucket, tmp_path)
    head = bucket.session.client("s3").head_object(Bucket=NAME, Key="runs/a/model/x")
    assert (tmp_path / "x").stat().st_mtime == head["LastModified"].timestamp()


def test_a_file_is_no_folder_to_fetch_into(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("runs/a/model/x", b"1")
    (tmp_path / "model").write_text("mine")
    with pytest.raises(FileUnreadable, match="is a file"):
        get(bucket, tmp_path / "model")
    assert (tmp_path / "model").read_text() == "mine"


def test_a_run_that_has_left_nothing_makes_no_folder(bucket: Bucket, tmp_path: Path) -> None:
    assert get(bucket, tmp_path / "model") == Fetched()
    assert not (tmp_path / "model").exists()


# --- links, empty folders and times
def listed(**more: Any) -> Tree:
    tree = Tree()
    tree.add({"files": {}, "links": {}, "folders": [], **more}, "")
    return tree


def test_links_empty_folders_and_times_are_as_they_were(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("runs/a/outputs/ckpt/step-30", b"30")
    tree = listed(
        files={"ckpt/step-30": [2, 10**18 + 7, 0, "v1"]},
        links={"ckpt/latest": "step-30", "newest": "ckpt", "gone": "not-there"},
        folders=["logs/empty"],
    )
    for _ in range(2):
        fetched = bucket.fetch("runs/a/outputs/", tmp_path, owner="a", tree=tree)
        assert fetched.left_out == ()
        assert (tmp_path / "ckpt/latest").readlink() == Path("step-30")
        assert (tmp_path / "newest/step-30").read_bytes() == b"30"
        assert (tmp_path / "gone").is_symlink()
        assert list((tmp_path / "logs/empty").iterdir()) == []
        assert (tmp_path / "ckpt/step-30").stat().st_mtime_ns == 10**18 + 7
    assert fetched.new == 0
    bucket.put("runs/b/outputs/x", b"x")
    bucket.fetch("runs/b/outputs/", tmp_path, owner="b")
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != ".trainyard") == ["logs", "x"]


@pytest.mark.parametrize("to", ["/etc/passwd", "../up", "../../up", "x/../../up", "a\0b"])
def test_a_link_that_leads_out_of_the_folder_is_not_made(bucket: Bucket, tmp_path: Path, to: str) -> None:
    bucket.put("runs/a/outputs/x", b"x")
    fetched = bucket.fetch("runs/a/outputs/", tmp_path, owner="a", tree=listed(links={"link": to}))
    (sentence,) = fetched.left_out
    assert "leads out of the folder" in sentence
    assert not (tmp_path / "link").is_symlink()


def test_a_file_of_the_user_is_not_replaced_by_a_link(bucket: Bucket, tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("mine")
    bucket.put("runs/a/outputs/x", b"x")
    fetched = bucket.fetch("runs/a/outputs/", tmp_path, owner="a", tree=listed(links={"latest": "x"}))
    assert "already" in fetched.left_out[0]
    assert (tmp_path / "latest").read_text() == "mine"


@pytest.mark.parametrize("said", [None, [], {"files": 1}, {"files": {"x": []}, "links": {}, "folders": []}])
def test_a_list_that_a_program_has_written_itself_adds_nothing(said: Any) -> None:
    tree = Tree()
    tree.add(said, "")
    assert tree == Tree()


def test_empty_objects_are_empty_files_and_marks_of_folders_are_none(bucket: Bucket, tmp_path: Path) -> None:
    for name in ("empty", "dir/", "dir/x"):
        bucket.put(f"runs/a/model/{name}", b"")
    for new in (2, 0):
        assert get(bucket, tmp_path) == Fetched(2, new)
    assert files(tmp_path) == {"empty": b"", "dir/x": b""}


@dataclass
class Yard:
    """The part of a yard that a run needs to fetch files."""

    bucket: Bucket


def test_checkpoints_are_the_files_of_the_newest_one_under_the_programs_names(
    bucket: Bucket, tmp_path: Path
) -> None:
    """The newest checkpoint refers to files of earlier ones, because an unchanged file is stored once."""
    prefix = "runs/digits-1/checkpoints/"
    manifest = {
        "files": {
            "vocabulary.txt": [5, 1_000_000_000, 0o644, "00000001/vocabulary.txt"],
            "step-2/model.pt": [3, 2_000_000_000, 0o644, "00000002/step-2/model.pt"],
            "best.pt": [3, 2_000_000_000, 0o644, "00000002/step-2/model.pt"],
        },
        "links": {"latest": ["step-2", 5]},
        "folders": {"step-2": [1, 0o755], "empty": [1, 0o755]},
    }
    bucket.put(f"{prefix}00000001/vocabulary.txt", b"words")
    bucket.put(f"{prefix}00000001/step-1/model.pt", b"one")
    bucket.put(f"{prefix}00000002/step-2/model.pt", b"two")
    bucket.put(f"{prefix}00000002.json", json.dumps(manifest).encode())
    latest = {"step": 2, "key": f"{prefix}00000002/", "before": []}
    bucket.put(f"{prefix}latest.json", json.dumps(latest).encode())
    found = Run(Yard(bucket), "arn:digits-1").fetch("checkpoints", tmp_path)  # type: ignore[arg-type]
    assert found == Fetched(3, 3)
    assert (tmp_path / "latest").readlink() == Path("step-2")
    assert (tmp_path / "empty").is_dir()
    assert (tmp_path / "vocabulary.txt").stat().st_mtime == 1.0
    names = ("vocabulary.txt", "step-2/model.pt", "best.pt", "latest/model.pt")
    assert [(tmp_path / name).read_bytes() for name in names] == [b"words", b"two", b"two", b"two"]


def test_a_run_without_a_checkpoint_has_none_to_fetch(bucket: Bucket, tmp_path: Path) -> None:
    run = Run(Yard(bucket), "arn:digits-1")  # type: ignore[arg-type]
    assert run.fetch("checkpoints", tmp_path / "new") == Fetched()
    assert not (tmp_path / "new").exists()


def test_the_only_model_among_the_outputs_is_the_model(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("runs/digits-1/outputs/outputs/model.keras", b"weights")
    bucket.put("runs/digits-1/outputs/logs/x.txt", b"no model")
    run = Run(Yard(bucket), "arn:digits-1")  # type: ignore[arg-type]
    assert run.fetch_model(tmp_path) == ("outputs/outputs/model.keras", Fetched(1, 1))
    assert files(tmp_path) == {"model.keras": b"weights"}


def test_several_models_among_the_outputs_are_listed_with_a_command(bucket: Bucket, tmp_path: Path) -> None:
    for name in ("checkpoints/1.pt", "final/saved_model.pb"):
        bucket.put(f"runs/digits-1/outputs/{name}", b"weights")
    run = Run(Yard(bucket), "arn:digits-1")  # type: ignore[arg-type]
    with pytest.raises(NoModel) as several:
        run.model(tmp_path)
    assert "final/ (7 B), checkpoints/1.pt (7 B)" in several.value.means
    assert several.value.next_step == "trainyard get digits-1 outputs/checkpoints/1.pt"
    assert run.fetch("outputs/final/", tmp_path) == Fetched(1, 1)
    assert files(tmp_path) == {"saved_model.pb": b"weights"}


def test_a_run_without_any_model_says_what_its_program_left(bucket: Bucket, tmp_path: Path) -> None:
    run = Run(Yard(bucket), "arn:digits-1")  # type: ignore[arg-type]
    with pytest.raises(NoModel, match="has no model"):
        run.model(tmp_path)


def archive_of(tmp_path: Path, texts: dict[str, str], links: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, text in texts.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(text), 1_700_000_000, 0o755
            tar.addfile(member, io.BytesIO(text.encode()))
        for name, to in links.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, to
            tar.addfile(member)
    return made.getvalue()


def run_of(bucket: Bucket, name: str, archive: bytes) -> Run:
    bucket.put(f"programs/{name}.tar.gz", archive)
    bucket.put(
        f"runs/{name}/job.json",
        json.dumps({"program": {"source": f"s3://{NAME}/programs/{name}.tar.gz"}}).encode(),
    )
    return Run(Yard(bucket), f"arn:{name}")  # type: ignore[arg-type]


def test_the_source_is_fetched_as_the_files_that_it_was(bucket: Bucket, tmp_path: Path) -> None:
    first = run_of(
        bucket, "a", archive_of(tmp_path, {"src/train.py": "1", "old.py": "x"}, {"run": "src/train.py"})
    )
    assert first.fetch("source", tmp_path) == Fetched(2, 2)
    assert files(tmp_path) == {"src/train.py": b"1", "old.py": b"x", "run": b"1"}
    assert (tmp_path / "run").readlink() == Path("src/train.py")
    seen = (tmp_path / "src/train.py").stat()
    assert (seen.st_mtime, seen.st_mode & 0o777) == (1_700_000_000, 0o755)
    (tmp_path / "mine.txt").write_text("mine")
    second = run_of(bucket, "b", archive_of(tmp_path, {"src/train.py": "2"}, {}))
    assert second.fetch("source", tmp_path) == Fetched(1, 1, removed=("old.py", "run"))
    assert files(tmp_path) == {"src/train.py": b"2", "mine.txt": b"mine"}


def test_a_source_that_leads_out_of_the_folder_is_not_unpacked(bucket: Bucket, tmp_path: Path) -> None:
    folder = tmp_path / "into"
    run = run_of(bucket, "a", archive_of(tmp_path, {"a.py": "1", "../b.py": "2"}, {}))
    with pytest.raises(ArchiveBroken, match=r"cannot be unpacked"):
        run.fetch("source", folder)
    assert (list(folder.iterdir()), (tmp_path / "b.py").exists()) == ([], False)
