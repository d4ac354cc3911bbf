"""Checkpoints between this host and the bucket.

On disk a checkpoint is a folder named by its step that appeared by one rename: it is whole or it is not there.
In the bucket it exists only when latest.json, written last, names it.
"""

import json
import logging
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from training.host.bucket import Bucket, Object
from training.host.cluster import Checkpoint
from training.host.errors import Missing
from training.host.fetch import AT_ONCE, download_all, inside
from training.host.signals import stamp

KEEP = 3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Latest:
    """What latest.json says."""

    step: int
    key: str
    files: dict[str, int]

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.step, self.key)


def name_of(step: int) -> str:
    return f"{step:08d}"


def on_disk(folder: Path) -> list[int]:
    """The steps of the whole checkpoints in `folder`, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.is_dir() and path.name.isdigit())


def superfluous(steps: Iterable[int], *, newest: int) -> list[int]:
    """The steps that may go once `newest` is whole: all up to it but the last KEEP."""
    return sorted(step for step in steps if step <= newest)[:-KEEP]


def latest(bucket: Bucket, run: str) -> Latest | None:
    text = bucket.read_if_there(f"runs/{run}/checkpoints/latest.json")
    if text is None:
        return None
    said = json.loads(text)
    return Latest(step=said["step"], key=said["key"], files=said["files"])


def fetch(bucket: Bucket, checkpoint: Checkpoint, folder: Path) -> None:
    """Have the checkpoint on disk, whole. It is fetched only if it is not there already."""
    target = folder / name_of(checkpoint.step)
    if target.is_dir():
        return
    found = list(bucket.list(checkpoint.key))
    if not found:
        raise Missing(f"the checkpoint {bucket.uri(checkpoint.key)} is not in the bucket any more")
    half = folder / f"{target.name}.part"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    download_all(bucket, {inside(half, item.key[len(checkpoint.key) :]): item for item in found})
    half.replace(target)
    logger.info("checkpoint %d: %d files", checkpoint.step, len(found))


def keep_only(folder: Path, step: int | None) -> None:
    """Leave at most the checkpoint that the next attempt restores: a program restores the latest it finds."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if step is None or path.name != name_of(step):
            shutil.rmtree(path, ignore_errors=True)


def upload(bucket: Bucket, run: str, folder: Path, step: int, *, at: datetime) -> Latest:
    """Bring one checkpoint into the bucket; latest.json comes last and makes it exist."""
    source = folder / name_of(step)
    files = {
        str(path.relative_to(source)): path.stat().st_size
        for path in sorted(source.rglob("*"))
        if path.is_file()
    }
    key = f"runs/{run}/checkpoints/{name_of(step)}/"
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="upload") as pool:
        for wait in [pool.submit(bucket.upload, source / name, key + name) for name in files]:
            wait.result()
    document = {"step": step, "key": key, "files": files, "at": stamp(at)}
    bucket.write(f"runs/{run}/checkpoints/latest.json", json.dumps(document).encode())
    return Latest(step, key, files)


def prune(bucket: Bucket, run: str, *, newest: int) -> None:
    """Keep the last few in the bucket."""
    prefix = f"runs/{run}/checkpoints/"
    by_step: dict[int, list[Object]] = {}
    for item in bucket.list(prefix):
        step = item.key[len(prefix) :].partition("/")[0]
        if step.isdigit():
            by_step.setdefault(int(step), []).append(item)
    old = superfluous(by_step, newest=newest)
    bucket.delete(item.key for step in old for item in by_step[step])


def prune_disk(folder: Path, *, newest: int) -> None:
    for step in superfluous(on_disk(folder), newest=newest):
        shutil.rmtree(folder / name_of(step), ignore_errors=True)
