"""Launch: ask one pool for what the gang lacks. The workflow comes back for the next pool, or after a wait."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from lambdas import settings
from lambdas.aws import fleet, instances
from lambdas.aws.fleet import Launched, Template, Turned
from lambdas.aws.ledger import Ledger, attempt_row, event_row, host_row, intent_row, look_up_row, run_row
from lambdas.core import gang, pace, placement, tokens, wire
from lambdas.core.offers import Offer
from lambdas.core.placement import GiveUp, StartOver, Try, Wait
from lambdas.core.records import Records
from lambdas.handlers.voice import attempt_of, clock, note
from lambdas.settings import LaunchSettings


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    yard = settings.read(LaunchSettings)
    run, attempt = attempt_of(event)
    ledger, now = Ledger(yard.table_name), clock()
    records = ledger.known(run)
    if attempt in records.attempts:
        return _launched("it was launched before this call was repeated")
    step = _next_step(records, attempt, now)
    match step:
        case Try():
            return _ask(step, yard, ledger, records, attempt)
        case Wait(seconds=seconds, reason=reason):
            ledger.write(event_row(run, note("waiting", reason, at=now, attempt=attempt)))
            return {"kind": "wait", "seconds": seconds, "reason": reason}
        case StartOver(reason=reason):
            ledger.write(event_row(run, note("start over", reason, at=now, attempt=attempt)))
            return {"kind": "retire", "reason": reason}
        case GiveUp(error=error, reason=reason):
            ledger.write(event_row(run, note("gave up", reason, at=now, attempt=attempt)))
            return {"kind": "gave_up", "error": error, "reason": reason}


def _next_step(records: Records, attempt: int, now: datetime) -> Try | Wait | StartOver | GiveUp:
    """The ask whose answer got lost, once more; else what placement says."""
    job, plan = records.run.job, records.plan
    assert job is not None
    assert plan is not None, "Plan comes before Launch"
    broke = pace.out_of_money(records, now)
    if broke:
        return GiveUp("LimitReached", broke)
    open_ask = records.unanswered(attempt)
    if open_ask:
        return Try(open_ask.offer, open_ask.round, "an earlier call asked this pool and its answer was lost")
    since = records.searching_since(attempt, now)
    deadline = pace.deadline(records, attempt, now)
    return placement.next_step(
        plan.offers,
        records.refusals(attempt),
        now=now,
        since=since,
        give_up_at=placement.give_up_at(since, job.limits.wait_minutes, deadline),
        ended_by=placement.ended_by(since, job.limits.wait_minutes, deadline),
        held=records.held_offer(attempt),
    )


def _ask(step: Try, yard: LaunchSettings, ledger: Ledger, records: Records, attempt: int) -> dict[str, Any]:
    """Write the intent, look for what an earlier call may have launched, ask EC2, write the answer."""
    run, now = records.run.run, clock()
    assert records.run.job is not None
    assert records.plan is not None
    offer = records.plan.offers[step.offer]
    survivors = [host.instance for host in records.survivors(attempt)]
    count = gang.missing(records.run.job, survivors)
    token = tokens.client_token(run, yard=yard.yard, attempt=attempt, offer=step.offer, round=step.round)
    asked_before = records.unanswered(attempt) is not None
    if not asked_before:
        ledger.write(
            intent_row(
                run, attempt, step.offer, step.round, {"token": token, "offer_pool": offer.pool, "at": now}
            ),
            run_row(run, {"state": "Launch", "attempt": attempt}),
            event_row(
                run, note("asking", f"{count} x {step.reason}", at=now, attempt=attempt, pool=offer.pool)
            ),
        )
    found = [host.id for host in instances.of_run(run, attempt=attempt)] if asked_before else []
    if count == 0 or found:
        answer: Launched | Turned = Launched("", tuple(found))
    else:
        template = Template(yard.launch_template_id, yard.launch_template_version)
        answer = fleet.launch(offer, count, template, token=token, tags=_tags(yard, records, attempt, now))
    match answer:
        case Turned():
            return _refused(step, answer, offer, ledger, records, attempt)
        case Launched(instances=launched) if len(launched) < count:
            return _partial(step, launched, count, offer, ledger, records, attempt)
        case Launched(instances=launched):
            _write_gang(step, launched, survivors, offer, ledger, records, attempt)
            return _launched(f"{_hosts(len(launched))} in {offer.pool}")


def _hosts(count: int) -> str:
    return f"{count} host{'' if count == 1 else 's'}"


def _launched(reason: str) -> dict[str, Any]:
    return {"kind": "launched", "reason": reason, "muster_seconds": pace.muster_seconds()}


def _refused(
    step: Try, no: Turned, offer: Offer, ledger: Ledger, records: Records, attempt: int
) -> dict[str, Any]:
    now, run = clock(), records.run.run
    answer = {"answer": "refused", "refusal": no.kind, "code": no.code, "reason": no.reason, "answered": now}
    entry = note(
        "refused",
        f"{offer.pool}: {no.code}: {no.reason}",
        at=now,
        attempt=attempt,
        pool=offer.pool,
        code=no.code,
    )
    ledger.write(intent_row(run, attempt, step.offer, step.round, answer), event_row(run, entry))
    return {"kind": "refused", "reason": f"{no.code}: {no.reason}"}


def _partial(
    step: Try,
    launched: Collection[str],
    count: int,
    offer: Offer,
    ledger: Ledger,
    records: Records,
    attempt: int,
) -> dict[str, Any]:
    """EC2 promised all or nothing; should it ever break that, the part is known, retired, and another pool asked."""
    now, run = clock(), records.run.run
    reason = f"{offer.pool}: EC2 launched {len(launched)} of {count} hosts; a part of a gang is of no use"
    answer = {
        "answer": "refused",
        "refusal": "capacity",
        "code": "Partial",
        "reason": reason,
        "answered": now,
    }
    ledger.write(
        *_host_rows(launched, offer, run, attempt, now),
        event_row(run, note("retiring a part", reason, at=now, attempt=attempt)),
        intent_row(run, attempt, step.offer, step.round, answer),
    )
    return {"kind": "retire", "reason": reason}


def _write_gang(
    step: Try,
    launched: Collection[str],
    survivors: list[str],
    offer: Offer,
    ledger: Ledger,
    records: Records,
    attempt: int,
) -> None:
    """The attempt's row goes last: a crash in between is found by the unanswered intent and done again."""
    now, run = clock(), records.run.run
    beside = f" beside {len(survivors)} that stayed" if survivors else ""
    said = f"{_hosts(len(launched))} in {offer.pool}{beside}"
    hosts = sorted([*launched, *survivors])
    entry = note("launched", said, at=now, attempt=attempt, pool=offer.pool, hosts=hosts)
    told = wire.to_json(offer) | {"pool": offer.pool}
    ledger.write(
        *_host_rows(launched, offer, run, attempt, now),
        event_row(run, entry),
        attempt_row(run, attempt, {"offer": told, "hosts": hosts, "launched": now}),
        intent_row(run, attempt, step.offer, step.round, {"answer": "launched", "answered": now}),
    )


def _host_rows(launched: Collection[str], offer: Offer, run: str, attempt: int, now: datetime) -> list[Any]:
    values = {
        "attempt": attempt,
        "type": offer.type,
        "zone": offer.zone,
        "market": offer.market,
        "price": offer.price,
        "on_demand_price": offer.on_demand_price,
        "launched": now,
    }
    rows = [
        (host_row(run, host, values), look_up_row("instance", host, run, now=now, attempt=attempt))
        for host in launched
    ]
    return [write for pair in rows for write in pair]


def _tags(yard: LaunchSettings, records: Records, attempt: int, now: datetime) -> dict[str, str]:
    """What the host reads of itself, and what every permission to touch it is conditioned on."""
    lease = pace.deadline(records, attempt, now) + pace.MARGIN
    return {
        "trainyard:yard": yard.yard,
        "trainyard:run": records.run.run,
        "trainyard:attempt": str(attempt),
        "trainyard:lease": wire.stamp(lease),
        "Name": f"{records.run.run} attempt {attempt}",
    }
