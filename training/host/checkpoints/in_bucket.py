"""Checkpoints in the bucket.

A checkpoint exists only when latest.json, written last, names it: the newest, and those before it that are kept. It
says the size of every file; the runtime's own checkpoints also hold every file's SHA-256 in facts.json. What is
fetched is compared with both.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from training.host.bucket import Bucket
from training.host.data.transfer import download_all
from training.host.disk import fresh, inside, readable_files
from training.host.errors import Damaged
from training.host.reporting.metrics import as_object
from training.host.reporting.signals import stamp

STEP, FOLDER = "step", "folder"
"""Kinds: a folder of the runtime's, named by its step; everything that another program keeps in its folder."""
FACTS = "facts.json"
UPLOADS_AT_ONCE = 8

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One whole checkpoint in the bucket. `key` is its folder there, `files` the size of each file in it."""

    step: int
    key: str
    kind: str
    files: Mapping[str, int]
    at: str

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Manifest":
        return Manifest(
            document["step"], document["key"], document["kind"], document["files"], document["at"]
        )


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What latest.json says: the newest checkpoint, and those before it that are kept, newest first."""

    newest: Manifest
    before: tuple[Manifest, ...] = ()

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Catalogue":
        return Catalogue(Manifest.from_json(document), tuple(map(Manifest.from_json, document["before"])))

    def to_json(self) -> dict[str, Any]:
        return asdict(self.newest) | {"before": [asdict(manifest) for manifest in self.before]}

    @property
    def all(self) -> tuple[Manifest, ...]:
        return (self.newest, *self.before)

    def named(self, key: str) -> Manifest | None:
        return next((manifest for manifest in self.all if manifest.key == key), None)


def following(known: Catalogue | None, new: Manifest, *, keep: int) -> Catalogue:
    """What latest.json says once `new` is whole. Later steps are of an attempt that was given up."""
    before = [manifest for manifest in known.all if manifest.step < new.step] if known else []
    return Catalogue(new, tuple(before[: keep - 1]))


def name_of(step: int) -> str:
    return f"{step:08d}"


def prefix_of(run: str) -> str:
    return f"runs/{run}/checkpoints/"


def catalogue_of(bucket: Bucket, run: str) -> Catalogue | None:
    """None while the run has no checkpoint."""
    text = bucket.read_if_there(f"{prefix_of(run)}latest.json")
    return None if text is None else Catalogue.from_json(json.loads(text))


def write_catalogue(bucket: Bucket, run: str, catalogue: Catalogue) -> None:
    bucket.write(f"{prefix_of(run)}latest.json", json.dumps(catalogue.to_json()).encode())


def upload_files(bucket: Bucket, run: str, source: Path, step: int, *, kind: str, at: datetime) -> Manifest:
    """Bring the files into the bucket. It is no checkpoint before `make_newest`."""
    files = {
        path.relative_to(source).as_posix(): path.stat().st_size for path in sorted(readable_files(source))
    }
    key = f"{prefix_of(run)}{name_of(step)}/"
    with ThreadPoolExecutor(max_workers=UPLOADS_AT_ONCE, thread_name_prefix="upload") as pool:
        for wait in [pool.submit(bucket.upload, source / name, key + name) for name in files]:
            wait.result()
    return Manifest(step, key, kind, files, stamp(at))


def make_newest(bucket: Bucket, run: str, manifest: Manifest, *, keep: int) -> Catalogue:
    """From now on this is the run's checkpoint."""
    catalogue = following(catalogue_of(bucket, run), manifest, keep=keep)
    write_catalogue(bucket, run, catalogue)
    return catalogue


def prune(bucket: Bucket, run: str, catalogue: Catalogue) -> None:
    """Remove what latest.json does not name: what is not kept any more, what never became whole."""
    latest = f"{prefix_of(run)}latest.json"
    kept = {manifest.key + name for manifest in catalogue.all for name in manifest.files} | {latest}
    bucket.delete([item.key for item in bucket.list(prefix_of(run)) if item.key not in kept])


def fetch(bucket: Bucket, manifest: Manifest, restores: Path) -> Path:
    """Have a whole and verified copy on disk; where it is. What came damaged is fetched once more, then Damaged."""
    target = restores / name_of(manifest.step)
    if target.is_dir():
        return target
    half = restores / f"{target.name}.part"
    for _ in range(2):
        fresh(half)
        found = {item.key: item for item in bucket.list(manifest.key)}
        missing = [name for name in manifest.files if manifest.key + name not in found]
        if missing:
            wrong: str | None = f"{missing[0]} is missing"
            break
        download_all(bucket, {inside(half, name): found[manifest.key + name] for name in manifest.files})
        wrong = damage(half, manifest.files)
        if wrong is None:
            half.replace(target)
            logger.info("checkpoint %d: %d files", manifest.step, len(manifest.files))
            return target
    raise Damaged(f"the checkpoint of step {manifest.step}, {bucket.uri(manifest.key)}, is damaged: {wrong}")


def damage(folder: Path, files: Mapping[str, int]) -> str | None:
    """What is wrong with the files in `folder`, compared with their sizes and checksums; None when nothing is."""
    for name, size in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    facts = folder / FACTS
    if not facts.is_file():
        return None
    document = as_object(facts.read_bytes())
    if document is None:
        return f"{FACTS} is no JSON object"
    for name, expected in document.get("files", {}).items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        found = sha256(path)
        if found != expected:
            return f"{name} has the SHA-256 {found[:16]}... instead of {expected[:16]}..."
    return None


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def give_up(bucket: Bucket, run: str, key: str) -> Manifest | None:
    """Let latest.json name the checkpoint before the one under `key`; that one, None when none is kept."""
    known = catalogue_of(bucket, run)
    if known is None or known.newest.key != key:
        return None if known is None else known.newest
    if not known.before:
        return None
    write_catalogue(bucket, run, Catalogue(known.before[0], known.before[1:]))
    return known.before[0]
