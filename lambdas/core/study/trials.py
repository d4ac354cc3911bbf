"""The job of a trial: the job of its study with the values of the trial. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from lambdas.core.run.warm_host import WarmHost
from trainyard.core.jobfile.study_rules import with_values
from trainyard.core.jobfile.written import as_file
from trainyard.core.model.job import MOST_KEPT, Job
from trainyard.core.model.study import Study
from trainyard.protocol.ledger.study import DrawnBy, TrialRow
from trainyard.protocol.trial import Trial
from trainyard.values import serialization

WARM_MINUTES = 3
"""How long the hosts of a trial wait for the next trial."""
WAITS = timedelta(minutes=WARM_MINUTES)
LEAST_HOURS = 1 / 60
COSTS_CHANGE = timedelta(minutes=10)
"""How long the cost of an ended trial may grow, because of its warm hosts."""
MOST_READ = 100
"""The most runs that a turn reads, which DynamoDB returns in one request. Open trials always count."""


def input_of(
    job: Job, study: Study, row: TrialRow, trial: Trial, *, trials: int, until: datetime, now: datetime
) -> dict[str, Any]:
    """Return the input of a trial's execution. The trial ends with its study at the latest, and costs at most its cap.
    Its hosts wait for the next trial, unless no trial follows it. `trials` is the number that ends the study."""
    document = with_values(as_file(serialization.to_json(job)), row.values)
    left = max((until - now).total_seconds() / 3600, LEAST_HOURS)
    limits = {"dollars": row.cap, "hours": min(job.limits.hours, left)}
    is_last = row.drawn_by is DrawnBy.RETRAIN  # early stopping compares trials that report the objective
    is_followed = not is_last and row.number <= trials - study.parallel
    warm = min(job.gang - job.cpu_gang, MOST_KEPT) if is_followed else 0
    return {
        "job": {
            **document,
            "limits": document["limits"] | limits,
            **({} if is_last else {"objective": serialization.to_json(study.objective)}),
            "pool": {"keep": warm, "minutes": WARM_MINUTES},
        },
        "trial": serialization.to_json(trial),
    }


def list_read(rows: Iterable[TrialRow], now: datetime) -> list[TrialRow]:
    """Return the trials whose runs a turn reads: the open ones, and the last ended ones whose cost may grow."""
    ended, read = list[tuple[datetime, TrialRow]](), list[TrialRow]()
    for row in rows:
        if row.reported is None:
            read.append(row)
        elif now - row.reported < COSTS_CHANGE:
            ended.append((row.reported, row))
    newest = sorted(ended, key=lambda each: each[0], reverse=True)
    return [*read, *(row for _, row in newest[: max(0, MOST_READ - len(read))])]


def reserve(ended: Mapping[str, tuple[datetime, float]], now: datetime) -> float:
    """Return the most that warm hosts of ended trials may still cost, from the end and the dollars an hour of each
    trial."""
    left = (max((at + WAITS - now).total_seconds(), 0.0) * price / 3600 for at, price in ended.values())
    return round(sum(left), 5)


def waiting_dollars(hosts: Iterable[WarmHost], now: datetime) -> float:
    """Return the dollars of warm hosts from the end of their trials until they leave the pool."""
    leave = ((host, host.until if host.ready else max(host.until, now + WAITS)) for host in hosts)
    return round(sum(host.dollars(max(until, now)) for host, until in leave), 5)
