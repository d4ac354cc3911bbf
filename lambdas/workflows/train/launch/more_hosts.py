"""Ask EC2 for more hosts while an attempt trains. They join the next attempt when they are ready."""

from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError, Ledger
from lambdas.aws.dynamodb.rows import attempt_row, run_row
from lambdas.aws.ec2 import instances
from lambdas.aws.ec2.fleet import Launched, Refusals
from lambdas.core.capacity.placement import Try
from lambdas.core.capacity.plan import Part
from lambdas.core.run import LaunchRequestUpdate, deadlines, growth
from lambdas.core.run.records import Records
from lambdas.steps.observability import clock
from lambdas.workflows.train.launch.answers import Grown
from lambdas.workflows.train.launch.capacity_pools import find_launched, launch, record_refusal
from lambdas.workflows.train.launch.record import count_hosts, describe, host_rows
from lambdas.workflows.train.launch.request import LaunchRequest, LaunchSettings
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.launch_request import LaunchRequestRow
from trainyard.values.quantities import format_count


def grow(yard: LaunchSettings, ledger: Ledger, records: Records, attempt: int, now: datetime) -> Grown:
    """Ask for more hosts, unless another call has, or the attempt has ended."""
    if open_request := records.growth():
        return repeat(yard, ledger, records, open_request)
    wanted, candidate = growth.decide(records, now), records.held_candidate(attempt + 1)
    if attempt != records.run.attempt or candidate is None or not isinstance(wanted, growth.RequestHosts):
        return Grown(reason="the run needs no more hosts")
    rounds = [
        row.round for row in records.launch_requests if (row.attempt, row.candidate) == (attempt, candidate)
    ]
    step = Try(candidate, max(rounds, default=-1) + 1, "the pool of those that train")
    request = LaunchRequest(yard, ledger, records, attempt, step, more=wanted.count, requested_at=now)
    try:
        _record_request(request, now)
    except AlreadyWrittenError:
        return Grown(reason="another call requests them, or the attempt is over")
    return _request_more(request)


def repeat(yard: LaunchSettings, ledger: Ledger, records: Records, row: LaunchRequestRow) -> Grown:
    """Repeat the request of a call that died before it recorded the answer."""
    step = Try(row.candidate, row.round, "the answer to an earlier request to this pool was lost")
    request = LaunchRequest(yard, ledger, records, row.attempt, step, more=row.more or 0, requested_at=row.at)
    return _request_more(request, again=True)


def _record_request(request: LaunchRequest, now: datetime) -> None:
    """Raises AlreadyWrittenError if another call asks, or if the attempt or its execution has ended."""
    rate, have = request.candidate.initialization_rate, growth.workers_of(request.records, request.attempt)
    reason = f"{request.more} x {request.candidate.pool}, beside the {have} that train{request.sizes}"
    values: LaunchRequestUpdate = {
        "token": request.client_token(Gang.MAIN, rate),
        "capacity_pool": request.candidate.pool,
        "at": now,
        "more": request.more,
    }
    request.ledger.write(
        request.row(values, unless="token"),
        attempt_row(request.run, request.attempt, {"requested_more": now}, unless="ending"),
        run_row(request.run, {"grows": now + growth.APART}, unless="cut_short"),
        request.event("asking for more hosts", reason, now),
    )


def _request_more(request: LaunchRequest, *, again: bool = False) -> Grown:
    """Ask EC2 and record the answer. `again`: look first for hosts that an earlier call launched."""
    part = Part(Gang.MAIN, request.more, request.candidate.choices(Gang.MAIN), least=1)
    there = instances.find_by_run(request.run, attempt=request.attempt) if again else ()
    unknown = [host for host in there if host.id not in request.records.hosts]
    found = find_launched(request, part, unknown)
    if found and len(found.instances) >= request.more:
        answer: Launched | Refusals = found
    else:
        answer = launch(request, part)
        answer = found if found and not isinstance(answer, Launched) else answer
    if not isinstance(answer, Launched):
        no = record_refusal(request, part, answer, [])
        return Grown(reason=no.reason)
    _record_more(request, part, answer)
    return Grown(reason=f"{format_count(len(answer.instances), 'more host')} in {request.candidate.pool}")


def _record_more(request: LaunchRequest, part: Part, answer: Launched) -> None:
    """Record the answer first: Signal matches a host by its row."""
    now, launched = clock(), [(part, answer)]
    price = part.price_of(answer.type).price * len(answer.instances)
    reason = f"{describe(request, launched)}, which join when they are ready, for ${price:.3f} an hour more"
    request.ledger.write(
        request.row({"answer": "launched", "answered": now}),
        request.event("launched more hosts", reason, now, hosts=sorted(answer.instances)),
        *host_rows(request, launched, now),
    )
    count_hosts(launched)
    records = request.ledger.read(request.run)
    if records and records.run.ended is None:  # more hosts use up the dollars of the run earlier
        deadline = deadlines.deadline(records, records.run.attempt, now)
        request.ledger.write(run_row(request.run, {"deadline": deadline}))
