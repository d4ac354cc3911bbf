"""Traces as text: their digest and their files."""

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
    """Yield each entry of the trace as a line of JSON."""
    for entry in trace:
        line = {"at": entry.at.isoformat(), "who": entry.who, "what": entry.what, "details": entry.details}
        yield IN_JSON(line)


def digest(trace: Iterable[Entry]) -> str:
    """Return the digest of the whole trace; it is equal for equal worlds."""
    found = hashlib.sha256()
    for line in trace_lines(trace):
        found.update(f"{line}\n".encode())
    return found.hexdigest()


def write_trace(path: Path, case: Case, trace: Sequence[Entry]) -> None:
    """Write the trace as JSON lines. The first line names the case."""
    head = {"trainyard trace": TRACE_VERSION, "of": str(case), "digest": digest(trace)}
    path.write_text("".join(f"{line}\n" for line in (json.dumps(head), *trace_lines(trace))))


def read_trace(path: Path) -> tuple[str, list[str]]:
    """Return the case and the lines of a trace. Raises BadInputError for a file that is not a trace of this
    version."""
    try:
        head, *lines = path.read_text().splitlines() or [""]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read as a trace: {error}") from error
    try:
        header = json.loads(head)
        version, of = header["trainyard trace"], str(header["of"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(f"{path} is not a trace: its first line is not the header of one") from error
    if version != TRACE_VERSION:
        raise BadInputError(
            f"{path} is a trace of version {version}, but version {TRACE_VERSION} is needed: write it again"
        )
    return of, lines
