"""The content of summary.json, written at the end of a run."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lambdas.core.capacity.cost import bill, dollars_of
from lambdas.core.run.conclusion.steps import resumed_at, walk
from lambdas.core.run.outcome import Conclusion
from lambdas.core.run.records import Records
from trainyard.core.model.job import Job
from trainyard.core.model.yard.billing import disk_hour
from trainyard.protocol import keys
from trainyard.protocol.ledger.attempt import AttemptRow, Ending
from trainyard.protocol.ledger.host import HostRow
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.protocol.storage import GET_DOLLARS
from trainyard.protocol.summary import (
    AttemptSummary,
    Cost,
    GangSize,
    Head,
    HostSummary,
    LeftOut,
    Outputs,
    Resume,
    RunSummary,
    Steps,
    WarmPool,
)
from trainyard.values import serialization
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import format_count
from trainyard.values.text import printable

LONG_METRICS = ("history", "samples", "scalars")
"""Keys of metrics.json that a summary omits."""
MOST_LEFT_OUT = 100
"""The most omitted files that a summary names."""
LONGEST_PATH = 1_100
LARGEST = 2**63
PLACES = {
    "model": "model/",
    "outputs": "outputs/",
    "metrics": "metrics.json",
    "checkpoints": "checkpoints/",
    "tensorboard": "tensorboard/",
    "notebook": "notebook/",
    "plan": "plan.json",
    "attempts": "attempts/",
}
LOG = re.compile(r"attempts/(?P<attempt>\d+)/logs/(?P<host>[^/]+)/")
"""A host's log in an attempt: the folder of its chunks."""


@dataclass(frozen=True, kw_only=True)
class EndedRun:
    """A run at its end."""

    run: str
    bucket: str
    records: Records | None
    """None for a run that Admit could not write."""
    conclusion: Conclusion
    now: datetime
    warnings: tuple[str, ...] = ()
    """Problems of the run's end, a sentence each."""

    @property
    def row(self) -> RunRow | None:
        return self.records.run if self.records else None

    @property
    def job(self) -> Job | None:
        return self.records.job if self.records else None

    @property
    def attempts(self) -> tuple[AttemptRow, ...]:
        return tuple(row for _, row in sorted(self.records.attempts.items())) if self.records else ()

    @property
    def hosts(self) -> tuple[HostRow, ...]:
        return tuple(self.records.hosts.values()) if self.records else ()

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """Return these warnings, the warnings of the admission, and hosts that are missing on the bill."""
        admitted = self.row.warnings if self.row else ()
        return tuple(dict.fromkeys((*admitted, *self.warnings, *self._unbilled)))

    @property
    def but(self) -> tuple[str, ...]:
        """Return the doubts about a successful run, a sentence each."""
        if self.conclusion.outcome is not Outcome.SUCCEEDED:
            return ()
        return next((row.but for row in reversed(self.attempts) if row.ending is Ending.FINISHED), ())

    @property
    def _unbilled(self) -> Iterator[str]:
        """Warn of hosts without a row. The host of a snapshot is on the bill of its own run."""
        named = {host for attempt in self.attempts for host in attempt.hosts}
        lost = sorted(named - {host.instance for host in self.hosts})
        if lost and self.row and self.row.kind != "snapshot":
            yield f"The cost lacks {', '.join(lost)}: their rows are not in the ledger any more"

    @property
    def folder(self) -> str:
        return f"s3://{self.bucket}/{keys.run(self.run)}"


def head(ended: EndedRun) -> Head:
    """Return the fields of every summary."""
    row, how = ended.row, ended.conclusion
    created = row.created if row else ended.now
    return {
        "run": ended.run,
        "outcome": how.outcome.value,
        "but": list(ended.but),
        "reason": how.reason,
        "error": how.error,
        "created": serialization.timestamp(created),
        "ended": serialization.timestamp(ended.now),
        "seconds": _seconds(created, ended.now),
        "execution_arn": row.execution_arn if row else None,
    }


