"""Launch: ask one pool for what the attempt lacks. The workflow comes back for the next pool, or after a wait.

A job whose roles without a GPU have hosts of their own is launched in two requests, one gang each; without the second
gang the first is of no use, and the workflow ends it at once.
"""

from dataclasses import replace
from datetime import datetime

from lambdas import settings
from lambdas.aws.ec2 import fleet, instances
from lambdas.aws.ec2.fleet import Launched
from lambdas.aws.ledger import (
    AlreadyWrittenError,
    Ledger,
    Write,
    attempt_row,
    event_row,
    intent_row,
    launched_row,
    look_up_row,
    run_row,
)
from lambdas.core.capacity import initialization, placement
from lambdas.core.capacity.cost import BilledHost
from lambdas.core.capacity.placement import FleetRefusal, GiveUp, RetireFirst, Try, TryLater
from lambdas.core.capacity.plan import Offer, Part, Plan, RefusalKind, parts
from lambdas.core.edges.common import AttemptInput
from lambdas.core.edges.train import LaunchAnswer, PoolRefused
from lambdas.core.edges.train import Launched as GangLaunched
from lambdas.core.run import deadlines, readiness, stopping, waiting
from lambdas.core.run.records import HostRow, IntentUpdate, Owner, Records, RunUpdate
from lambdas.core.run.waiting import Waiting
from lambdas.settings import LaunchSettings
from lambdas.steps.entry_point import entry_point
from lambdas.steps.observability import clock, measure, note
from trainyard.core.model import gang, policy, submitter, tokens
from trainyard.core.model.errors import Stopped
from trainyard.core.model.gang import Gang
from trainyard.core.model.instance_types import instance_type
from trainyard.core.model.job import Job
from trainyard.core.model.metrics import Metric
from trainyard.core.values import wire
from trainyard.core.values.lazy import dataclass

Launches = list[tuple[Part, Launched]]
"""The parts of an attempt that EC2 launched."""
EVENTS = {TryLater.kind: "waiting", RetireFirst.kind: "start over", GiveUp.kind: "gave up"}
"""The timeline's words."""


@dataclass(frozen=True)
class Asking:
    """One ask of one pool, from the intent to the answer."""

    yard: LaunchSettings
    ledger: Ledger
    records: Records
    attempt: int
    step: Try

    @property
    def run(self) -> str:
        return self.records.run.run

    @property
    def job(self) -> Job:
        assert self.records.run.job is not None, "an admitted run has a job"
        return self.records.run.job

    @property
    def plan(self) -> Plan:
        assert self.records.plan is not None, "Plan comes before Launch"
        return self.records.plan

    @property
    def offer(self) -> Offer:
        return self.plan.offers[self.step.offer]

    @property
    def root_gib(self) -> int | None:
        """The size of a root disk as the recipe of a bake says it, or the job; None: the image's own."""
        return (self.records.run.recipe or {}).get("root_gib") or self.job.hardware.disk_gib

    @property
    def disk_gib(self) -> int:
        """The size of a host's disks."""
        return int((self.records.run.recipe or {}).get("root_gib") or self.plan.disk_gib)

    @property
    def survivors(self) -> tuple[HostRow, ...]:
        return self.records.survivors(self.attempt)

    def volume_charge(self, rate: int) -> float:
        """Dollars once for each host's disk, of an image that has so many GiB."""
        return initialization.dollars(self.plan.image_gib, rate, self.plan.gib_month)

    def token(self, which: Gang, rate: int) -> str:
        """What makes each request happen once."""
        return tokens.client_token(
            self.run,
            yard=self.yard.yard,
            attempt=self.attempt,
            offer=self.step.offer,
            round=self.step.round,
            gang=which,
            rate=rate,
        )

    def intent(self, values: IntentUpdate) -> Write:
        return intent_row(self.run, self.attempt, self.step.offer, self.step.round, values)

    def event(self, event: str, reason: str, now: datetime, **detail: str | list[str]) -> Write:
        return event_row(
            self.run, note(event, reason, at=now, attempt=self.attempt, pool=self.offer.pool, **detail)
        )


