"""Traces as texts: their digest, and their file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from simulation.cases.case import BadInputError, Case
from simulation.world.world import Entry

TRACE_VERSION = 1
IN_JSON = json.JSONEncoder(default=str, sort_keys=True).encode


def trace_lines(trace: Iterable[Entry]) -> Iterator[str]:
    """The trace as JSON, a line for each entry."""
    for entry in trace:
        line = {"at": entry.at.isoformat(), "who": entry.who, "what": entry.what, "details": entry.details}
        yield IN_JSON(line)


def digest(trace: Iterable[Entry]) -> str:
    """Of every byte of the trace: equal for equal worlds."""
    found = hashlib.sha256()
    for line in trace_lines(trace):
        found.update(f"{line}\n".encode())
    return found.hexdigest()


def write_trace(path: Path, case: Case, trace: Sequence[Entry]) -> None:
    """JSON lines; the first says what it is a trace of."""
    head = {"trainyard trace": TRACE_VERSION, "of": str(case), "digest": digest(trace)}
    path.write_text("".join(f"{line}\n" for line in (json.dumps(head), *trace_lines(trace))))


def read_trace(path: Path) -> tuple[str, list[str]]:
    """Which case it is of, and its lines. Raises BadInputError for anything but a trace of this version."""
    try:
        head, *lines = path.read_text().splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read as a trace: {error}") from error
    try:
        said = json.loads(head)
        version, of = said["trainyard trace"], str(said["of"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{path} is no trace: its first line does not say so") from error
    if version != TRACE_VERSION:
        raise BadInputError(
            f"{path} is a trace of version {version}; this is version {TRACE_VERSION}: make it anew"
        )
    return of, lines
