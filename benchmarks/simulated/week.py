"""A simulated week of 1,000 training runs a day under AWS's request rates: requests, throttling, functions, dollars.

All runs must end well and all invariants must hold. All runs of the first day are submitted in one second to reach the
limits, and later runs come at random times. Every run, host and pass of patrol is simulated in full. Programs
take 20 s, so few hosts exist at a time except in the rush. growth.py measures the cost of many hosts.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import typer

from simulation import assembly
from simulation.aws.ec2 import Pools
from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.aws.endpoint.rates import CONCURRENCY, Throttle
from simulation.aws.stepfunctions import Status
from simulation.cases import process
from simulation.faults import Fault, Kind, Plan, Visit
from simulation.invariants.oracle import Oracle
from simulation.scenario import Scenario, job
from simulation.template import YardTemplate
from simulation.world.world import World
from simulation.yard import Yard

DAYS, RUNS_A_DAY, HOSTS = 7, 1_000, 2
RUSH = timedelta(hours=1)
"""Time of the rush, when all runs of the first day are submitted."""
FOLLOW_UP = timedelta(hours=2)
"""Time for the last runs to end and for patrol to follow."""
PROGRAM = {"module": "training.programs.digits", "args": {"steps": 2, "step-seconds": 10.0}}
CLUSTER = {"strategy": "multi_worker", "workers": HOSTS}
MEMORY_GIB = 0.5
DOLLARS = {
    "transition": 25e-6,
    "lambda_request": 0.2e-6,
    "lambda_gb_second": 13.3334e-6,
    "event": 1e-6,
    "write": 0.625e-6,
    "read": 0.125e-6,
    "put": 5e-6,
    "get": 0.4e-6,
    "metric": 10e-6,
}
"""Prices in us-east-1 in 2026, with functions on arm64. The free tier is not deducted."""


@dataclass(frozen=True)
class RequestCounts:
    """Requests of one kind from functions and hosts."""

    mean_hour: float
    worst_hour: int
    worst_second: int
    throttled: int


@dataclass(frozen=True)
class Week:
    """Results of the week.

    `broken` describes violated invariants. Seconds of a run are from its start to its end, for the rush and for the
    others. `dollars` is the cost of the control plane including patrol, without hosts and disks.
    """

    days: float
    runs: int
    succeeded: int
    attempts: int
    broken: list[str]
    most_hosts: int
    requests: dict[str, RequestCounts]
    functions_at_once: int
    functions_throttled: int
    invocations: dict[str, int]
    dead_letters: list[str]
    transitions: int
    most_transitions: int
    written: float
    read: float
    most_written: float
    most_read: float
    usual_seconds: float
    rush_seconds: float
    slowest_seconds: float
    dollars: float
    cpu_seconds: float


class NothingFails(Plan):
    """Fault injection without faults. It stores no fault points, because a week has millions."""

    def at(self, kind: Kind, point: str, visit: Visit | None = None) -> list[Fault]:
        return []


class Meter:
    """Counts every request by hour and by second, before the throttle, with the capacity that the second used."""

    def __init__(self, yard: Yard) -> None:
        self.throttle = Throttle(yard.world)
        self.hours: dict[str, Counter[int]] = {}
        self.worst_second: Counter[str] = Counter()
        self.most: dict[str, float] = {}
        """Peak of ledger units and state transitions in one second."""
        self.metrics = self.most_hosts = 0
        self.function_seconds = 0.0
        self._yard, self._begin, self._at = yard, yard.world.now, yard.world.now
        self._second: Counter[str] = Counter()
        self._used = self._uses()
        yard.gateway.throttle = self.ask
        yard.world.on_time.append(self._go_on)
        yard.ec2.on_change.append(self._count_hosts)

    def ask(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> ServiceError | None:
        hour = int((self._yard.world.now - self._begin).total_seconds()) // 3600
        self.hours.setdefault(operation, Counter())[hour] += 1
        self._second[operation] += 1
        self.metrics += len(request.get("MetricDataQueries", ()))
        return self.throttle(caller, operation, request)

    def requests(self, hours: float) -> dict[str, RequestCounts]:
        """Return the requests by operation, most frequent first."""
        ranked = sorted(self.hours.items(), key=lambda item: -item[1].total())
        return {
            name: RequestCounts(
                mean_hour=round(by_hour.total() / hours, 1),
                worst_hour=max(by_hour.values()),
                worst_second=self.worst_second[name],
                throttled=self.throttle.refused[name],
            )
            for name, by_hour in ranked
        }

    def _uses(self) -> dict[str, float]:
        capacity, executions = self._yard.dynamodb.capacity, self._yard.stepfunctions
        return {
            "written": capacity.written,
            "read": capacity.read,
            "transitions": executions.transitions,
        }

    def _go_on(self, now: datetime) -> None:
        self.function_seconds += len(self._yard.functions.running) * (now - self._at).total_seconds()
        if int(now.timestamp()) != int(self._at.timestamp()) and self._second:
            self.worst_second |= self._second
            used = self._uses()
            self.most = {
                what: max(self.most.get(what, 0.0), now_used - self._used[what])
                for what, now_used in used.items()
            }
            self._used = used
            self._second.clear()
        self._at = now

    def _count_hosts(self, _: object) -> None:
        live = sum(self._yard.ec2.pools.used.values())
        self.most_hosts = max(self.most_hosts, live)


def week(template: YardTemplate, *, days: float = DAYS, runs_a_day: int = RUNS_A_DAY) -> Week:
    """Simulate one world. Less than one day simulates only the rush, with that share of the runs."""
    began = time.process_time()
    world = World(1)
    yard = Yard(world, template.with_limits(most_runs=0, most_hosts=0), NothingFails())
    without_quotas(yard.ec2.pools)
    yard.functions.concurrency = CONCURRENCY
    meter = Meter(yard)
    oracle = Oracle(yard, Scenario("week", "", lambda _: None, gang=HOSTS))
    rush = round(runs_a_day * min(days, 1))
    uploads = [RUSH.total_seconds()] * rush + later(days, runs_a_day, world.chance("uploads"))
    for number, at in enumerate(uploads):
        body = job(f"run{number}", CLUSTER, program=PROGRAM)
        yard.after(at, functools.partial(yard.people.upload, f"jobs/{number}.json", body), "an upload")
    length = timedelta(days=days) + FOLLOW_UP
    with contextlib.redirect_stdout(io.StringIO()):
        world.run(world.now + length)
        broken = oracle.conclude()
    runs = [each for each in yard.runs() if each.machine is yard.template.machine("train")]
    took = [((each.stopped or world.now) - each.started).total_seconds() for each in runs]
    return Week(
        days=days,
        runs=len(uploads),
        succeeded=sum(each.status is Status.SUCCEEDED for each in runs),
        attempts=sum(len(yard.clusters(each.name)) for each in runs),
        broken=[f"{each.invariant}: {each.what}" for each in broken],
        most_hosts=meter.most_hosts,
        requests=meter.requests(length.total_seconds() / 3600),
        functions_at_once=yard.functions.most_at_once,
        functions_throttled=yard.functions.throttled,
        invocations={name.partition("-")[2]: count for name, count in yard.functions.counts.most_common()},
        dead_letters=[
            f"{name}: {payload.get('detail-type', '')}" for name, payload in yard.functions.dead_letters
        ]
        + [f"{letter.rule}: {letter.error}" for letter in yard.events.dead_letters],
        transitions=yard.stepfunctions.transitions,
        most_transitions=round(meter.most["transitions"]),
        written=yard.dynamodb.capacity.written,
        read=yard.dynamodb.capacity.read,
        most_written=meter.most["written"],
        most_read=meter.most["read"],
        usual_seconds=round(statistics.median(took[rush:] or took), 1),
        rush_seconds=round(statistics.median(took[:rush]), 1),
        slowest_seconds=round(max(took), 1),
        dollars=round(dollars(yard, meter), 4),
        cpu_seconds=round(time.process_time() - began, 1),
    )


def without_quotas(pools: Pools) -> None:
    """Remove vCPU quotas, because this measures request rates."""
    pools.quotas = dict.fromkeys(pools.quotas, 1e9)


def later(days: float, runs_a_day: int, chance: random.Random) -> list[float]:
    """Return the submission times of all days except the first, in seconds after the start."""
    count = round(runs_a_day * max(days - 1, 0))
    return sorted(chance.uniform(86_400, days * 86_400) for _ in range(count))


def dollars(yard: Yard, meter: Meter) -> float:
    """Return AWS's price for everything except hosts and disks."""
    calls = yard.gateway.calls
    used = {
        "transition": yard.stepfunctions.transitions,
        "lambda_request": yard.functions.counts.total(),
        "lambda_gb_second": meter.function_seconds * MEMORY_GIB,
        "event": calls["events.put_events"],
        "write": yard.dynamodb.capacity.written,
        "read": yard.dynamodb.capacity.read,
        "put": calls["s3.put_object"] + calls["s3.list_objects_v2"],
        "get": calls["s3.get_object"],
        "metric": meter.metrics,
    }
    return sum(count * DOLLARS[name] for name, count in used.items())


def main(days: float = DAYS, runs_a_day: int = RUNS_A_DAY) -> None:
    """Simulate in a separate process and print the Week as JSON."""
    process.restart_as_needed()
    template = process.prepare(assembly.find_assembly())
    print(json.dumps(asdict(week(template, days=days, runs_a_day=runs_a_day))))


if __name__ == "__main__":
    typer.run(main)
