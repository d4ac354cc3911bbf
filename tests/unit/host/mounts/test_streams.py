"""mount-s3 as a host calls it, and what its log tells."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from training.host.bucket import Bucket
from training.host.data.fetch import DataEntry
from training.host.mounts import streams
from training.host.mounts.mounting import last_line
from training.host.paths import Paths
from trainyard.core.model.program import Sharding

LOG = """\
2026-11-30T02:45:04.9Z  INFO ThreadId(01) mountpoint_s3: mount-s3 1.23.0
2026-11-30T02:45:09.5Z  INFO ThreadId(05) mountpoint_s3_fs::metrics: s3.request_count[s3_request=GetObject]: 12 (n=12)
2026-11-30T02:45:09.5Z  INFO ThreadId(05) mountpoint_s3_fs::metrics: s3.request_count[s3_request=ListObjectsV2]: 5
2026-11-30T02:45:14.5Z  INFO ThreadId(05) mountpoint_s3_fs::metrics: s3.request_count[s3_request=GetObject]: 1
"""
CHANGED = (
    "2026-11-30T02:46:00.1Z  WARN ThreadId(09) read{req=41 ino=3 fh=2 offset=0 size=131072 name=part-3.bin pid=77}: "
    "mountpoint_s3_fs::fuse: read failed with errno 116: object was mutated remotely\n"
)
FAILED = (
    "2026-11-30T02:46:00.1Z  WARN ThreadId(09) read{req=41 name=part-4.bin}: mountpoint_s3_fs::fuse: read failed with "
    "errno 5: get request failed: Client error: Forbidden\n"
)


def bucket(endpoint: str = "https://s3.eu-west-1.amazonaws.com") -> Bucket:
    meta = SimpleNamespace(region_name="eu-west-1", endpoint_url=endpoint)
    return Bucket(SimpleNamespace(meta=meta), "yard", {"AWS_CONFIG_FILE": "/run/trainyard/aws-config"})


def entry(source: str = "s3://corpus/imagenet/") -> DataEntry:
    return DataEntry("train", source, Sharding.NONE)


def test_a_folder_of_another_bucket_is_mounted_read_only_with_the_runs_credentials(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    made = streams.stream_of(entry(), None, bucket(), paths)
    assert made.command[:3] == ["mount-s3", "corpus", str(paths.mount("train"))]
    assert {"--read-only", "--allow-other", "--log-metrics"} <= set(made.command)
    assert made.command[made.command.index("--prefix") + 1] == "imagenet/"
    assert made.command[made.command.index("--region") + 1] == "eu-west-1"
    assert not {"--cache", "--endpoint-url", "--force-path-style"} & set(made.command)
    assert made.environment["AWS_CONFIG_FILE"] == str(paths.aws_config)
    assert made.environment["AWS_EC2_METADATA_DISABLED"] == "true"


def test_a_cache_leaves_a_part_of_the_disk_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(total=100 * streams.GIB, used=0, free=30 * streams.GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    sizes = {}
    for asked in (10, 200):
        made = streams.stream_of(entry(), asked, bucket(), Paths(tmp_path))
        assert made.folders[-1] == tmp_path / "var/lib/trainyard/mounts/train/cache"
        sizes[asked] = made.command[made.command.index("--max-cache-size") + 1]
    assert sizes == {10: "10240", 200: "25600"}


def test_another_endpoint_than_awss_gets_plain_paths(tmp_path: Path) -> None:
    made = streams.stream_of(entry(), None, bucket("http://10.0.0.1:4566"), Paths(tmp_path))
    assert made.command[made.command.index("--endpoint-url") + 1] == "http://10.0.0.1:4566"
    assert "--force-path-style" in made.command


def test_the_log_counts_requests_and_names_objects_that_changed(tmp_path: Path) -> None:
    for name, text in (("train", LOG + FAILED), ("test", LOG + CHANGED)):
        (tmp_path / name / "log").mkdir(parents=True)
        (tmp_path / name / "log/mountpoint-s3-1.log").write_text(text)
    assert streams.count_gets(tmp_path) == 26
    assert streams.changed_objects(tmp_path) == ["part-3.bin"]
    assert streams.count_gets(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Error: no client\nCaused by:\n    access denied\nError: Failed to create mount process\n", "access denied"),
        ("Error: Failed to create mount process\n", "Error: Failed to create mount process"),
        ("\n\n", ""),
    ],
)  # fmt: skip
def test_the_last_line_of_a_refused_mount_names_the_cause(output: str, line: str) -> None:
    assert last_line(output) == line
