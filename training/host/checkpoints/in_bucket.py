"""Checkpoints in the bucket.

A checkpoint exists only if latest.json names it, as the newest one or as a kept one before it. Its manifest lists every
file with its size, times, and key. A file that has not changed since an earlier checkpoint keeps its key, so it is
stored once. Files are written first, then the manifest, then latest.json. Objects that no named checkpoint needs are
deleted last. Therefore every checkpoint in latest.json can be restored at any moment.
"""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from training.host.bucket import Bucket
from training.host.checkpoints.catalogue import NOTHING, Catalogue, Manifest, Version, add_version, order_of
from training.host.errors import Missing
from trainyard.protocol import keys
from trainyard.values.serialization import timestamp

UPLOADS_AT_ONCE = 8


def catalogue_of(bucket: Bucket, run: str) -> Catalogue | None:
    """Return the content of latest.json; None while the run has no checkpoint."""
    text = bucket.read_if_there(keys.latest_checkpoint(run))
    return None if text is None else Catalogue.from_json(json.loads(text))


def write_catalogue(bucket: Bucket, run: str, catalogue: Catalogue) -> None:
    bucket.write(keys.latest_checkpoint(run), json.dumps(catalogue.to_json()).encode())


def manifest_of(bucket: Bucket, version: Version) -> Manifest:
    """Return the manifest of a checkpoint. Raises Missing if the bucket has none."""
    return Manifest.from_json(json.loads(bucket.read(version.manifest_key)), folder_of(version))


def folder_of(version: Version) -> str:
    """Return the prefix of all checkpoints of the version's run, which may be another run that this one resumes."""
    return version.key.rstrip("/").rpartition("/")[0] + "/"


def upload_files(bucket: Bucket, source: Path, names: Iterable[str], key: str) -> dict[str, int]:
    """Upload files below `source` to `key` and return their sizes. Skip files that have vanished or cannot be read."""
    with ThreadPoolExecutor(max_workers=UPLOADS_AT_ONCE, thread_name_prefix="upload") as pool:
        found = {name: pool.submit(_upload, bucket, source / name, key + name) for name in names}
    sizes = {name: done.result() for name, done in found.items()}
    return {name: size for name, size in sizes.items() if size is not None}


def _upload(bucket: Bucket, path: Path, key: str) -> int | None:
    try:
        size = path.stat().st_size
        bucket.upload(path, key)
    except (FileNotFoundError, PermissionError):
        return None
    return size


def new_version(
    key: str, step: int, manifest: Manifest, *, kind: str, at: datetime, at_step: int | None
) -> Version:
    """Return the entry of latest.json for this manifest."""
    total = sum(stored.size for stored in manifest.files.values())
    return Version(step, key, kind, timestamp(at), at_step, len(manifest.files), total)


def make_newest(bucket: Bucket, run: str, version: Version, manifest: Manifest, *, keep: int) -> Catalogue:
    """Make this version, whose files are all in the bucket, the run's newest checkpoint."""
    bucket.write(version.manifest_key, json.dumps(manifest.to_json(folder_of(version))).encode())
    catalogue = add_version(catalogue_of(bucket, run), version, keep=keep)
    write_catalogue(bucket, run, catalogue)
    return catalogue


def prune(
    bucket: Bucket, run: str, catalogue: Catalogue, manifests: Mapping[str, Manifest], *, thorough: bool
) -> None:
    """Delete every object that no checkpoint in latest.json needs.

    `manifests` are the known manifests by the key of their checkpoint. Unless `thorough`, only objects of these are
    deleted, and the bucket is not listed.
    """
    needed = {keys.latest_checkpoint(run)}
    for version in catalogue.all:
        if version.key.startswith(keys.checkpoints(run)):  # never delete objects of another run
            needed.add(version.manifest_key)
            needed |= (manifests.get(version.key) or manifest_if_there(bucket, version)).objects()
    if thorough:
        there = {item.key for item in bucket.list(keys.checkpoints(run))}
    else:
        named = {version.key for version in catalogue.all}
        gone = {key: manifest for key, manifest in manifests.items() if key not in named}
        there = {f"{key.rstrip('/')}.json" for key in gone}
        there |= {key for manifest in gone.values() for key in manifest.objects()}
        there = {key for key in there if key.startswith(keys.checkpoints(run))}
    bucket.delete(sorted(there - needed))


def manifest_if_there(bucket: Bucket, version: Version) -> Manifest:
    """Return the manifest of a checkpoint; NOTHING if a user has deleted it. A restore reports that damage."""
    try:
        return manifest_of(bucket, version)
    except Missing:
        return NOTHING


def replacement(bucket: Bucket, run: str, key: str) -> Version | None:
    """Return the newest checkpoint of the run if newer ones have replaced the one under `key`, whose files are then
    deleted; otherwise None."""
    known = catalogue_of(bucket, run)
    if known is None or known.find(key):
        return None
    return known.newest if order_of(known.newest.key) > order_of(key) else None


def give_up(bucket: Bucket, run: str, key: str) -> Version | None:
    """Make the checkpoint before the one under `key` the newest. Return it, or None if none is kept."""
    known = catalogue_of(bucket, run)
    if known is None or known.newest.key != key:
        return None if known is None else known.newest
    if not known.before:
        return None
    write_catalogue(bucket, run, Catalogue(known.before[0], known.before[1:]))
    return known.before[0]