@entry_point
def handler(given: AttemptInput) -> LaunchAnswer:
    yard, run, attempt = settings.read(LaunchSettings), given.run, given.attempt
    ledger, now = Ledger(yard.table_name), clock()
    records = ledger.known(run)
    if attempt in records.attempts:
        return _launched("it was launched before this call was repeated")
    if records.stranded(attempt):
        return RetireFirst(reason="an earlier call launched a part of what the attempt needs")
    step = _next_step(records, attempt, now)
    if isinstance(step, Try):
        return _ask(Asking(yard, ledger, records, attempt, step))
    told = [event_row(run, note(EVENTS[step.kind], step.reason, at=now, attempt=attempt))]
    if isinstance(step, TryLater):
        told.append(run_row(run, {"waiting": _waiting(records, attempt, step, now)}))
    ledger.write(*told)
    return step


def _waiting(records: Records, attempt: int, step: TryLater, now: datetime) -> Waiting:
    job = records.run.job
    assert job is not None
    return waiting.for_capacity(
        records.refusals(attempt),
        job,
        since=records.searching_since(attempt, now),
        deadline=deadlines.deadline(records, attempt, now),
        seconds=step.seconds,
        reason=step.reason,
        now=now,
    )


def _next_step(records: Records, attempt: int, now: datetime) -> Try | TryLater | RetireFirst | GiveUp:
    """The ask whose answer got lost, once more; else what placement says."""
    job, plan = records.run.job, records.plan
    assert job is not None
    assert plan is not None, "Plan comes before Launch"
    if records.run.stopping:
        return GiveUp(Stopped.__name__, stopping.reason(records, now))
    broke = deadlines.out_of_money(records, now)
    if broke:
        return GiveUp("LimitReached", broke)
    open_ask = records.unanswered(attempt)
    if open_ask:
        return Try(open_ask.offer, open_ask.round, "an earlier call asked this pool and its answer was lost")
    return placement.next_step(
        plan.offers,
        records.refusals(attempt),
        now=now,
        since=records.searching_since(attempt, now),
        wait_minutes=job.limits.wait_minutes,
        deadline=deadlines.deadline(records, attempt, now),
        held=records.held_offer(attempt),
        first=records.first_market(attempt),
        last=records.failed_offers(attempt),
    )


def _ask(asking: Asking) -> LaunchAnswer:
    """Write the intent, look for what an earlier call may have launched, ask EC2, write the answer."""
    survivors = [(host.instance, host.gang, host.type) for host in asking.survivors]
    lacking = parts(asking.job, asking.offer, survivors)
    if asking.records.unanswered(asking.attempt):
        found = _launched_before(asking, lacking)
    else:
        try:
            _intend(asking, lacking)
        except AlreadyWrittenError:
            return GiveUp("Aborted", "the execution is over: no host is launched for it")
        found = {}
    launched: Launches = []
    for part in lacking:
        answer = found.get(part.gang) or _launch(asking, part)
        if isinstance(answer, FleetRefusal):
            return _refused(asking, part, answer, launched)
        launched.append((part, answer))
        if len(answer.instances) < part.count:
            return _refused(asking, part, _too_few(part, answer), launched)
    _write_hosts(asking, launched)
    return _launched(_hosts(asking, launched))


def _intend(asking: Asking, lacking: tuple[Part, ...]) -> None:
    """Raises AlreadyWrittenError where the execution is over (steps.conclusion)."""
    now, rate = clock(), asking.offer.initialization_rate
    main = sum(part.count for part in lacking if part.gang is Gang.MAIN)
    beside = [
        f"; beside it {part.count} x {' or '.join(choice.type for choice in part.choices)}"
        for part in lacking
        if part.gang is Gang.CPU
    ]
    reason = "".join([f"{main} x {asking.step.reason}", *beside]) if lacking else "nobody: no host is missing"
    asking.ledger.write(
        asking.intent(
            {
                "token": asking.token(Gang.MAIN, rate),
                "cpu_token": asking.token(Gang.CPU, rate) if asking.job.cpu_gang else None,
                "offer_pool": asking.offer.pool,
                "at": now,
            }
        ),
        run_row(asking.run, {"state": "Launch", "attempt": asking.attempt}, unless="cut_short"),
        asking.event("asking", reason, now),
    )


