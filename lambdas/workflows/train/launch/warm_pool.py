"""Claim a whole gang of the yard's warm pool, in place of a request to EC2."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from lambdas.aws.dynamodb.ledger import AlreadyWrittenError
from lambdas.aws.dynamodb.rows import pool_exit_rows, run_row
from lambdas.aws.dynamodb.write import Write
from lambdas.aws.ec2 import instances
from lambdas.aws.ec2.fleet import Launched
from lambdas.core.capacity.placement import Try, TryLater
from lambdas.core.capacity.plan import Part
from lambdas.core.run import LaunchRequestUpdate, warm_pool
from lambdas.core.run.warm_host import WarmHost
from lambdas.steps.observability import clock, logger
from lambdas.workflows.train.launch.answers import LaunchAnswer, answer_of_other_call, gang_launched
from lambdas.workflows.train.launch.record import Launches, describe, host_rows, record_hosts
from lambdas.workflows.train.launch.request import LaunchRequest
from lambdas.workflows.train.launch.tags import tags_of
from trainyard.core.model.yard import warm
from trainyard.protocol.cluster import Gang
from trainyard.protocol.tags import Tag

WIPE_PAUSE = 2
"""Seconds between two looks for hosts that are being wiped."""


def claim(request: LaunchRequest, now: datetime) -> LaunchAnswer | None:
    """Claim a whole gang and answer with it; None if the warm pool has none that fits."""
    open_request = request.records.unanswered(request.attempt)
    if open_request:
        return _hand_over(_claimed_before(request, open_request.warm)) if open_request.warm else None
    if request.records.run.kind != "train" or request.remaining:
        return None
    waiting, study = request.ledger.pool(), _study_of(request)
    found = warm_pool.choose_gang(waiting, request.plan, request.job, now, study=study) if waiting else None
    if found:
        there = _find_usable(found.hosts, now)
        found = warm_pool.choose_gang(there, request.plan, request.job, now, study=study)
    if found is None:
        return _wait_for_wiping(request, waiting, now)
    rounds = [
        row.round
        for row in request.records.launch_requests
        if (row.attempt, row.candidate) == (request.attempt, found.candidate)
    ]
    step = Try(found.candidate, max(rounds, default=-1) + 1, "from the pool of the yard")
    request = replace(request, step=step, warm={host.instance: host.run for host in found.hosts})
    try:
        request.ledger.write(*_claiming_rows(request, found.hosts, now))
    except AlreadyWrittenError:
        logger.info("%s: another run claimed the hosts, or another call was first", request.run)
        return answer_of_other_call(request)
    return _hand_over(request)


def _study_of(request: LaunchRequest) -> str | None:
    trial = request.records.run.trial
    return trial.study if trial else None


def _wait_for_wiping(
    request: LaunchRequest, waiting: Collection[WarmHost], now: datetime
) -> LaunchAnswer | None:
    """Return a short wait if hosts of the trial's own study that are being wiped complete a gang; None for a request to
    EC2."""
    study = _study_of(request)
    if study and warm_pool.choose_gang(
        waiting, request.plan, request.job, now, study=study, with_unwiped=True
    ):
        return TryLater(WIPE_PAUSE, f"hosts of {study} are being wiped for its next trial")
    return None


def _find_usable(hosts: Collection[WarmHost], now: datetime) -> tuple[WarmHost, ...]:
    """Return the hosts that run, belong to the warm pool by their tag, and are not held."""
    tags = {
        host.id: host.tags
        for host in instances.find_by_id([host.instance for host in hosts])
        if host.state == "running" and not warm_pool.is_held(host.tags, now)
    }
    until = {name: warm.warm_until(found) for name, found in tags.items()}
    return tuple(host for host in hosts if (end := until.get(host.instance)) is not None and end > now)


def _claiming_rows(request: LaunchRequest, hosts: Collection[WarmHost], now: datetime) -> list[Write]:
    """Return one transaction: the hosts leave the warm pool and are this run's, or neither."""
    kept = ", ".join(sorted({host.run for host in hosts}))
    reason = f"{len(hosts)} x {request.candidate.pool} from the yard's warm pool, kept by {kept}"
    values: LaunchRequestUpdate = {
        "token": request.client_token(Gang.MAIN, 0),
        "capacity_pool": request.candidate.pool,
        "at": now,
        "warm": tuple(sorted(request.warm)),
    }
    return [
        *request.new_rows(values),
        run_row(request.run, {"state": "Launch", "attempt": request.attempt}, unless="cut_short"),
        request.event("taking", reason, now),
        *pool_exit_rows(hosts, now),
        *host_rows(request, _to_launched(request), now),
    ]


def _claimed_before(request: LaunchRequest, hosts: Collection[str]) -> LaunchRequest:
    """Return the request with the hosts that an earlier call claimed."""
    rows = request.records.hosts
    return replace(request, warm={host: rows[host].claimed_from or "" for host in hosts if host in rows})


def _to_launched(request: LaunchRequest) -> Launches:
    (choice,) = request.candidate.choices(Gang.MAIN)
    part = Part(Gang.MAIN, len(request.warm), (choice,), least=len(request.warm))
    return [(part, Launched(tuple(sorted(request.warm)), choice.type, request.candidate))]


def _hand_over(request: LaunchRequest) -> LaunchAnswer:
    """Tag the hosts, which informs each of its new run, then answer. A repeated call does the same."""
    launched = _to_launched(request)
    ((part, _),) = launched
    tags = {key: value for key, value in tags_of(request, part, clock()).items() if key != Tag.YARD}
    instances.retag(sorted(request.warm), {Tag.SERVES: "", **tags})
    record_hosts(request, launched)
    return gang_launched(describe(request, launched))
