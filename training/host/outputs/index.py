"""The list of a host's outputs in the bucket, and a short report of the files that were kept.

The chief's files are below `keys.outputs`, and another host's files in its folder @<role>-<index>/ there. Each host's
list and report are below `keys.outputs_of`, in <role>-<index>/.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from training.host.bucket import Bucket
from training.host.keys import show_name
from training.host.outputs.scan import Omission, Seen
from trainyard.protocol import keys

CHIEF = "chief-0"
NAMED_AT_MOST = 100
"""Most files and folders that a report names. It counts the others."""

logger = logging.getLogger(__name__)


class Sent(NamedTuple):
    """A file in the bucket."""

    seen: Seen
    """Its state when it was sent."""
    version: str
    """The version of the object; empty without versioning."""


@dataclass(slots=True)
class Index:
    """A host's outputs in the bucket."""

    files: dict[str, Sent] = field(default_factory=dict)
    earlier: dict[str, Sent] = field(default_factory=dict)
    """Files of earlier attempts that the last attempt did not find on its disk."""
    attempt: int = 1
    """The number of the last attempt."""
    links: Mapping[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    snapshot: dict[str, Sent] | None = None
    """The files that a restart finds, from the last moment without a file being written. None means `files`."""
    snapshot_links: Mapping[str, str] = field(default_factory=dict)
    inherits: bool = False
    """True until the bucket has all files that the run inherits from the run that it resumes."""

    @property
    def consistent(self) -> Mapping[str, Sent]:
        return self.files if self.snapshot is None else self.snapshot

    @property
    def consistent_links(self) -> Mapping[str, str]:
        return self.links if self.snapshot is None else self.snapshot_links

    @property
    def count(self) -> int:
        return len(self.files) + len(self.earlier)

    @property
    def size(self) -> int:
        """The size of all files in bytes."""
        return sum(sent.seen.size for files in (self.files, self.earlier) for sent in files.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "attempt": self.attempt,
            "files": _rows(self.files),
            "earlier": _rows(self.earlier),
            "links": dict(self.links),
            "folders": self.folders,
            "snapshot": None if self.snapshot is None else _rows(self.snapshot),
            "snapshot_links": dict(self.snapshot_links),
            "inherits": self.inherits,
        }

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> "Index":
        snapshot = document["snapshot"]
        return Index(
            files=_read_rows(document["files"]),
            earlier=_read_rows(document["earlier"]),
            attempt=int(document["attempt"]),
            links=document["links"],
            folders=list(document["folders"]),
            snapshot=None if snapshot is None else _read_rows(snapshot),
            snapshot_links=document["snapshot_links"],
            inherits=bool(document.get("inherits", False)),
        )


def prefix_of(run: str, host: str) -> str:
    """Return the prefix of the keys of a host's outputs."""
    return keys.outputs(run) + ("" if host == CHIEF else f"@{host}/")


def key_of(run: str, host: str) -> str:
    """Return the key of a host's list of files."""
    return f"{keys.outputs_of(run)}{host}/files.json"


def read(bucket: Bucket, run: str, host: str) -> Index | None:
    """Return a host's list of files; None if it has none in this run, or the list is damaged."""
    text = bucket.read_if_there(key_of(run, host))
    if text is None:
        return None
    try:
        return Index.from_json(json.loads(text))
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
    ) as error:  # a program may write there
        logger.warning("%s is not a list of outputs: %r", key_of(run, host), error)
        return None


def write(bucket: Bucket, run: str, host: str, index: Index) -> int:
    """Write the list of files; return its size in bytes."""
    body = json.dumps(index.to_json(), separators=(",", ":")).encode()
    bucket.write(key_of(run, host), body)
    return len(body)


def write_report(bucket: Bucket, run: str, host: str, index: Index, left_out: Mapping[str, Omission]) -> None:
    """Write a report: how much was kept, and printable names of the files that were left out, the largest first."""
    largest = sorted(left_out.items(), key=lambda each: (-each[1].size, each[0]))
    report = {
        "files": index.count,
        "bytes": index.size,
        "left_out": [
            {"path": show_name(path), "size": each.size, "reason": each.reason}
            for path, each in largest[:NAMED_AT_MOST]
        ],
        "left_out_in_all": len(left_out),
    }
    bucket.write(f"{keys.outputs_of(run)}{host}/report.json", json.dumps(report).encode())


def _rows(files: Mapping[str, Sent]) -> dict[str, list[Any]]:
    return {path: [*sent.seen, sent.version] for path, sent in files.items()}


def _read_rows(rows: Mapping[str, Any]) -> dict[str, Sent]:
    return {path: Sent(Seen(*map(int, row[:3])), str(row[3])) for path, row in rows.items()}
