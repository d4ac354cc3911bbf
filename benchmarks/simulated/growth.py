"""Growth of the control plane from 100 to 100,000 hosts: a pass of patrol, and a run of two hosts.

Half of the hosts are in runs of ten, whose executions only wait. The others are held by their job and work. None has a
machine. CPU seconds on this machine are for functions and the simulated AWS together.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from benchmarks.simulated.week import CLUSTER, PROGRAM, NothingFails, without_quotas
from lambdas.aws.dynamodb.rows import OPEN
from lambdas.aws.dynamodb.serialization import pack_row
from simulation import assembly
from simulation.aws.ec2 import Instance
from simulation.aws.endpoint.api import Caller, ServiceError
from simulation.aws.endpoint.rates import Throttle
from simulation.aws.functions import Invocation, LambdaFailure
from simulation.aws.stepfunctions import Execution, Status
from simulation.cases import process
from simulation.scenario import job
from simulation.template import YardTemplate
from simulation.world.world import World
from simulation.yard import GPU_METRIC, Yard
from trainyard.protocol.tags import Tag

SIZES = (100, 1_000, 10_000, 100_000)
GANG = 10
QUIET_PERIOD = timedelta(minutes=50)
"""Time until a host's grace period and usage window have passed, when patrol checks the host for the first time."""
WAIT = {"Type": "Wait", "Seconds": 86_400, "End": True}
WAITS = {"QueryLanguage": "JSONata", "StartAt": "Wait", "States": {"Wait": WAIT}}
"""Replacement of the bake workflow: executions that wait, like the executions of active runs."""
LATER = "2026-01-06T08:00:00.000Z"
ROW = {
    "kind": "train",
    "state": "Train",
    "attempt": 1,
    "created": "2026-01-05T08:00:00.000Z",
    "deadline": LATER,
    "progress": {"step": 1840, "attempt": 1, "at": LATER},
}
"""Row of a running job with time left."""


