"""What latest.json and a manifest say of the checkpoints of a run. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from trainyard.protocol import keys

STEP, FOLDER = "step", "folder"
"""Kinds: with a checkpoint of the runtime, whose step is certain; without one."""


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


def run_of(key: str) -> str:
    """Return the run whose checkpoint is under this key."""
    return key.split("/")[1]


def order_of(key: str) -> tuple[int, int]:
    """Return the step in the key of a checkpoint, and the number behind it."""
    step, _, number = key.rstrip("/").rpartition("/")[2].partition(".")
    return int(step), int(number or 0)
