"""A versioned bucket in memory: every version of every object."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Version:
    """One version of an object, with its time in whole seconds. A version without a body is a delete marker."""

    id: str
    at: datetime
    body: bytes | None
    etag: str = ""
    media_type: str = "binary/octet-stream"


@dataclass
class Bucket:
    name: str
    keys: list[str] = field(default_factory=list)
    """Sorted keys whose newest version is not a delete marker."""
    versions: dict[str, list[Version]] = field(default_factory=dict)
    """Versions by key, the newest last."""

    def newest(self, key: str) -> Version | None:
        """Return the current version of the object; None if it is missing or deleted."""
        known = self.versions.get(key)
        return known[-1] if known and known[-1].body is not None else None

    def add(self, key: str, version: Version) -> None:
        was_there = self.newest(key) is not None
        self.versions.setdefault(key, []).append(version)
        self._list(key, was_there=was_there)

    def remove(self, key: str, version: str) -> Version | None:
        """Remove one version for good."""
        was_there = self.newest(key) is not None
        known = self.versions.get(key, [])
        gone = next((each for each in known if each.id == version), None)
        if gone is not None:
            known.remove(gone)
            self._list(key, was_there=was_there)
        return gone

    def _list(self, key: str, *, was_there: bool) -> None:
        is_there = self.newest(key) is not None
        if is_there and not was_there:
            insort(self.keys, key)
        elif was_there and not is_there:
            del self.keys[bisect_left(self.keys, key)]


def find_version(bucket: Bucket, key: str, wanted: str | None) -> Version | None:
    if not wanted:
        return bucket.newest(key)
    return next((each for each in bucket.versions.get(key, ()) if each.id == wanted), None)
