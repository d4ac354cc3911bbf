"""The content of latest.json and of manifests: the checkpoints of a run. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from trainyard.protocol import keys

STEP, FOLDER = "step", "folder"
"""Kinds of checkpoints: with a checkpoint of the runtime, whose step is certain, and without one."""


class Stored(NamedTuple):
    """One file of a checkpoint."""

    size: int
    mtime: int
    """In nanoseconds."""
    mode: int
    """The permission bits."""
    key: str
    """The key of its content."""


class Link(NamedTuple):
    """A symbolic link, with its target as written and its own time (ns)."""

    target: str
    mtime: int


@dataclass(frozen=True, slots=True)
class Version:
    """One whole checkpoint in the bucket, as in latest.json."""

    step: int
    """Its position in the order of a run's checkpoints."""
    key: str
    """The folder of the files that were new in it."""
    kind: str
    at: str
    at_step: int | None = None
    """The program's step; None if it has not reported one."""
    files: int = 0
    """The number of all its files."""
    bytes: int = 0
    """The size of all its files."""

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Version":
        known = {name: document[name] for name in Version.__dataclass_fields__ if name in document}
        return Version(**known)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rstrip("/").rpartition("/")[2]

    @property
    def manifest_key(self) -> str:
        return f"{self.key.rstrip('/')}.json"

    @property
    def called(self) -> str:
        """The checkpoint's name in sentences. It has a step only if the program has reported it."""
        if self.kind == STEP:
            return f"the checkpoint of step {self.step}"
        if self.at_step is not None:
            return f"the checkpoint that was saved by step {self.at_step}"
        return f"checkpoint {self.step}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything in a checkpoint, by path in the checkpoints folder."""

    files: Mapping[str, Stored]
    links: Mapping[str, Link]
    """A path that `files` has, too, is a link to a file outside the folder."""
    folders: Mapping[str, tuple[int, int]]
    """The mtime (ns) and the permission bits of each folder."""

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
        """Return the keys of all files."""
        return {stored.key for stored in self.files.values()}


NOTHING = Manifest({}, {}, {})


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The checkpoints in latest.json: the newest one, and the kept ones before it, newest first."""

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

    def find(self, key: str) -> Version | None:
        return next((version for version in self.all if version.key == key), None)


def add_version(known: Catalogue | None, new: Version, *, keep: int) -> Catalogue:
    """Return the catalogue after `new` is whole. It replaces a checkpoint of the same step, and later steps, which
    belong to an attempt that was given up."""
    before = [version for version in known.all if version.step < new.step] if known else []
    return Catalogue(new, tuple(before[: keep - 1]))


def name_of(step: int) -> str:
    return f"{step:08d}"


def key_of(run: str, step: int, last: Version | None = None) -> str:
    """Return the key of a new checkpoint. If `last` has the same step, a number is appended."""
    if last is None or last.step != step:
        return f"{keys.checkpoints(run)}{name_of(step)}/"
    return f"{keys.checkpoints(run)}{name_of(step)}.{int(last.name.partition('.')[2] or 0) + 1}/"


def run_of(key: str) -> str:
    """Return the run whose checkpoint is under this key."""
    return key.split("/")[1]


def order_of(key: str) -> tuple[int, int]:
    """Return the step in the key of a checkpoint, and its appended number."""
    step, _, number = key.rstrip("/").rpartition("/")[2].partition(".")
    return int(step), int(number or 0)
