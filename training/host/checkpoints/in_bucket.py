"""Checkpoints in the bucket.

A checkpoint exists only if latest.json names it: the newest, and those before it that are kept. Its manifest names
every file with its size, times and key. A file that has not changed since an earlier checkpoint keeps its key, so it
is stored once. Files are written first, then the manifest, then latest.json; objects that no named checkpoint needs are
deleted last. So every checkpoint that latest.json names can be restored at any moment.
"""

import hashlib
import json
import logging
import stat
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from training.host.bucket import Bucket
from training.host.data.transfer import download_all
from training.host.disk import fresh, inside, is_readable, walk
from training.host.errors import Damaged, Missing
from training.host.reporting.metrics import as_object
from trainyard.protocol import keys
from trainyard.values.wire import stamp

STEP, FOLDER = "step", "folder"
"""Kinds: with a checkpoint of the runtime, whose step is certain; without one."""
FACTS = "trainyard-facts.json"
"""The runtime writes this file into each of its checkpoints. It holds the SHA-256 of the others."""
UPLOADS_AT_ONCE = 8

logger = logging.getLogger(__name__)


class Stored(NamedTuple):
    """One file of a checkpoint. `mtime` in nanoseconds, `mode` the permission bits, `key` where its content is."""

    size: int
    mtime: int
    mode: int
    key: str


class Link(NamedTuple):
    """A symbolic link: where it leads, as it is written, and its own time (ns)."""

    target: str
    mtime: int


@dataclass(frozen=True, slots=True)
class Version:
    """One whole checkpoint in the bucket, as latest.json names it.

    `step` orders the checkpoints of a run; `key` is the folder of the files that were new in it. `at_step` is the step
    that the program was at, None if it has not reported any. `files` and `bytes` count all files of the checkpoint.
    """

    step: int
    key: str
    kind: str
    at: str
    at_step: int | None = None
    files: int = 0
    bytes: int = 0

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Version":
        known = {name: document[name] for name in Version.__dataclass_fields__ if name in document}
        return Version(**known)

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.key.rstrip("/").rpartition("/")[2]

    @property
    def manifest_key(self) -> str:
        return f"{self.key.rstrip('/')}.json"

    @property
    def called(self) -> str:
        """The checkpoint in words. A step is named only if the program has reported it."""
        if self.kind == STEP:
            return f"the checkpoint of step {self.step}"
        if self.at_step is not None:
            return f"the checkpoint that was saved by step {self.at_step}"
        return f"checkpoint {self.step}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that a checkpoint consists of, by the path in the checkpoints folder. `folders` holds mtime (ns) and
    permission bits. A name in both `files` and `links` is a link to a file outside the folder, with its content."""

    files: Mapping[str, Stored]
    links: Mapping[str, Link]
    folders: Mapping[str, tuple[int, int]]

    @staticmethod
    def from_json(document: Mapping[str, Any], prefix: str) -> "Manifest":
        return Manifest(
            {
                name: Stored(size, mtime, mode, prefix + key)
                for name, (size, mtime, mode, key) in document["files"].items()
            },
            {name: Link(target, mtime) for name, (target, mtime) in document["links"].items()},
            {name: (mtime, mode) for name, (mtime, mode) in document["folders"].items()},
        )

    def to_json(self, prefix: str) -> dict[str, Any]:
        """Return the manifest with keys below `prefix`, the folder of the run's checkpoints."""
        files = {
            name: (stored.size, stored.mtime, stored.mode, stored.key.removeprefix(prefix))
            for name, stored in self.files.items()
        }
        return {"files": files, "links": dict(self.links), "folders": dict(self.folders)}

    def objects(self) -> set[str]:
        """Return the keys of all its files."""
        return {stored.key for stored in self.files.values()}


NOTHING = Manifest({}, {}, {})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What latest.json says: the newest checkpoint, and those before it that are kept, newest first."""

    newest: Version
    before: tuple[Version, ...] = ()

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Catalogue":
        return Catalogue(Version.from_json(document), tuple(map(Version.from_json, document["before"])))

    def to_json(self) -> dict[str, Any]:
        return asdict(self.newest) | {"before": [asdict(version) for version in self.before]}

    @property
    def all(self) -> tuple[Version, ...]:
        return (self.newest, *self.before)

    def named(self, key: str) -> Version | None:
        return next((version for version in self.all if version.key == key), None)


def following(known: Catalogue | None, new: Version, *, keep: int) -> Catalogue:
    """Return what latest.json says once `new` is whole. It replaces a checkpoint of the same step; later steps are of
    an attempt that was given up."""
    before = [version for version in known.all if version.step < new.step] if known else []
    return Catalogue(new, tuple(before[: keep - 1]))


def name_of(step: int) -> str:
    return f"{step:08d}"


def key_of(run: str, step: int, last: Version | None = None) -> str:
    """Return the key of a new checkpoint. If `last` has the same step, the new one gets the next number behind it."""
    if last is None or last.step != step:
        return f"{keys.checkpoints(run)}{name_of(step)}/"
    return f"{keys.checkpoints(run)}{name_of(step)}.{int(last.name.partition('.')[2] or 0) + 1}/"


def catalogue_of(bucket: Bucket, run: str) -> Catalogue | None:
    """Return what latest.json says; None while the run has no checkpoint."""
    text = bucket.read_if_there(keys.latest_checkpoint(run))
    return None if text is None else Catalogue.from_json(json.loads(text))


def write_catalogue(bucket: Bucket, run: str, catalogue: Catalogue) -> None:
    bucket.write(keys.latest_checkpoint(run), json.dumps(catalogue.to_json()).encode())


def manifest_of(bucket: Bucket, version: Version) -> Manifest:
    """Return the manifest of a checkpoint. Raises Missing if the bucket has none."""
    return Manifest.from_json(json.loads(bucket.read(version.manifest_key)), _folder_of(version))


def _folder_of(version: Version) -> str:
    """Return the prefix of all checkpoints of its run: a run that resumes another restores from that one's."""
    return version.key.rstrip("/").rpartition("/")[0] + "/"


