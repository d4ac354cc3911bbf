"""What patrol tells people: the notice of one pass, a day's summary, the line that the dashboard is made of. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lambdas.core.patrol.judgement import Facts
from lambdas.core.patrol.verdict import Archive, Stop
from trainyard.command_line import command_line
from trainyard.core.model import names
from trainyard.values import wire
from trainyard.values.lazy import dataclass

MOST_LINES = 40
MOST_PROBLEMS = 10
MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    """A verdict as the ledger has it. `outcome`: done, refused, deferred, or nothing for one that acts on nothing.
    `until`: from when on its reason is untrue, if that is known."""

    instance: str
    at: datetime
    verdict: str
    reason: str
    type: str
    market: str
    price: float
    until: datetime | None = None
    saves: float = 0.0
    run: str | None = None
    outcome: str | None = None
    refusal: str | None = None
    dev: str | None = None


def problems(hosts: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A line for each thing that is wrong with hosts, those that it is wrong with named, the most frequent first."""
    often = sorted(hosts, key=lambda problem: (-len(hosts[problem]), problem))
    lines = [f"{_some(hosts[problem])}: {problem}" for problem in often[:MOST_PROBLEMS]]
    more = len(often) - MOST_PROBLEMS
    return (*lines, f"and {more} other things are wrong with tags of hosts") if more > 0 else tuple(lines)


def notice(rows: Sequence[VerdictRow], warnings: Sequence[str], *, yard: str) -> tuple[str, str] | None:
    """Subject and text for whoever subscribed; None where nothing happened."""
    notable = [each for each in rows if each.outcome or each.verdict.startswith("warn")]
    if not notable and not warnings:
        return None
    done = [each for each in notable if each.outcome == "done"]
    what = _counted(each.verdict for each in done) or (
        "a warning" if warnings else f"{len(notable)} to look at"
    )
    savings = sum(each.saves for each in done)
    subject = f"Trainyard {yard}: {what}" + (f", ${savings:.2f} an hour less" if savings else "")
    lines = [*warnings, *(_line(each) for each in notable[:MOST_LINES])]
    if len(notable) > MOST_LINES:
        lines.append(f"and {len(notable) - MOST_LINES} more, all in the ledger")
    return subject.encode("ascii", "replace").decode()[:100], "\n".join(lines) + "\n"


def day(
    verdicts: Iterable[Mapping[str, Any]], *, yard: str, date: str, month: str, dollars: float
) -> tuple[str, str]:
    """Subject and text of the daily summary; `dollars` is what the month has cost so far."""
    done = [each for each in verdicts if each.get("outcome") == "done"]
    refused = {each["instance"] for each in verdicts if each.get("outcome") == "refused"}
    savings = sum(float(each.get("saves") or 0) for each in done)
    counts = _counted(str(each["verdict"]) for each in done)
    lines = [
        f"{date}: {counts or 'patrol ended nothing'}.",
        f"What was ended cost ${savings:.2f} an hour."
        if done
        else "Every host was needed, or there was none.",
        f"Refused by AWS and tried again: {', '.join(sorted(refused))}."
        if refused
        else "Nothing was refused.",
        f"Instance hours of {month} until now: ${dollars:.2f}.",
        *(
            f"{each['at']} {each['verdict']} {each['instance']}: {each['reason']}"
            for each in done[:MOST_LINES]
        ),
    ]
    return f"Trainyard {yard}: the day {date}", "\n".join(lines) + "\n"


def figures(
    hosts: Iterable[Facts],
    rows: Iterable[VerdictRow],
    *,
    peaks: Mapping[str, float],
    live: int,
    month_dollars: float,
    now: datetime,
) -> dict[str, Any]:
    """One pass in numbers, which the dashboard's queries read from the function's log."""
    hosts, rows = list(hosts), list(rows)
    states = Counter(host.state for host in hosts)
    done = [each for each in rows if each.outcome == "done"]
    return {
        "at": wire.stamp(now),
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
        **{
            f"{word}s": sum(each.verdict.startswith(word) for each in done)
            for word in ("stop", "archive", "terminate")
        },
        "warns": sum(each.verdict.startswith("warn") for each in rows),
        "refused": sum(each.outcome == "refused" for each in rows),
        "deferred": sum(each.outcome == "deferred" for each in rows),
    }


def _some(ids: Sequence[str]) -> str:
    shown = ", ".join(sorted(ids)[:MOST_NAMED])
    return shown if len(ids) <= MOST_NAMED else f"{len(ids)} hosts ({shown}, ...)"


def _line(each: VerdictRow) -> str:
    """One host in one line."""
    verb = each.verdict.partition("-")[0]
    what = f"{each.type}, {each.market}, ${each.price:.4f} an hour"
    run = f" of {each.run}" if each.run else ""
    still = {
        "refused": f" REFUSED ({each.refusal}), tried again in a minute",
        "deferred": " (waits for a second look)",
    }.get(each.outcome or "", "")
    back = _way_back(each, verb) if each.outcome == "done" else ""
    return f"{verb} {each.instance} ({what}){run}{still}: {each.reason}{back}"


def _way_back(each: VerdictRow, verb: str) -> str:
    """How somebody who wants the host gets it again."""
    if each.dev and verb in (Stop.kind, Archive.kind):
        return f". To go on: {command_line('dev', 'up', each.dev)}"
    if verb == Stop.kind:
        return f". To go on: aws ec2 start-instances --instance-ids {each.instance}"
    if verb == Archive.kind:
        archive = names.archive(each.instance, each.at)
        return f'. To go on, once the snapshot {archive} has ended: the launch workflow with {{"run": "{archive}"}}'
    return ""


PAST = {"stop": "stopped", "archive": "archived", "terminate": "terminated"}


def _counted(verdicts: Iterable[str]) -> str:
    counts = Counter(verdict.partition("-")[0] for verdict in verdicts)
    return ", ".join(
        f"{count} host{'' if count == 1 else 's'} {PAST[word]}" for word, count in counts.items()
    )