def summarise(
    ended: EndedRun,
    *,
    objects: Collection[str],
    metrics: Mapping[str, Any] | None = None,
    outputs: Iterable[Mapping[str, Any]] = (),
) -> RunSummary:
    """Return the content of summary.json (keys: docs/contracts/bucket.md). `objects` are the keys that the run left
    in the bucket; `metrics` is metrics.json; `outputs` are the hosts' reports about their outputs."""
    row, hosts, metrics = ended.row, sorted(ended.hosts, key=lambda host: host.launched), metrics or {}
    steps, kept = _steps(ended, metrics), outputs_of(outputs)
    restores = bool(kept["files"] and ended.job and ended.job.outputs.are_restored())
    return {
        **head(ended),
        "job": ended.job.name if ended.job else None,
        "job_key": row.job_key if row else None,
        "submitter": row.submitter if row else None,
        "requester": row.requester if row else None,
        "labels": dict(row.labels) if row else {},
        "origin": serialization.to_json(ended.job.origin) if ended.job and ended.job.origin.commit else None,
        "warnings": list(ended.all_warnings),
        "restarts": max(0, len(ended.attempts) - 1),
        "attempts": attempts(ended, reached=steps["done"]),
        "sizes": sizes(ended.attempts),
        "steps": steps,
        "metrics": {key: value for key, value in metrics.items() if key not in LONG_METRICS},
        "outputs": kept,
        "resume": resume(ended.attempts, from_outputs=restores),
        "cost": _cost(ended, hosts),
        "findings": [*row.findings.values(), *([row.limited] if row.limited else [])] if row else [],
        "pool": _pool(ended, hosts),
        "hosts": [_host(host, ended.now) for host in hosts],
        "image": (row.image or None) if row else None,
        "where": locations(ended, objects),
    }


def resume(ordered: Sequence[AttemptRow], *, from_outputs: bool = False) -> Resume:
    """Return the proof of resume: where each restart continued, how many steps were trained twice, and whether the
    checkpoints were whole (None if there was none, or if a program did not report it). With `from_outputs` a restart
    without a checkpoint began with outputs, whose step is unknown: None."""
    restarts = [attempt for attempt in ordered[1:] if attempt.started]
    restored = [attempt for attempt in restarts if attempt.resumed or attempt.from_step]
    verified = [attempt.resumed.get("verified") if attempt.resumed else None for attempt in restored]
    steps = [None if from_outputs and each not in restored else resumed_at(each) for each in restarts]
    return {
        "attempts": len(ordered),
        "resumed_at": steps,
        "steps_lost": None if None in steps else walk(ordered).lost,
        "verified": False if False in verified else True if verified and None not in verified else None,
        "restores": [dict(attempt.resumed) for attempt in restarts if attempt.resumed],
    }


def outputs_of(reports: Iterable[Mapping[str, Any]]) -> Outputs:
    """Return how many files of the working folders are in the outputs, their bytes, and the omitted files, largest
    first. Programs may write into the reports, so entries of another type are skipped."""
    files = size = more = 0
    left_out: list[LeftOut] = []
    for report in reports:
        files, size = files + _count(report.get("files")), size + _count(report.get("bytes"))
        named = report.get("left_out")
        found = [each for each in named if isinstance(each, Mapping)] if isinstance(named, list) else []
        left_out += [
            {
                "path": printable(str(each.get("path")), LONGEST_PATH),
                "size": _count(each.get("size")),
                "reason": printable(str(each.get("reason")), LONGEST_PATH),
            }
            for each in found
        ]
        more += max(0, _count(report.get("left_out_in_all")) - len(found))
    left_out.sort(key=lambda each: (-each["size"], each["path"]))
    more += max(0, len(left_out) - MOST_LEFT_OUT)
    return {"files": files, "bytes": size, "left_out": left_out[:MOST_LEFT_OUT], "left_out_more": more}


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST else 0


def sizes(ordered: Sequence[AttemptRow]) -> list[GangSize]:
    """Return the number of hosts over time: one entry for each change, with its reason."""
    found: list[GangSize] = []
    for before, each in zip([None, *ordered], ordered, strict=False):
        if not found or found[-1]["hosts"] != len(each.hosts):
            why = (before.reason if before else None) or "what there was at the start"
            at = serialization.timestamp(each.launched)
            found.append({"attempt": each.attempt, "at": at, "hosts": len(each.hosts), "reason": why})
    return found


def locations(ended: EndedRun, objects: Collection[str], below: Mapping[str, str] = PLACES) -> dict[str, str]:
    """Return the s3 URIs of what the run left."""
    folder = keys.run(ended.run)
    found = {"folder": ended.folder}
    for what, name in below.items():
        if any(key.startswith(f"{folder}{name}") for key in objects):
            found[what] = f"{ended.folder}{name}"
    last_log = _last_log(key.removeprefix(folder) for key in objects)
    if last_log:
        found["last_log"] = f"{ended.folder}{last_log}"
    return found


def _last_log(names: Iterable[str]) -> str:
    """Return the chief's log of the last attempt, or the nearest one; "" if there is none."""
    logs = filter(None, map(LOG.match, sorted(names)))
    last = max(logs, key=lambda log: (int(log["attempt"]), log["host"].startswith("chief-")), default=None)
    return last[0] if last else ""


