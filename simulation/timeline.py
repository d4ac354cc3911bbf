"""The trace of a world for a reader: time, source, event and reason. Hosts get short names; repetitions are merged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from simulation.world.world import BEGINNING, Entry
from trainyard.protocol.timeline import Source

if TYPE_CHECKING:
    from simulation.yard import Yard

INSTANCE = re.compile(r"\bi-(0[0-9a-f]{16})\b")
REPEATED = ("sends progress", "sends ready", "cannot put metrics")
INJECTION_NOTE = re.compile(r"fault [A-Z]")
"""A host's own note of an injected fault, which repeats the note of the injection."""
EXECUTION = re.compile(r"\w+-\w+ (\S+)")
"""`trainyard-train two-cf1324de`: only the run's name is shown."""
LONGEST_DETAIL = 600


class Sort(StrEnum):
    """The subject of a line, which sets its color."""

    FAULT = "fault"
    BROKEN = "broken"
    STATE = "state"
    DECISION = "decision"
    HOST = "host"
    TROUBLE = "trouble"
    AWS = "aws"


@dataclass(frozen=True)
class Line:
    seconds: float
    """Seconds since the beginning of the world."""
    clock: str
    who: str
    what: str
    why: str
    sort: Sort


@dataclass(frozen=True)
class Decision:
    """A decision in the timeline of a run, with its reason."""

    at: datetime
    run: str
    what: str
    reason: str
    attempt: int | None


def decisions(yard: Yard) -> list[Decision]:
    """Return the timeline of every run in the ledger, without the signals of hosts."""
    table = yard.template.table.name
    rows = [
        (each.name, row) for each in yard.runs() for row in yard.dynamodb.rows(table, f"timeline#{each.name}")
    ]
    return [_decision(run, row) for run, row in rows if _is_decision(row)]


def _is_decision(row: Mapping[str, Any]) -> bool:
    return row.get("source") != Source.HOST


def _decision(run: str, row: Mapping[str, Any]) -> Decision:
    attempt = row.get("attempt")
    return Decision(
        datetime.fromisoformat(str(row["at"])),
        run,
        str(row["event"]),
        str(row.get("reason") or ""),
        None if attempt is None else int(attempt),
    )


def build_lines(trace: Sequence[Entry], decided: Sequence[Decision] = ()) -> list[Line]:
    """Return the lines of a trace and of decisions in order of time."""
    entries = (entry for entry in trace if not INJECTION_NOTE.match(entry.what))
    lines = [_entry_line(entry) for entry in entries] + [_decision_line(each) for each in decided]
    return list(_merge_repeats(sorted(lines, key=lambda line: line.seconds)))


def _entry_line(entry: Entry) -> Line:
    return Line(
        (entry.at - BEGINNING).total_seconds(),
        f"{entry.at:%H:%M:%S}",
        EXECUTION.sub(r"\1", with_numbers(entry.who)),
        with_numbers(entry.what),
        with_numbers(_details(entry.details)),
        _sort(entry),
    )


def _decision_line(decision: Decision) -> Line:
    attempt = f" (attempt {decision.attempt})" if decision.attempt else ""
    return Line(
        (decision.at - BEGINNING).total_seconds(),
        f"{decision.at:%H:%M:%S}",
        decision.run,
        f"{decision.what}{attempt}",
        with_numbers(decision.reason),
        Sort.DECISION,
    )


def _sort(entry: Entry) -> Sort:
    what = entry.what
    if what.startswith("fault: "):
        return Sort.FAULT
    if entry.who == "oracle":
        return Sort.BROKEN
    if what.startswith(("catches ", "fails", "gives up", "is denied", "cannot", "dies")):
        return Sort.TROUBLE
    if what.startswith(("enters ", "starts", "ends: ")):
        return Sort.STATE
    return Sort.HOST if INSTANCE.fullmatch(entry.who) else Sort.AWS


def _details(details: Mapping[str, Any]) -> str:
    """Return `key value` for each detail. A JSON cause is replaced by its reason."""
    return "; ".join(
        _detail(name, value) for name, value in details.items() if value not in (None, "", [], {})
    )


def _detail(name: str, value: Any) -> str:
    if name in ("cause", "because"):
        return _reason(str(value))
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return f"{name} {value}"[:LONGEST_DETAIL]


def _reason(cause: str) -> str:
    found = re.match(r'\{"reason": "((?:[^"\\]|\\.)*)', cause)
    if found:
        return found[1]
    try:
        parsed = json.loads(cause)
    except ValueError:
        return cause[:LONGEST_DETAIL]
    return str(parsed.get("errorMessage", cause))[:LONGEST_DETAIL] if isinstance(parsed, dict) else cause


def with_numbers(text: str) -> str:
    """Return the text on one line, with `host-1` for `i-00000000000000001`."""
    return INSTANCE.sub(lambda found: f"host-{int(found[1], 16)}", " ".join(text.split()))


def _merge_repeats(lines: Iterable[Line]) -> Iterator[Line]:
    """Merge repetitions by one source into one line if nothing else happened in between."""
    held: Line | None = None
    times = 1
    for line in lines:
        if held and _is_repeat(held, line):
            held, times = replace(held, why=line.why), times + 1
            continue
        if held:
            yield _add_count(held, times)
        held, times = line, 1
    if held:
        yield _add_count(held, times)


def _is_repeat(before: Line, line: Line) -> bool:
    """Return True for a repeated signal of a host, or the same failure of the next invocation of a function."""
    if (before.who.partition("#")[0], before.what) != (line.who.partition("#")[0], line.what):
        return False
    return line.what in REPEATED or (line.sort is Sort.TROUBLE and before.why == line.why)


def _add_count(line: Line, times: int) -> Line:
    if times == 1:
        return line
    why = f"last: {line.why}" if line.what in REPEATED else line.why
    return replace(line, what=f"{line.what}, {times} times", why=why)


def since_begin(seconds: float) -> str:
    """Return `1:02:03.4` or `02:03.4`."""
    minutes, rest = divmod(round(max(seconds, 0.0), 1), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{rest:04.1f}" if hours else f"{minutes:02}:{rest:04.1f}"
