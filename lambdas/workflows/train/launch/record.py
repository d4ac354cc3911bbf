"""Record the hosts that a launch request was given."""

from datetime import datetime

from lambdas.aws.dynamodb.rows import attempt_row, launched_row, look_up_row, run_row
from lambdas.aws.dynamodb.write import Write
from lambdas.aws.ec2.fleet import Launched
from lambdas.core.capacity.plan import Part
from lambdas.core.run import LaunchRequestUpdate, RunUpdate, growth
from lambdas.steps.observability import clock, measure
from lambdas.workflows.train.launch.request import LaunchRequest
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.ledger.lookup import Owner
from trainyard.protocol.ledger.run import LastLaunch
from trainyard.values import serialization
from trainyard.values.quantities import format_count

Launches = list[tuple[Part, Launched]]
"""The parts of an attempt that EC2 launched."""


def record_hosts(request: LaunchRequest, launched: Launches) -> None:
    """Record the hosts, then the attempt. After a crash in between the next call repeats the request."""
    now = clock()
    candidate, remaining = request.candidate, [host.instance for host in request.remaining]
    beside = f" beside {len(remaining)} that stayed" if remaining else ""
    hosts = sorted([*(host for _, answer in launched for host in answer.instances), *remaining])
    known = serialization.to_json(candidate) | {"pool": candidate.pool}
    grows = growth.next_request(request.records, candidate, len(hosts), now)
    answer: LaunchRequestUpdate = {"answer": "launched", "answered": now}
    if request.chosen is not None:
        answer |= {"chosen": request.chosen, "capacity_pool": candidate.pool}
    of_the_run = _describe_gang(request, launched)
    if grows:
        of_the_run["grows"] = grows
    request.ledger.write(
        *host_rows(request, launched, now),
        request.event("launched", f"{describe(request, launched)}{beside}{request.sizes}", now, hosts=hosts),
        attempt_row(
            request.run, request.attempt, {"candidate": known, "hosts": tuple(hosts), "launched": now}
        ),
        request.row(answer),
        run_row(request.run, of_the_run, waits=False, grows=grows is not None),
    )
    if not request.warm:
        count_hosts(launched)
    if request.attempt > 1:
        measure(Metric.RECOVERIES, pool=candidate.pool)


def _describe_gang(request: LaunchRequest, launched: Launches) -> RunUpdate:
    """Return what lists show of the run's hosts."""
    prices = [host.price for host in request.remaining]
    for part, answer in launched:
        prices += [part.price_of(answer.type).price] * len(answer.instances)
    pool, market = request.candidate.pool, request.candidate.market
    return {"last_launch": LastLaunch(pool=pool, market=market, gang=len(prices), price=sum(prices))}


def count_hosts(launched: Launches) -> None:
    hosts = sum(len(answer.instances) for _, answer in launched)
    if hosts:
        measure(Metric.HOSTS_LAUNCHED, hosts)


def describe(request: LaunchRequest, launched: Launches) -> str:
    if not launched:
        return f"no new host in {request.pool}"
    count = sum(len(answer.instances) for _, answer in launched)
    if request.warm:
        return f"{format_count(count, 'warm host')} of {request.candidate.pool}, from the yard's warm pool"
    beside = [
        f", {len(answer.instances)} of them {answer.type}"
        for part, answer in launched
        if part.gang is Gang.CPU
    ]
    return "".join([f"{format_count(count, 'host')} in {request.candidate.pool}", *beside])


def host_rows(request: LaunchRequest, launched: Launches, now: datetime) -> list[Write]:
    run, attempt = request.run, request.attempt
    rows: list[Write] = []
    for part, answer in launched:
        price = part.price_of(answer.type)
        for instance in answer.instances:
            host = BilledHost(
                instance=instance,
                type=answer.type,
                zone=request.candidate.zone,
                market=request.candidate.market,
                price=price.price,
                on_demand_price=price.on_demand_price,
                disk_gib=request.disk_gib,
                gib_month=request.plan.gib_month,
                volume_charge=answer.volume_charge,
                launched=answer.since or now,
            )
            before = request.warm.get(instance)
            owner = Owner(run=run, attempt=attempt, before=before)
            rows.append(launched_row(run, host, attempt=attempt, gang=part.gang, claimed_from=before))
            rows.append(look_up_row("instance", instance, owner, now))
    return rows