@dataclass(frozen=True)
class Held:
    """Requests of the third pass that checks hosts, and of a run, on a yard with this many hosts.

    In that pass a fifth of the hosts without a run get their first verdict. Seconds are virtual (requests, and waits
    for the rates), except CPU seconds.
    """

    hosts: int
    patrol: dict[str, int]
    patrol_metrics: int
    patrol_seconds: float
    patrol_cpu_seconds: float
    run: dict[str, int]
    plan_requests: int
    run_seconds: float
    run_cpu_seconds: float
    throttled: int
    succeeded: bool

    @property
    def figures(self) -> dict[str, float]:
        """Return the figures that may grow, by description."""
        return {
            "requests of a pass of patrol": sum(self.patrol.values()),
            "metrics that a pass of patrol reads": self.patrol_metrics,
            "seconds of requests of a pass of patrol": self.patrol_seconds,
            "CPU seconds of a pass of patrol": self.patrol_cpu_seconds,
            "requests of a run of two hosts": sum(self.run.values()),
            "of these, in its state Plan": self.plan_requests,
            "CPU seconds of a run of two hosts": self.run_cpu_seconds,
        }


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of the logarithms by least squares: 0 for constant figures, 1 for linear growth."""
    known = [(math.log(x), math.log(y)) for x, y in zip(sizes, values, strict=True) if y > 0]
    return statistics.linear_regression(*zip(*known, strict=True)).slope if len(known) > 1 else 0.0


class Watch:
    """Counts requests by function and operation, except root's. Patrol only runs while `patrol_looks` is set."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self.throttle = yard, Throttle(yard.world)
        self.requests: Counter[tuple[str, str]] = Counter()
        self.metrics, self.function_seconds, self._at = 0, 0.0, yard.world.now
        self.patrol_looks = False
        yard.gateway.throttle = self.ask
        yard.functions.on_begin = self._begin
        yard.world.on_time.append(self._go_on)

    def ask(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> ServiceError | None:
        if caller.role == "root":
            return None
        if caller.instance is None:
            self.requests[caller.name.partition("#")[0], operation] += 1
            self.metrics += len(request.get("MetricDataQueries", ()))
        return self.throttle(caller, operation, request)

    def clear(self) -> None:
        self.requests.clear()
        self.metrics, self.function_seconds = 0, 0.0

    def _go_on(self, now: datetime) -> None:
        self.function_seconds += len(self.yard.functions.running) * (now - self._at).total_seconds()
        self._at = now

    def by_operation(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for (_, operation), count in self.requests.items():
            found[operation] += count
        return dict(found.most_common())

    def _begin(self, invocation: Invocation) -> None:
        if invocation.function.name.endswith("-patrol") and not self.patrol_looks:
            self.yard.functions.refuse(
                invocation, LambdaFailure("Refused", "patrol is paused in this measurement")
            )


def measure_world(template: YardTemplate, hosts: int) -> Held:
    """Measure one world."""
    world = World(1)
    bake = template.machine("bake")
    machines = {**template.machines, bake.arn: replace(bake, definition=WAITS)}
    # the largest yard costs more in an hour than the default monthly limit
    unlimited = template.with_limits(monthly_dollars=0)
    yard = Yard(world, replace(unlimited, machines=machines), NothingFails())
    without_quotas(yard.ec2.pools)
    with contextlib.redirect_stdout(io.StringIO()):
        watch = Watch(yard)
        _fill(yard, hosts)
        world.run(world.now + QUIET_PERIOD)
        watch.patrol_looks = True
        world.run(
            world.now + timedelta(minutes=2)
        )  # a fifth of the hosts get their first verdict and tag each minute
        watch.clear()
        began = time.process_time()
        world.run(world.now + timedelta(minutes=1))
        patrol, metrics, patrol_cpu = watch.by_operation(), watch.metrics, time.process_time() - began
        patrol_seconds = watch.function_seconds
        watch.patrol_looks = False
        watch.clear()
        began = time.process_time()
        yard.people.upload("jobs/one.json", job("one", CLUSTER, program=PROGRAM))
        world.run(world.now + timedelta(hours=1), stop=lambda: _is_over(yard))
        run_cpu = time.process_time() - began
    run = _run(yard)
    return Held(
        hosts=hosts,
        patrol=patrol,
        patrol_metrics=metrics,
        patrol_seconds=round(patrol_seconds, 2),
        patrol_cpu_seconds=round(patrol_cpu, 3),
        run=watch.by_operation(),
        plan_requests=sum(count for (name, _), count in watch.requests.items() if name == "train-plan"),
        run_seconds=round(((run.stopped or world.now) - run.started).total_seconds(), 1),
        run_cpu_seconds=round(run_cpu, 3),
        throttled=watch.throttle.refused.total(),
        succeeded=run.status is Status.SUCCEEDED,
    )


def main(size: int) -> None:
    """Measure in a separate process and print Held as JSON."""
    process.restart_as_needed()
    print(json.dumps(asdict(measure_world(process.prepare(assembly.find_assembly()), size))))


def _fill(yard: Yard, hosts: int) -> None:
    """Create the hosts.

    Half are in live runs of ten, the others are held after their runs; each ten come from a fleet.
    """
    wide = "subnet-00000000000000fff"  # the yard's own three subnets fit 12,273
    yard.ec2.add_subnet(wide, next(iter(yard.template.subnets.values())).zone, cidr="10.0.0.0/8", vpc="vpc-0")
    nature, yard.ec2.machines = yard.ec2.machines, NoHosts()
    for number in range(hosts // GANG):
        if number % 2:
            _launch(yard, wide, f"over-{number}")
            continue
        run = f"run-{number}"
        arn = yard.people.start("bake", run, {})
        _write(yard, {**ROW, "pk": f"run#{run}", "sk": "run", "execution_arn": arn})
        _write(yard, {"pk": OPEN, "sk": run, "kind": "train", "execution_arn": arn})
        _launch(yard, wide, run)
    yard.world.run(yard.world.now + timedelta(minutes=3))
    for each in yard.ec2.ever:
        yard.cloudwatch.follow(*GPU_METRIC, each, lambda _: 80.0)
    yard.ec2.machines = nature


def _launch(yard: Yard, subnet: str, run: str) -> None:
    """Launch a gang with the tags of the Launch state."""
    template = next(each for each in yard.template.launch_templates.values() if "UserData" not in each.data)
    tags = {
        Tag.YARD: yard.name,
        Tag.RUN: run,
        Tag.KIND: "train",
        Tag.ATTEMPT: "1",
        Tag.GANG: "1",
        Tag.AFTER: "stop",
        Tag.PRICE: "1.006000",
        Tag.LEASE: LATER,
        Tag.BUCKET: yard.bucket,
        "Name": "a host of the bench",
    }
    shown = [{"Key": key, "Value": value} for key, value in tags.items()]
    override = {"InstanceType": "g6.xlarge", "SubnetId": subnet, "ImageId": yard.image}
    which = {"LaunchTemplateId": template.id, "Version": "1"}
    yard.people.call(
        "ec2",
        "create_fleet",
        Type="instant",
        LaunchTemplateConfigs=[{"LaunchTemplateSpecification": which, "Overrides": [override]}],
        TargetCapacitySpecification={"TotalTargetCapacity": GANG, "DefaultTargetCapacityType": "on-demand"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": shown}],
    )


def _write(yard: Yard, row: Mapping[str, Any]) -> None:
    yard.people.call("dynamodb", "put_item", TableName=yard.template.table.name, Item=pack_row(row))


def _run(yard: Yard) -> Execution:
    """Return the execution of the run that trains."""
    return next(each for each in yard.runs() if each.machine.name.endswith("-train"))


def _is_over(yard: Yard) -> bool:
    last = yard.runs()[-1] if yard.runs() else None
    return bool(last and last.machine.name.endswith("-train") and last.status is not Status.RUNNING)


class NoHosts:
    """Stands in for the machines of hosts."""

    def boot(self, instance: Instance) -> None:
        pass

    stop = terminate = reboot = boot

    def command(
        self, instance: Instance, command_id: str, document: str, parameters: Mapping[str, list[str]]
    ) -> None:
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]))
