"""One pass of patrol as rows for the ledger and figures for the dashboard. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lambdas.core.patrol.judgement import ObservedHost
from trainyard.protocol.ledger.yard import VerdictRow
from trainyard.protocol.verdicts import ACTS, Action
from trainyard.values import serialization
from trainyard.values.quantities import format_count

MOST_PROBLEMS = 10
MOST_NAMED = 3


def problems(hosts: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return a line for each problem with the names of its hosts, the most frequent problem first."""
    often = sorted(hosts, key=lambda problem: (-len(hosts[problem]), problem))
    lines = [f"{_some(hosts[problem])}: {problem}" for problem in often[:MOST_PROBLEMS]]
    more = len(often) - MOST_PROBLEMS
    return (*lines, f"and {more} more faults in tags of hosts") if more > 0 else tuple(lines)


def figures(
    hosts: Iterable[ObservedHost],
    rows: Iterable[VerdictRow],
    *,
    peaks: Mapping[str, float],
    live: int,
    month_dollars: float,
    now: datetime,
) -> dict[str, Any]:
    """Return one pass in numbers. The dashboard's queries read them from the function's log."""
    hosts, rows = list(hosts), list(rows)
    states = Counter(host.state for host in hosts)
    done = [each for each in rows if each.outcome == "done"]
    return {
        "at": serialization.timestamp(now),
        "running": states["running"] + states["pending"],
        "stopped": states["stopped"],
        "going": len(hosts) - states["running"] - states["pending"] - states["stopped"],
        "in_runs": sum(host.live for host in hosts),
        "executions": live,
        "dollars_per_hour": round(
            sum(host.price for host in hosts if host.state in ("running", "pending")), 4
        ),
        "dollars_per_hour_saved": round(sum(each.saves for each in done), 4),
        "dollars_this_month": round(month_dollars, 2),
        "looked_at": len(peaks),
        "busy_percent": round(sum(peaks.values()) / len(peaks), 1) if peaks else None,
        **{f"{action}s": sum(each.verdict.action is action for each in done) for action in ACTS},
        "warns": sum(each.verdict.action is Action.WARN for each in rows),
        "refused": sum(each.outcome == "refused" for each in rows),
        "deferred": sum(each.outcome == "deferred" for each in rows),
    }


def _some(ids: Sequence[str]) -> str:
    shown = ", ".join(sorted(ids)[:MOST_NAMED])
    return shown if len(ids) <= MOST_NAMED else f"{format_count(len(ids), 'host')} ({shown}, ...)"