def _launched_before(asking: Asking, lacking: tuple[Part, ...]) -> dict[Gang, Launched]:
    """What an earlier call whose answer is not written down has launched in this pool."""
    offer = asking.offer
    here = [
        host
        for host in instances.of_run(asking.run, attempt=asking.attempt)
        if (host.zone, host.market) == (offer.zone, offer.market)
    ]
    found = {}
    for part in lacking:
        types = {choice.type for choice in part.choices}
        mine = [host for host in here if host.gang is part.gang and host.type in types]
        if mine:
            ids = tuple(host.id for host in mine)
            found[part.gang] = Launched(ids, mine[0].type, mine[0].volume_charge)
    return found


def _launch(asking: Asking, part: Part) -> Launched | FleetRefusal:
    """At the plan's initialization rate. EC2 refuses it where other volumes of the region use what is allowed, or where
    it has no room for it, with words that nobody has published: whatever is no reason of its own, then without one."""
    rate = asking.offer.initialization_rate
    answer = _request(asking, part, rate)
    if not rate or not isinstance(answer, FleetRefusal) or answer.kind is not RefusalKind.CONFIGURATION:
        return answer
    reason = f"again without an initialization rate; at {rate} MiB/s: {answer.code}: {answer.reason}"
    asking.ledger.write(asking.event("asking", reason, clock()))
    return _request(asking, part, 0)


def _request(asking: Asking, part: Part, rate: int) -> Launched | FleetRefusal:
    charge = asking.volume_charge(rate)
    answer = fleet.launch(
        part,
        asking.offer,
        fleet.template(asking.yard.launch_templates, rate),
        image=asking.plan.image,
        token=asking.token(part.gang, rate),
        tags=_tags(asking, part, clock()) | ({"trainyard:volume-charge": f"{charge:.6f}"} if rate else {}),
        root_gib=asking.root_gib,
        key=asking.yard.kms_key,
    )
    return replace(answer, volume_charge=charge) if isinstance(answer, Launched) else answer


def _too_few(part: Part, launched: Launched) -> FleetRefusal:
    """EC2 promised all or nothing; should it ever break that, the part is known, retired, and another pool asked."""
    reason = f"EC2 launched {len(launched.instances)} of {part.count} hosts; a part of a gang is of no use"
    return FleetRefusal(RefusalKind.CAPACITY, "Partial", reason)


def _launched(reason: str) -> GangLaunched:
    return GangLaunched(reason=reason, ready_seconds=int(readiness.PATIENCE.total_seconds()))


def _hosts(asking: Asking, launched: Launches) -> str:
    if not launched:
        return f"no new host in {asking.offer.pool}"
    count = sum(len(answer.instances) for _, answer in launched)
    beside = [
        f", {len(answer.instances)} of them {answer.type}"
        for part, answer in launched
        if part.gang is Gang.CPU
    ]
    return "".join([f"{count} host{'' if count == 1 else 's'} in {asking.offer.pool}", *beside])


def _refused(asking: Asking, part: Part, no: FleetRefusal, launched: Launches) -> RetireFirst | PoolRefused:
    """EC2 refused this part. What it has launched of the attempt is written to the ledger, and ended at once."""
    now = clock()
    who = f"{gang.called(asking.job, part.gang)}: " if part.gang is Gang.CPU else ""
    reason = f"{who}{no.reason}"
    answer = asking.intent(
        {
            "answer": "refused",
            "gang": part.gang,
            "refusal": no.kind,
            "code": no.code,
            "reason": reason,
            "answered": now,
        }
    )
    entry = asking.event("refused", f"{asking.offer.pool}: {no.code}: {reason}", now, code=no.code)
    asking.ledger.write(*_host_rows(asking, launched, now), entry, answer)
    measure(Metric.LAUNCHES_REFUSED, kind=no.kind.value, pool=asking.offer.pool, code=no.code)
    _count(launched)
    why = f"{no.code}: {reason}"
    return RetireFirst(reason=why) if launched else PoolRefused(reason=why)