def attempts(ended: EndedRun, *, reached: int | None = None) -> list[AttemptSummary]:
    """Return each attempt with its first and last step. An attempt reached at least the step where the next one
    resumed; the last one, if it finished, the step `reached`."""
    last = reached if ended.attempts and ended.attempts[-1].ending is Ending.FINISHED else None
    following = [*(each.from_step for each in ended.attempts[1:]), last]
    return [
        _attempt(each, at_least, ended.now) for each, at_least in zip(ended.attempts, following, strict=False)
    ]


def _attempt(row: AttemptRow, at_least: int | None, now: datetime) -> AttemptSummary:
    begin = row.from_step or 0
    steps = (row.last_step, at_least if at_least and at_least >= begin else None)
    return {
        "attempt": row.attempt,
        "pool": row.pool,
        "hosts": list(row.hosts),
        "launched": serialization.timestamp(row.launched),
        "gang_ready": serialization.to_json(row.gang_ready),
        "started": serialization.to_json(row.started),
        "ended": serialization.to_json(row.ended),
        "ending": row.ending,
        "reason": row.reason,
        "from_step": begin,
        "to_step": max((step for step in steps if step is not None), default=None),
        "seconds": _seconds(row.launched, row.ended or now),
    }


def _steps(ended: EndedRun, metrics: Mapping[str, Any]) -> Steps:
    """Return the steps done and planned, as the program wrote them last, else from the hosts' reports."""
    progress = (ended.row.progress if ended.row else None) or {}
    done, planned = metrics.get("step"), metrics.get("steps")
    return {
        "done": walk(ended.attempts).done if done is None else done,
        "planned": progress.get("steps") if planned is None else planned,
    }


def _cost(ended: EndedRun, hosts: Sequence[HostRow]) -> Cost:
    """Return dollars and hours by market, the on-demand cost of these hours, and the region of the prices."""
    total, plan = bill(hosts, now=ended.now), ended.records.plan if ended.records else None
    percent = None
    if total.saved_dollars is not None and total.on_demand_dollars:
        percent = round(100 * total.saved_dollars / total.on_demand_dollars, 1)
    return {
        "dollars": total.dollars,
        "hours": total.hours,
        "by_market": {
            market: {"dollars": dollars, "hours": total.hours_by_market[market]}
            for market, dollars in total.dollars_by_market.items()
        },
        "on_demand_dollars": total.on_demand_dollars,
        "saved_dollars": total.saved_dollars,
        "saved_percent": percent,
        "prices": (plan.prices or None) if plan else None,
        "counts": _counts(sum(host.gets for host in hosts)),
    }


def _counts(gets: int) -> str:
    """Return what the dollars contain. `gets` are the requests of streamed data."""
    hours = "instance hours and their root disks with their initialization"
    if not gets:
        return f"{hours}, not storage, requests or transfer"
    streamed = f"{format_count(gets, 'GET request')} of streamed data (${gets * GET_DOLLARS:.4f})"
    return f"{hours}, and {streamed}, not storage, other requests or transfer"


def _pool(ended: EndedRun, hosts: Iterable[HostRow]) -> WarmPool:
    """Return the hosts that the run retains in the warm pool with what they may cost, and the hosts that it claimed
    from the pool. The cost of retained hosts is added to the run's row when they leave the pool."""
    job = ended.job
    kept = [host for host in hosts if host.pooled]
    hours = job.pool.minutes / 60 if job else 0.0
    hourly = sum(host.price + disk_hour(host.disk_gib, host.gib_month) for host in kept)
    return {
        "retained": [host.instance for host in kept],
        "minutes": job.pool.minutes if job and kept else None,
        "most_dollars": round(hours * hourly, 5),
        "claimed": [host.instance for host in hosts if host.claimed_from],
    }


def _host(host: HostRow, now: datetime) -> HostSummary:
    return {
        "instance": host.instance,
        "type": host.type,
        "zone": host.zone,
        "market": host.market,
        "price": host.price,
        "on_demand_price": host.on_demand_price,
        "disk_gib": host.disk_gib,
        "gib_month": host.gib_month,
        "volume_charge": host.volume_charge,
        "launched": serialization.timestamp(host.launched),
        "ended": serialization.to_json(host.ended),
        "seconds": _seconds(host.launched, host.ended or now),
        "dollars": dollars_of(host, now=now),
        "faulty": host.faulty,
    }


def _seconds(begin: datetime, end: datetime) -> float:
    return round(max(0.0, (end - begin).total_seconds()), 3)
