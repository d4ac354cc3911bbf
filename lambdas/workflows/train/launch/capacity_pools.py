"""Request the hosts of a launch request from EC2: from one capacity pool, or from the pool that EC2 chooses of
several."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import run_row
from lambdas.aws.ec2 import fleet, instances
from lambdas.aws.ec2.fleet import Launched, Refusals
from lambdas.aws.ec2.instances import Instance
from lambdas.core.capacity import placement
from lambdas.core.capacity.placement import FleetRefusal, RetireFirst
from lambdas.core.capacity.plan import Part
from lambdas.core.run import LaunchRequestUpdate
from lambdas.steps.observability import clock, measure
from lambdas.workflows.train.launch.answers import (
    LaunchAnswer,
    PoolRefused,
    answer_of_other_call,
    gang_launched,
)
from lambdas.workflows.train.launch.record import Launches, count_hosts, describe, host_rows, record_hosts
from lambdas.workflows.train.launch.request import LaunchRequest
from lambdas.workflows.train.launch.tags import tags_of
from trainyard.core.model import gang
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.launch_request import CandidateRefusal
from trainyard.protocol.plan import RefusalKind
from trainyard.protocol.tags import Tag
from trainyard.values.quantities import format_count


def request_hosts(request: LaunchRequest) -> LaunchAnswer:
    """Record the request, look for hosts that an earlier call launched, ask EC2, record the answer."""
    there: tuple[Instance, ...] = ()
    if request.records.unanswered(request.attempt):
        there = instances.find_by_run(request.run, attempt=request.attempt)
    else:
        try:
            _record_request(request)
        except AlreadyWrittenError:
            instead = answer_of_other_call(request)
            if instead is None:
                raise
            return instead
    launched: Launches = []
    for number in range(len(request.missing)):
        part = request.missing[number]
        answer = find_launched(request, part, there) or launch(request, part)
        if not isinstance(answer, Launched):
            return record_refusal(request, part, answer, launched)
        request = request.into(answer.candidate)
        part = request.missing[number]
        launched.append((part, answer))
        if len(answer.instances) < part.least:
            return record_refusal(request, part, (_refuse_incomplete(part, answer),), launched)
    record_hosts(request, launched)
    return gang_launched(describe(request, launched))


def _record_request(request: LaunchRequest) -> None:
    """Raises AlreadyWrittenError if the execution has ended (steps.conclusion), or if another call was first."""
    now, rate, lacking = clock(), request.candidate.initialization_rate, request.missing
    main = sum(part.count for part in lacking if part.gang is Gang.MAIN)
    beside = [
        f"; beside it {part.count} x {' or '.join(dict.fromkeys(choice.type for choice in part.choices))}"
        for part in lacking
        if part.gang is Gang.CPU
    ]
    reason = "".join([f"{main} x {request.step.reason}", *beside]) if lacking else request.no_request_reason
    values: LaunchRequestUpdate = {
        "token": request.client_token(Gang.MAIN, rate),
        "cpu_token": request.client_token(Gang.CPU, rate) if request.job.cpu_gang else None,
        "capacity_pool": request.pool,
        "at": now,
    }
    if request.step.batch:
        values["batch"] = request.step.batch
    request.ledger.write(
        *request.new_rows(values),
        run_row(request.run, {"state": "Launch", "attempt": request.attempt}, unless="cut_short"),
        request.event("asking", reason, now),
    )


def find_launched(request: LaunchRequest, part: Part, there: Collection[Instance]) -> Launched | None:
    """Return the hosts among `there` that an earlier call launched as this part before it could record them."""
    for candidate in request.candidates:
        types = {choice.type for choice in candidate.choices(part.gang) if choice in part.choices}
        mine = [
            host
            for host in there
            if host.gang is part.gang
            and host.type in types
            and (host.zone, host.market) == (candidate.zone, candidate.market)
        ]
        if mine:
            return Launched(
                tuple(host.id for host in mine),
                mine[0].type,
                candidate,
                mine[0].volume_charge,
                since=min(host.launched for host in mine),
            )
    return None


def launch(request: LaunchRequest, part: Part) -> Launched | Refusals:
    """Launch with the plan's initialization rate, and again without one if EC2 refuses the rate.

    EC2 has published no error code for that, so every code that has no meaning of its own counts."""
    rate = request.candidate.initialization_rate
    answer = _request_fleet(request, part, rate)
    if not rate or isinstance(answer, Launched):
        return answer
    no = next((each for each in answer if each.kind is RefusalKind.CONFIGURATION), None)
    if no is None:
        return answer
    reason = f"again without an initialization rate; at {rate} MiB/s: {no.code}: {no.reason}"
    request.ledger.write(request.event("asking", reason, clock()))
    return _request_fleet(request, part, 0)


def _request_fleet(request: LaunchRequest, part: Part, rate: int) -> Launched | Refusals:
    charge = request.volume_charge(rate)
    answer = fleet.launch(
        part,
        request.candidates,
        fleet.template(request.yard.launch_templates, rate),
        image=request.plan.image,
        client_token=request.client_token(part.gang, rate),
        tags=tags_of(request, part, clock()) | ({Tag.VOLUME_CHARGE: f"{charge:.6f}"} if rate else {}),
        root_gib=request.root_gib,
        key=request.yard.kms_key,
    )
    return replace(answer, volume_charge=charge) if isinstance(answer, Launched) else answer


def _refuse_incomplete(part: Part, launched: Launched) -> FleetRefusal:
    """Return the refusal for EC2 launching fewer hosts than it promised: they are ended, and another pool is asked."""
    hosts = f"{len(launched.instances)} of {format_count(part.count, 'host')}"
    reason = f"EC2 launched {hosts}; a part of a gang is useless"
    return FleetRefusal(RefusalKind.CAPACITY, "Partial", reason)


def record_refusal(
    request: LaunchRequest, part: Part, nos: Refusals, launched: Launches
) -> RetireFirst | PoolRefused:
    """Record that EC2 refused this part in each capacity pool. Hosts of the attempt that it did launch are ended."""
    now, no = clock(), _most_common(nos)
    who = f"{gang.describe(request.job, part.gang)}: " if part.gang is Gang.CPU else ""
    reason = f"{who}{no.reason}"
    values: LaunchRequestUpdate = {
        "answer": "refused",
        "gang": part.gang,
        "refusal": no.kind,
        "code": no.code,
        "reason": reason,
        "answered": now,
    }
    if request.chosen is not None:
        values |= {"chosen": request.chosen, "capacity_pool": request.pool}
    if len(nos) > 1:
        values["refusals"] = tuple(
            CandidateRefusal(index, each.kind, each.code, each.reason[: placement.MOST_REASON])
            for index, each in zip(request.indexes, nos, strict=True)
        )
    entry = request.event("refused", f"{request.pool}: {no.code}: {reason}", now, code=no.code)
    request.ledger.write(*host_rows(request, launched, now), entry, request.row(values))
    for candidate, each in zip(request.candidates, nos, strict=True):
        measure(Metric.LAUNCHES_REFUSED, kind=each.kind.value, pool=candidate.pool, code=each.code)
    count_hosts(launched)
    why = f"{no.code}: {reason}"
    return RetireFirst(reason=why) if launched else PoolRefused(reason=why)


def _most_common(nos: Refusals) -> FleetRefusal:
    """Return the refusal of most capacity pools; its reason counts the others."""
    if len(nos) == 1:
        return nos[0]
    (code, _), *_ = counted = Counter(no.code for no in nos).most_common()
    most = next(no for no in nos if no.code == code)
    how_many = ", ".join(f"{count} x {code}" for code, count in counted)
    return replace(most, reason=f"{how_many}. One of them: {most.reason}")
