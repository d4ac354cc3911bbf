"""Data entries with `mode: stream`: folders of S3 that mount-s3 (Mountpoint for Amazon S3) shows as files."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from training.host import credentials
from training.host.bucket import Bucket
from training.host.data.fetch import DataEntry
from training.host.mounts.mounting import Mount
from training.host.paths import Paths

COMMAND = "mount-s3"
MIB, GIB = 1024**2, 1024**3
FREE_SHARE = 0.05
"""The share of the disk that a cache leaves free, as mount-s3 does by default."""
COUNTED = re.compile(r"s3\.request_count\[s3_request=GetObject\]: (\d+)")
"""The GET requests since the line before it (--log-metrics: every five seconds, and at the end)."""
CHANGED = re.compile(r"\bread\{.*object was mutated remotely|\bread failed with errno 116")
NAMED = re.compile(r'\bname="?([^"}]+?)"?[ }]')


def stream_of(entry: DataEntry, cache_gib: int | None, bucket: Bucket, paths: Paths) -> Mount:
    """Return the mount of a streamed entry, with the run's credentials."""
    holder, prefix = bucket.of(entry.source)
    home = paths.mount_folder(entry.name)
    endpoint = holder.environment.get("S3_ENDPOINT_URL")
    command = [
        *(COMMAND, holder.name, str(paths.mount(entry.name))),
        *("--read-only", "--allow-other", "--prefix", prefix, "--region", holder.region),
        *("--log-directory", str(home / "log"), "--log-metrics"),
        *(("--endpoint-url", endpoint, "--force-path-style") if endpoint else ()),
    ]
    folders = [home / "log"]
    if cache_gib is not None:
        folders.append(home / "cache")
        most = _room(paths.root, cache_gib * GIB) // MIB
        command += ["--cache", str(home / "cache"), "--max-cache-size", str(most)]
    return Mount(
        label=f"data.{entry.name}",
        source=entry.source,
        path=paths.mount(entry.name),
        command=command,
        environment=credentials.environment(paths),
        folders=folders,
    )


def _room(root: Path, asked: int) -> int:
    """Return the bytes that a cache may take: as many as asked for, but a share of the disk stays free."""
    usage = shutil.disk_usage(root)
    return max(MIB, min(asked, usage.free - int(usage.total * FREE_SHARE)))


def count_gets(mounts: Path) -> int:
    """Return the GET requests of all streams of this host, from the logs of mount-s3."""
    return sum(int(found[1]) for line in _lines(mounts) if (found := COUNTED.search(line)))


def changed_objects(mounts: Path) -> list[str]:
    """Return the names of objects that changed while the program read them, once for each failed read."""
    found = (line for line in _lines(mounts) if CHANGED.search(line))
    return [named[1] if (named := NAMED.search(line)) else "an object" for line in found]


def _lines(mounts: Path) -> Iterator[str]:
    for log in sorted(mounts.glob("*/log/*.log")):
        with log.open(errors="replace") as file:
            yield from file
