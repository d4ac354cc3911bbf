"""Faults of a job that only the bucket shows."""
# ruff: noqa: E501 - one line a row

import gzip
import io
import tarfile
from typing import Any

import pytest

from tests.unit.core.builders import job
from trainyard.core.jobfile import references
from trainyard.core.jobfile.references import DataObjects, SourceObject


def tar(mode: str, name: str = "train.py") -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as archive:  # type: ignore[call-overload]
        entry = tarfile.TarInfo(name)
        entry.size = 5
        archive.addfile(entry, io.BytesIO(b"hello"))
    return held.getvalue()


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (tar("w"), True),
        (tar("w:gz"), True),
        (tar("w")[:600], True),
        (b"", False),
        (b"PK\x03\x04" + b"x" * 600, False),
        (b"import tensorflow\n" * 100, False),
        (gzip.compress(b"only a text " * 100, mtime=0), False),
        (b"\x1f\x8b broken gzip", False),
        (b"\0" * 1024, False),
    ],
)
def test_a_tar_is_known_by_its_first_header(head: bytes, expected: bool) -> None:
    assert references.is_tar(head[: references.HEAD_BYTES]) is expected


WITH_BOTH = job(
    program={"module": "train", "source": "s3://BUCKET/programs/x.tar.gz"},
    data={"train": "s3://BUCKET/data/t/"},
)
ARCHIVE = tar("w")
GOOD_SOURCE, GOOD_DATA = SourceObject(len(ARCHIVE), ARCHIVE), DataObjects(3, 4096)


@pytest.mark.parametrize(
    ("source", "data", "said"),
    [
        (GOOD_SOURCE, GOOD_DATA, []),
        (None, GOOD_DATA, ["program.source: s3://yard-bucket/programs/x.tar.gz does not exist"]),
        (SourceObject(10, b"not a tar!"), GOOD_DATA, ["program.source: s3://yard-bucket/programs/x.tar.gz is not a tar"]),
        (SourceObject(2**31, tar("w")), GOOD_DATA, ["program.source: s3://yard-bucket/programs/x.tar.gz has 2147483648"]),
        (SourceObject(len(tar("w", "other.py")), tar("w", "other.py")), GOOD_DATA, ["program.module: train cannot be found in"]),
        (SourceObject(2**26, tar("w", "other.py")), GOOD_DATA, []),
        (GOOD_SOURCE, DataObjects(0, 0), ["data.train: there is nothing under s3://yard-bucket/data/t/"]),
        (GOOD_SOURCE, DataObjects(2, 0), ["data.train: the 2 objects under"]),
        (GOOD_SOURCE, DataObjects(2, 9, "a//b and a/b are two objects"), ["data.train: a//b and a/b are two objects"]),
        (None, DataObjects(0, 0), ["program.source", "data.train"]),
    ],
)  # fmt: skip
def test_the_bucket_holds_what_the_job_names(
    source: SourceObject | None, data: DataObjects, said: list[str]
) -> None:
    found = [str(fault) for fault in references.findings(WITH_BOTH, source, {"train": data}).faults]
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))


def test_a_shipped_program_needs_nothing_in_the_bucket() -> None:
    assert references.findings(job(), None, {}).faults == ()


@pytest.mark.parametrize(
    ("cluster", "files", "said"),
    [
        ({"workers": 3}, 3, None),
        ({"workers": 3}, 1000, None),
        ({"workers": 3}, 2, "there are 2 files with content under s3://yard-bucket/data/t/ for 3 workers"),
        ({"workers": 2}, 1, "there is 1 file with content"),
        ({"strategy": "multi_worker", "workers": 1}, 1, None),
        ({"strategy": "parameter_server", "workers": 2, "parameter_servers": 2}, 2, None),
        ({"strategy": "parameter_server", "workers": 3, "parameter_servers": 1}, 2, "for 3 workers"),
    ],
)
def test_every_worker_needs_a_file_where_they_are_shared_out(
    cluster: dict[str, Any], files: int, said: str | None
) -> None:
    shared = job(cluster=cluster, data={"train": {"source": "s3://BUCKET/data/t/", "sharding": "file"}})
    found = references.findings(shared, None, {"train": DataObjects(files, 4096)}).faults
    assert [fault.path for fault in found] == ["data.train.sharding"] * (said is not None)
    assert said is None or said in found[0].problem


def test_the_timeline_says_what_will_probably_fail() -> None:
    assert references.describe_warnings(()) == "no fault found"
    assert references.describe_warnings(("a", "b")) == "no fault found, but: a; b"


STREAMS = job(data={"train": {"source": "s3://BUCKET/data/t/", "mode": "stream", "cache_gib": 1}})
GIB = 1024**3


@pytest.mark.parametrize(
    ("found", "fault", "warnings"),
    [
        (DataObjects(3, 3 * GIB // 4, gets=96), None, []),
        (
            DataObjects(3, GIB, gets=128, archived="data/t/b"),
            "s3://yard-bucket/data/t/b is in an archive",
            [],
        ),
        (DataObjects(1000, 1000 * 110_000, gets=1000), None, ["of 107.4 KiB on average"]),
        (DataObjects(3, 2 * GIB, gets=256), None, ["cache_gib is 1, but the data have 2.0 GiB: a cache"]),
        (DataObjects(0, 0), "there is nothing under", []),
    ],
)
def test_a_stream_is_checked_before_a_launch(
    found: DataObjects, fault: str | None, warnings: list[str]
) -> None:
    findings = references.findings(STREAMS, None, {"train": found})
    assert (
        [str(each) for each in findings.faults] == [] if fault is None else fault in str(findings.faults[0])
    )
    assert len(findings.warnings) == len(warnings)
    assert all(part in text for part, text in zip(warnings, findings.warnings, strict=True))
    copied = references.findings(WITH_BOTH, GOOD_SOURCE, {"train": found})
    assert not any("stream" in str(each) for each in (*copied.faults, *copied.warnings))


def test_the_plan_gets_the_objects_of_streams_alone() -> None:
    found = {"train": DataObjects(3, 2 * GIB, gets=256, is_cut=True)}
    listed = references.with_objects(STREAMS, found).data["train"].listed
    assert listed is not None
    assert (listed.objects, listed.bytes, listed.gets, listed.is_cut) == (3, 2 * GIB, 256, True)
    assert references.with_objects(WITH_BOTH, found).data["train"].listed is None
