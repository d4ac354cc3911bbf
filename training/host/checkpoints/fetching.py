"""Download a checkpoint from the bucket, whole and verified, to this disk."""

import hashlib
import logging
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.host.bucket import Bucket
from training.host.checkpoints.catalogue import Manifest, Version
from training.host.checkpoints.in_bucket import folder_of, manifest_of
from training.host.data.transfer import download_all
from training.host.disk import fresh, inside, is_readable, walk
from training.host.errors import Damaged, Missing
from training.host.reporting.metrics import as_object

METADATA = "trainyard-metadata.json"
"""The runtime writes this file into each of its checkpoints. It holds the SHA-256 of the other files."""


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole and verified copy of a checkpoint's files on this disk."""

    folder: Path
    manifest: Manifest


def fetch(bucket: Bucket, version: Version, restores: Path, *, have: Path | None = None) -> Fetched:
    """Return a whole and verified copy. If the files arrive damaged twice, raise Damaged.

    `have` is a folder of the checkpoint that may exist on this disk. If it is whole, it is moved instead of fetched.
    """
    target = restores / version.name
    manifest = _sound_manifest(bucket, version)
    if target.is_dir():
        return Fetched(target, manifest)
    here = _whole_below(have, manifest) if have else set()
    half = restores / f"{target.name}.part"
    wrong: str | None = None
    for _ in range(2):
        if wrong or _holds_others(half, manifest):
            fresh(half)
        half.mkdir(parents=True, exist_ok=True)
        _download(bucket, version, manifest.files.keys() - here, manifest, half)
        wrong = damage(half, {name: manifest.files[name].size for name in manifest.files.keys() - here})
        if wrong is None:
            if here and have:
                have.replace(half / have.name)
            half.replace(target)
            logger.info("%s: %d files", version.called, len(manifest.files))
            return Fetched(target, manifest)
    raise _damaged_error(bucket, version, wrong or "")


def _sound_manifest(bucket: Bucket, version: Version) -> Manifest:
    try:
        return manifest_of(bucket, version)
    except Missing as missing:
        raise _damaged_error(bucket, version, "its manifest is missing") from missing
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged_error(bucket, version, f"its manifest cannot be read ({error})") from error


def _whole_below(have: Path, manifest: Manifest) -> set[str]:
    """Return the files of the folder `have` if it is whole and has no other files; otherwise none."""
    names = {name for name in manifest.files if name.startswith(f"{have.name}/")}
    there = (Path(entry.path) for entry in walk(have))
    found = {path.relative_to(have.parent).as_posix() for path in there if is_readable(path)}
    sizes = {name: manifest.files[name].size for name in names}
    return names if found == names and damage(have.parent, sizes) is None else set()


def _download(
    bucket: Bucket, version: Version, names: Iterable[str], manifest: Manifest, folder: Path
) -> None:
    """Download the files that are missing after an earlier call, which an outage of S3 may have ended."""
    sizes = {name: manifest.files[name].size for name in names}
    wanted = {name: manifest.files[name].key for name in names if _size_of(folder / name) != sizes[name]}
    if not wanted:
        return
    found = {item.key: item for item in bucket.list(folder_of(version))}
    absent = [name for name, key in wanted.items() if key not in found]
    if absent:
        raise _damaged_error(bucket, version, f"{absent[0]} is missing")
    download_all(bucket, {inside(folder, name): found[key] for name, key in wanted.items()})


def _holds_others(folder: Path, manifest: Manifest) -> bool:
    """Return True if the folder has a file that is not part of the checkpoint, left by a killed transfer."""
    there = (Path(entry.path).relative_to(folder).as_posix() for entry in walk(folder))
    return any(name not in manifest.files for name in there)


def _size_of(path: Path) -> int | None:
    """Return the size of a regular file in bytes, and None for anything else."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _damaged_error(bucket: Bucket, version: Version, wrong: str) -> Damaged:
    return Damaged(f"{version.called}, {bucket.uri(version.key)}, is damaged: {wrong}")


def damage(folder: Path, sizes: Mapping[str, int]) -> str | None:
    """Return what is wrong with the files in `folder`, compared with their sizes and with the checksums of the
    runtime's checkpoints; None if nothing is."""
    for name, size in sizes.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    checks = (_find_damage(folder, name) for name in sizes if name.rpartition("/")[2] == METADATA)
    return next(filter(None, checks), None)


def _find_damage(folder: Path, metadata: str) -> str | None:
    document = as_object((folder / metadata).read_bytes())
    if document is None:
        return f"{metadata} is not a JSON object"
    for name, expected in _sums_in(document):
        path = (folder / metadata).parent / name
        if not path.is_file():
            return f"{name} is missing"
        found = sha256(path)
        if found != expected:
            return f"{name} has the SHA-256 {found[:16]}... instead of {expected[:16]}..."
    return None


def _sums_in(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, expected in document.get("files", {}).items():
        yield str(name), str(expected)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
