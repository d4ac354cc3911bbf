"""What the bucket knows of a host's outputs: the list of its files, and a short report of what was kept.

The files of the chief lie below `keys.outputs`, those of any other host in its folder @<role>-<index>/ there. Each
host's list and report lie below `keys.outputs_of`, in <role>-<index>/.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from training.host.bucket import Bucket
from training.host.keys import shown
from training.host.outputs.scan import Omission, Seen
from trainyard.protocol import keys

CHIEF = "chief-0"
NAMED_AT_MOST = 100
"""Files and folders that a report names; it counts the others."""

logger = logging.getLogger(__name__)


class Sent(NamedTuple):
    """A file in the bucket: its state when it was sent, and the version of the object (empty without versioning)."""

    seen: Seen
    version: str


@dataclass(slots=True)
class Index:
    """A host's outputs in the bucket.

    `snapshot` holds the files as they were when none was being written: what a restart finds. None stands for `files`.
    `earlier` holds the files of earlier attempts that the last one did not find on its disk. `attempt` is the number of
    the last one. `inherits` is True until the bucket has all that the run has begun with of the run that it resumes.
    """

    files: dict[str, Sent] = field(default_factory=dict)
    earlier: dict[str, Sent] = field(default_factory=dict)
    attempt: int = 1
    links: Mapping[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    snapshot: dict[str, Sent] | None = None
    snapshot_links: Mapping[str, str] = field(default_factory=dict)
    inherits: bool = False

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
        """Bytes."""
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
            files=_of_rows(document["files"]),
            earlier=_of_rows(document["earlier"]),
            attempt=int(document["attempt"]),
            links=document["links"],
            folders=list(document["folders"]),
            snapshot=None if snapshot is None else _of_rows(snapshot),
            snapshot_links=document["snapshot_links"],
            inherits=bool(document.get("inherits", False)),
        )


def prefix_of(run: str, host: str) -> str:
    """Return what the keys of a host's outputs begin with."""
    return keys.outputs(run) + ("" if host == CHIEF else f"@{host}/")


def key_of(run: str, host: str) -> str:
    """Return the key of a host's list of files."""
    return f"{keys.outputs_of(run)}{host}/files.json"


def read(bucket: Bucket, run: str, host: str) -> Index | None:
    """Return None if the host has kept nothing in the run so far, or the list of it is damaged."""
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
        logger.warning("%s is no list of outputs: %r", key_of(run, host), error)
        return None


def write(bucket: Bucket, run: str, host: str, index: Index) -> int:
    """Write the list of files; return its size in bytes."""
    body = json.dumps(index.to_json(), separators=(",", ":")).encode()
    bucket.write(key_of(run, host), body)
    return len(body)


def write_report(bucket: Bucket, run: str, host: str, index: Index, left_out: Mapping[str, Omission]) -> None:
    """Write how much was kept, and what was left out, by names that are fit to print on one line: the largest first."""
    largest = sorted(left_out.items(), key=lambda each: (-each[1].size, each[0]))
    report = {
        "files": index.count,
        "bytes": index.size,
        "left_out": [
            {"path": shown(path), "size": each.size, "reason": each.reason}
            for path, each in largest[:NAMED_AT_MOST]
        ],
        "left_out_in_all": len(left_out),
    }
    bucket.write(f"{keys.outputs_of(run)}{host}/report.json", json.dumps(report).encode())


def _rows(files: Mapping[str, Sent]) -> dict[str, list[Any]]:
    return {path: [*sent.seen, sent.version] for path, sent in files.items()}


def _of_rows(rows: Mapping[str, Any]) -> dict[str, Sent]:
    return {path: Sent(Seen(*map(int, row[:3])), str(row[3])) for path, row in rows.items()}