def upload_files(bucket: Bucket, source: Path, names: Iterable[str], key: str) -> dict[str, int]:
    """Bring files below `source` into the bucket, below `key`, and return their sizes. A file that has vanished or may
    not be read any more is left out."""
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
    return Version(step, key, kind, stamp(at), at_step, len(manifest.files), total)


def make_newest(bucket: Bucket, run: str, version: Version, manifest: Manifest, *, keep: int) -> Catalogue:
    """Make this the run's checkpoint. All its files are in the bucket already."""
    bucket.write(version.manifest_key, json.dumps(manifest.to_json(_folder_of(version))).encode())
    catalogue = following(catalogue_of(bucket, run), version, keep=keep)
    write_catalogue(bucket, run, catalogue)
    return catalogue


def prune(
    bucket: Bucket, run: str, catalogue: Catalogue, manifests: Mapping[str, Manifest], *, thorough: bool
) -> None:
    """Delete every object that no checkpoint of latest.json needs.

    `manifests` are those that are known, by the key of their checkpoint. Unless `thorough`, only their objects are
    looked at, and the bucket is not listed.
    """
    needed = {keys.latest_checkpoint(run)}
    for version in catalogue.all:
        if version.key.startswith(keys.checkpoints(run)):  # another run's are never this run's to delete
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
    """Return the manifest of a checkpoint; NOTHING if a person has deleted it. Then a restore finds the damage."""
    try:
        return manifest_of(bucket, version)
    except Missing:
        return NOTHING


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole and verified copy of a checkpoint's files on this disk."""

    folder: Path
    manifest: Manifest


def fetch(bucket: Bucket, version: Version, restores: Path, *, have: Path | None = None) -> Fetched:
    """Return a whole and verified copy. If the files come damaged they are fetched once more, then Damaged is raised.

    `have` is a folder of the checkpoint that may lie on this disk: if it is whole it is moved instead of fetched.
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
    raise _damaged(bucket, version, wrong or "")


def _sound_manifest(bucket: Bucket, version: Version) -> Manifest:
    try:
        return manifest_of(bucket, version)
    except Missing as missing:
        raise _damaged(bucket, version, "its manifest is missing") from missing
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(bucket, version, f"its manifest cannot be read ({error})") from error


def _whole_below(have: Path, manifest: Manifest) -> set[str]:
    """Return the files of the folder `have` if it lies whole on this disk, and holds no others."""
    names = {name for name in manifest.files if name.startswith(f"{have.name}/")}
    there = (Path(entry.path) for entry in walk(have))
    found = {path.relative_to(have.parent).as_posix() for path in there if is_readable(path)}
    sizes = {name: manifest.files[name].size for name in names}
    return names if found == names and damage(have.parent, sizes) is None else set()


def _download(
    bucket: Bucket, version: Version, names: Iterable[str], manifest: Manifest, folder: Path
) -> None:
    """Bring the files that an earlier call, which an outage of S3 ended, has not brought."""
    sizes = {name: manifest.files[name].size for name in names}
    wanted = {name: manifest.files[name].key for name in names if _size_of(folder / name) != sizes[name]}
    if not wanted:
        return
    found = {item.key: item for item in bucket.list(_folder_of(version))}
    absent = [name for name, key in wanted.items() if key not in found]
    if absent:
        raise _damaged(bucket, version, f"{absent[0]} is missing")
    download_all(bucket, {inside(folder, name): found[key] for name, key in wanted.items()})


def _holds_others(folder: Path, manifest: Manifest) -> bool:
    """Return True if the folder holds a file that is none of the checkpoint's: a transfer that was killed left it."""
    there = (Path(entry.path).relative_to(folder).as_posix() for entry in walk(folder))
    return any(name not in manifest.files for name in there)


def _size_of(path: Path) -> int | None:
    """Return the size of a regular file in bytes, and None for anything else."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _damaged(bucket: Bucket, version: Version, wrong: str) -> Damaged:
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
    checks = (_damage_by_facts(folder, name) for name in sizes if name.rpartition("/")[2] == FACTS)
    return next(filter(None, checks), None)


def _damage_by_facts(folder: Path, facts: str) -> str | None:
    document = as_object((folder / facts).read_bytes())
    if document is None:
        return f"{facts} is no JSON object"
    for name, expected in _sums_in(document):
        path = (folder / facts).parent / name
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


def run_of(key: str) -> str:
    """Return the run whose checkpoint is under this key."""
    return key.split("/")[1]


def replacement(bucket: Bucket, run: str, key: str) -> Version | None:
    """Return the newest checkpoint of the run if latest.json has dropped the one under `key` for newer ones, and has
    therefore deleted its files; else None."""
    known = catalogue_of(bucket, run)
    if known is None or known.named(key):
        return None
    return known.newest if _order(known.newest.key) > _order(key) else None


def _order(key: str) -> tuple[int, int]:
    """Return the step in the key of a checkpoint, and the number behind it."""
    step, _, number = key.rstrip("/").rpartition("/")[2].partition(".")
    return int(step), int(number or 0)


def give_up(bucket: Bucket, run: str, key: str) -> Version | None:
    """Let latest.json name the checkpoint before the one under `key`; that one, None when none is kept."""
    known = catalogue_of(bucket, run)
    if known is None or known.newest.key != key:
        return None if known is None else known.newest
    if not known.before:
        return None
    write_catalogue(bucket, run, Catalogue(known.before[0], known.before[1:]))
    return known.before[0]