def _write_hosts(asking: Asking, launched: Launches) -> None:
    """The attempt's row goes after its hosts': a crash in between is found by the unanswered intent and done again."""
    now = clock()
    offer, survivors = asking.offer, [host.instance for host in asking.survivors]
    beside = f" beside {len(survivors)} that stayed" if survivors else ""
    hosts = sorted([*(host for _, answer in launched for host in answer.instances), *survivors])
    known = wire.to_json(offer) | {"pool": offer.pool}
    asking.ledger.write(
        *_host_rows(asking, launched, now),
        asking.event("launched", f"{_hosts(asking, launched)}{beside}", now, hosts=hosts),
        attempt_row(asking.run, asking.attempt, {"offer": known, "hosts": hosts, "launched": now}),
        asking.intent({"answer": "launched", "answered": now}),
        run_row(asking.run, _of_the_gang(asking, launched), waits=False),
    )
    _count(launched)
    if asking.attempt > 1:
        measure(Metric.RECOVERIES, pool=offer.pool)


def _of_the_gang(asking: Asking, launched: Launches) -> RunUpdate:
    """For lists."""
    prices = [host.price for host in asking.survivors]
    for part, answer in launched:
        prices += [part.price_of(answer.type).price] * len(answer.instances)
    pool, market = asking.offer.pool, asking.offer.market
    return {"pool": pool, "market": market, "gang": len(prices), "price": sum(prices)}


def _count(launched: Launches) -> None:
    hosts = sum(len(answer.instances) for _, answer in launched)
    if hosts:
        measure(Metric.HOSTS_LAUNCHED, hosts)


def _host_rows(asking: Asking, launched: Launches, now: datetime) -> list[Write]:
    run, attempt = asking.run, asking.attempt
    rows: list[Write] = []
    for part, answer in launched:
        price = part.price_of(answer.type)
        for instance in answer.instances:
            host = BilledHost(
                instance=instance,
                type=answer.type,
                zone=asking.offer.zone,
                market=asking.offer.market,
                price=price.price,
                on_demand_price=price.on_demand_price,
                disk_gib=asking.disk_gib,
                gib_month=asking.plan.gib_month,
                volume_charge=answer.volume_charge,
                launched=now,
            )
            rows.append(launched_row(run, host, attempt=attempt, gang=part.gang))
            rows.append(look_up_row("instance", instance, Owner(run=run, attempt=attempt), now))
    return rows


def _tags(asking: Asking, part: Part, now: datetime) -> dict[str, str]:
    """What the host reads of itself, what every permission to touch it is conditioned on, and what patrol judges by:
    a host needs no ledger to be understood."""
    dearest = max(choice.price for choice in part.choices)
    lease = deadlines.deadline(asking.records, asking.attempt, now) + deadlines.MARGIN
    row = asking.records.run
    own = {} if row.kind == "train" else {"trainyard:kind": row.kind}
    if row.submitter:
        own["trainyard:submitter"] = submitter.tag(row.submitter)
    return own | {
        "trainyard:yard": asking.yard.yard,
        "trainyard:run": asking.run,
        "trainyard:attempt": str(asking.attempt),
        "trainyard:gang": str(part.gang.value),
        "trainyard:gpus": str(max(instance_type(choice.type).gpus for choice in part.choices)),
        "trainyard:lease": wire.stamp(lease),
        "trainyard:after": asking.job.after.hosts.value,
        "trainyard:price": f"{dearest:.6f}",
        "trainyard:disk": str(asking.disk_gib),
        "Name": f"{asking.run} attempt {asking.attempt}",
        **policy.tags(asking.job.policy),
    }
