"""Clean runs of a quick program with growing numbers of hosts: transitions, AWS calls, and times."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.support import quick
from tests.support.calls import calls, less
from trainyard.client import Event, Run, Yard
from trainyard.client.jobs.submission import begin

READ_PREFIXES = ("Describe", "List", "Get", "Query", "Scan", "BatchGet", "Head")
WATCHED_SECONDS = 20.0


@dataclass(frozen=True)
class Clean:
    """A run without failures."""

    hosts: int
    transitions: int
    calls: int
    calls_by_function: dict[str, int]
    launch_calls: int
    host_calls: int
    control_plane_seconds: float
    hosts_ready_seconds: float
    seconds: float


def clean_run(yard: Yard, hosts: int) -> Clean:
    """Submit a job for this many hosts, wait for its success, and count."""
    name = f"bench-{hosts}"
    before = calls(yard)
    job = quick.job(
        name,
        cluster={"workers": hosts},
        hardware={"max_dollars_per_hour": 50.0},
        limits={"dollars": 50},
        program={"args": {"steps": 100}},
    )
    begun = time.monotonic()
    key = f"jobs/{name}.json"
    upload = begin(yard.bucket, key, json.dumps(job).encode())
    uploaded = datetime.now(UTC)
    run = yard.run(upload.run).wait_for_start()
    run.result(seconds=600)
    made = less(calls(yard), before)
    control = {role: counts for role, counts in made.items() if is_function(role)}
    attempt = run.rows.attempts[1]
    timeline = run.timeline
    launched = attempt.launched
    ready, started = last(timeline, "ready", first_of_each=True), last(timeline, "started")
    return Clean(
        hosts=hosts,
        transitions=len(run.states),
        calls=sum(control_total(control).values()),
        calls_by_function={role: sum(counts.values()) for role, counts in sorted(control.items()) if counts},
        launch_calls=sum(
            sum(counts.values()) for role, counts in control.items() if "launch" in role.lower()
        ),
        host_calls=sum(sum(counts.values()) for role, counts in made.items() if is_host(role)),
        control_plane_seconds=round(seconds(uploaded, launched) + seconds(ready, started), 2),
        hosts_ready_seconds=seconds(launched, ready),
        seconds=round(time.monotonic() - begun, 2),
    )


def polling_calls(yard: Yard) -> int:
    """Return the control plane's polling calls during WATCHED_SECONDS of undisturbed training."""
    job = quick.job(
        "bench-quiet", program={"args": {"steps": 3000, "step-delay": 0.02, "checkpoint-every": 500}}
    )
    run = yard.start("train", {"job": job})
    while not has_started(run):
        if run.execution.is_over:
            raise RuntimeError(f"it ended early: {run.why()}")
        time.sleep(1)
    time.sleep(5)
    before = calls(yard)
    time.sleep(WATCHED_SECONDS)
    made = less(calls(yard), before)
    run.wait(seconds=300)
    looking: Counter[str] = Counter()
    for role, counts in made.items():
        if is_function(role):
            looking.update({action: times for action, times in counts.items() if is_polling(action)})
    return sum(looking.values())


def is_polling(action: str) -> bool:
    """Return True for reads of EC2 and Systems Manager. Reads of the ledger follow signals."""
    service, _, operation = action.partition(":")
    return service in ("ec2", "ssm") and operation.startswith(READ_PREFIXES)


def is_host(caller: str) -> bool:
    """Return True for the instance role and the roles of runs."""
    return ("host" in caller.lower() or "SignalRunRole" in caller) and "arn:" not in caller


def is_function(caller: str) -> bool:
    """Return True for roles of functions that work for one run.

    Patrol is excluded, because it runs once a minute anyway.
    """
    return caller.lower().startswith("trainyard") and not is_host(caller) and "patrol" not in caller.lower()


def control_total(control: dict[str, dict[str, int]]) -> Counter[str]:
    """Return the calls by action of all functions, without their own logging."""
    total: Counter[str] = Counter()
    for counts in control.values():
        total.update({action: times for action, times in counts.items() if not action.startswith("logs:")})
    return total


def last(timeline: tuple[Event, ...], event: str, *, first_of_each: bool = False) -> datetime:
    """Return the time of this signal from the last host. Repeated signals count once if requested."""
    times: dict[str, datetime] = {}
    for each in timeline:
        if each.event == event and not (first_of_each and each.instance in times):
            times[each.instance] = each.at
    return max(times.values())


def has_started(run: Run) -> bool:
    """Return True once a host has reported the start of its program."""
    return any(event.event == "started" for event in run.timeline)


def seconds(since: datetime, until: datetime) -> float:
    """Return the seconds between two times, at least 0."""
    return round(max(0.0, (until - since).total_seconds()), 2)
