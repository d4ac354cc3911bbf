"""Launch: ask one pool for what the attempt lacks, or by speed several in one request, of which EC2 takes one. The
workflow comes back for the next pool, or after a wait.

A job whose roles without a GPU have hosts of their own is launched in two requests, one gang each; without the second
gang the first is of no use, and the workflow ends it at once.

Signal asks for more hosts beside an attempt that trains (`more`): for one of min and max workers that has too few.

Where the yard's pool has a whole gang of what the plan would ask for, that is taken, and EC2 not asked.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Literal

from lambdas import environment
from lambdas.aws.dynamodb.ledger import (
    AlreadyWrittenError,
    Ledger,
    Write,
    ask_counted,
    attempt_row,
    cooled_rows,
    event_row,
    intent_row,
    launched_row,
    look_up_row,
    run_row,
)
from lambdas.aws.ec2 import fleet, instances
from lambdas.aws.ec2.fleet import Launched, Refusals
from lambdas.aws.ec2.instances import Instance
from lambdas.core.capacity import initialization, placement
from lambdas.core.capacity.kept_hosts import KeptHosts
from lambdas.core.capacity.placement import FleetRefusal, GiveUp, RetireFirst, Try, TryLater
from lambdas.core.capacity.plan import Part, in_words, parts
from lambdas.core.run import deadlines, growth, pool, readiness, stopping
from lambdas.core.run import waiting as run_waiting
from lambdas.core.run.pool import WarmHost
from lambdas.core.run.records import Records
from lambdas.core.run.updates import IntentUpdate, RunUpdate
from lambdas.environment import YardSettings
from lambdas.steps.entry_point import entry_point
from lambdas.steps.inputs import Answer, LaunchInput
from lambdas.steps.observability import clock, logger, measure, note
from trainyard.core.model import gang, submitter, tokens
from trainyard.core.model.errors import ServiceUnavailable, Stopped
from trainyard.core.model.instance_types import instance_type
from trainyard.core.model.job import Job
from trainyard.core.model.yard import policy, warm
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger.host import BilledHost, HostRow
from trainyard.protocol.ledger.intent import IntentRow, OfferRefusal
from trainyard.protocol.ledger.lookup import Owner
from trainyard.protocol.ledger.run import Waiting
from trainyard.protocol.plan import Offer, Plan, RefusalKind
from trainyard.protocol.tags import Tag
from trainyard.values import wire
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import counted


class Grown(Answer):
    """What came of asking for more hosts, for the log."""

    kind = "grown"


@dataclass(frozen=True, kw_only=True)
class GangLaunched(Answer):
    """The gang is there; `ready_seconds` is how long it may need to get ready."""

    kind = "launched"
    ready_seconds: int


class PoolRefused(Answer):
    """This pool has no room; the next one is asked at once."""

    kind = "refused"


LaunchAnswer = GangLaunched | Grown | PoolRefused | TryLater | RetireFirst | GiveUp


class LaunchSettings(YardSettings):
    launch_templates: tuple[str, ...]
    """One for each rate that a disk may be fetched at, in MiB/s, 0 for none: `300=lt-0123:1`."""
    kms_key: str = ""
    """The ARN of the key that disks are encrypted with, as the templates have it; none: the account's own."""


Launches = list[tuple[Part, Launched]]
"""The parts of an attempt that EC2 launched."""
EVENTS = {TryLater.kind: "waiting", RetireFirst.kind: "start over", GiveUp.kind: "gave up"}
"""The timeline's words."""


@dataclass(frozen=True)
class Asking:
    """One ask of one pool, or of several of which EC2 takes one, from the intent to the answer. `taken`: the index of
    that one, once it is known. `more`: so many hosts beside an attempt that trains, asked for at `asked`. `warm`: hosts
    of the yard's pool in place of an ask, each with the run that had kept it."""

    yard: LaunchSettings
    ledger: Ledger
    records: Records
    attempt: int
    step: Try
    taken: int | None = None
    more: int = 0
    asked: datetime | None = None
    warm: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> str:
        return self.records.run.run

    @property
    def job(self) -> Job:
        assert self.records.job is not None, "an admitted run has a job"
        return self.records.job

    @property
    def plan(self) -> Plan:
        assert self.records.plan is not None, "Plan comes before Launch"
        return self.records.plan

    @property
    def indexes(self) -> tuple[int, ...]:
        """The offers that are asked for what is lacking yet."""
        return (self.step.offer, *self.step.together) if self.taken is None else (self.taken,)

    @property
    def offers(self) -> tuple[Offer, ...]:
        return tuple(self.plan.offers[index] for index in self.indexes)

    @property
    def offer(self) -> Offer:
        """The pool that is asked, or taken; of several, which join each other, the first."""
        return self.offers[0]

    @property
    def pool(self) -> str:
        return in_words(self.offers)

    def into(self, offer: Offer) -> "Asking":
        """Once EC2 has taken this pool."""
        return replace(self, taken=self.plan.offers.index(offer)) if self.step.together else self

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
        return self.records.taken(self.attempt)

    @property
    def lacking(self) -> tuple[Part, ...]:
        survivors = [(host.instance, host.gang, host.type) for host in self.survivors]
        return parts(self.job, self.offers, survivors)

    @property
    def nobody(self) -> str:
        """Why nobody is asked."""
        have = len(self.survivors)
        return (
            f"nobody: {counted(have, 'host')} will do"
            if have < self.job.gang
            else "nobody: no host is missing"
        )

    @property
    def sizes(self) -> str:
        """How many workers there may be, where that is not one number."""
        cluster = self.job.cluster
        least, most = cluster.least_workers, cluster.most_workers
        return f" (cluster.workers: {least} to {most})" if cluster.is_elastic else ""

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

    def intent(self, values: IntentUpdate, *, unless: Literal["token"] | None = None) -> Write:
        return intent_row(self.run, self.attempt, self.step.offer, self.step.round, values, unless=unless)

    def intended(self, values: IntentUpdate) -> tuple[Write, Write]:
        """The ask, and that it is the next of its attempt: of two calls that see the same, one asks."""
        counted = ask_counted(self.run, self.attempt, self.records.asks(self.attempt))
        return self.intent(values, unless="token"), counted

    def event(self, event: str, reason: str, now: datetime, **detail: str | list[str]) -> Write:
        return event_row(
            self.run, note(event, reason, at=now, attempt=self.attempt, pool=self.pool, **detail)
        )


@entry_point
def handler(given: LaunchInput) -> LaunchAnswer:
    yard, run, attempt = environment.read(LaunchSettings), given.run, given.attempt
    ledger, now = Ledger(yard.table_name), clock()
    records = ledger.known(run)
    if given.more:
        return _grow(yard, ledger, records, attempt, now)
    if attempt in records.attempts:
        return _launched("it was launched before this call was repeated")
    if records.stranded(attempt):
        return RetireFirst(reason="an earlier call launched a part of what the attempt needs")
    if left_behind := records.left_behind(attempt):
        why = "; ".join(f"{host.instance}: {host.going}" for host in left_behind)
        return RetireFirst(
            reason=f"hosts that were kept for this attempt are going ({why})", keep=KeptHosts.SURVIVORS
        )
    if open_ask := records.growth():
        _more(_asked_before(yard, ledger, records, open_ask), again=True)
        records = ledger.known(run)
    step = _next_step(records, attempt, now)
    if isinstance(step, Try):
        asking = Asking(yard, ledger, records, attempt, step)
        return _from_pool(asking, now) or _ask(asking)
    told = [event_row(run, note(EVENTS[step.kind], step.reason, at=now, attempt=attempt))]
    if isinstance(step, TryLater):
        told.append(run_row(run, {"waiting": _waiting(records, attempt, step, now)}))
    ledger.write(*told)
    return step


def _waiting(records: Records, attempt: int, step: TryLater, now: datetime) -> Waiting:
    job = records.job
    assert job is not None
    return run_waiting.for_capacity(
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
    job, plan = records.job, records.plan
    assert job is not None
    assert plan is not None, "Plan comes before Launch"
    if records.run.stopping:
        return GiveUp(Stopped.__name__, stopping.reason(records, now))
    broke = deadlines.out_of_money(records, now)
    if broke:
        return GiveUp("LimitReached", broke)
    open_ask = records.unanswered(attempt)
    if open_ask:
        lost = "an earlier call asked this pool and its answer was lost"
        return Try(open_ask.offer, open_ask.round, lost, open_ask.together)
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
        order=job.hardware.order,
    )


def _from_pool(asking: Asking, now: datetime) -> LaunchAnswer | None:
    """A whole gang of the yard's pool, in place of an ask; None where there is none."""
    open_ask = asking.records.unanswered(asking.attempt)
    if open_ask:
        return _taken(_with_warm(asking, open_ask.warm)) if open_ask.warm else None
    if asking.records.run.kind != "train" or asking.survivors:
        return None
    waiting = asking.ledger.pool()
    found = pool.to_take(waiting, asking.plan, asking.job, now) if waiting else None
    found = pool.to_take(_there(found.hosts, now), asking.plan, asking.job, now) if found else None
    if found is None:
        return None
    rounds = [
        row.round
        for row in asking.records.intents
        if (row.attempt, row.offer) == (asking.attempt, found.offer)
    ]
    step = Try(found.offer, max(rounds, default=-1) + 1, "from the pool of the yard")
    asking = replace(asking, step=step, warm={host.instance: host.run for host in found.hosts})
    try:
        asking.ledger.write(*_take(asking, found.hosts, now))
    except AlreadyWrittenError:
        logger.info("%s: another run has taken them, or another call was first", asking.run)
        return _not_first(asking)
    return _taken(asking)


def _not_first(asking: Asking) -> LaunchAnswer | None:
    """What is answered where another call of this state has asked, or the execution is over; None where neither is."""
    records, attempt = asking.ledger.known(asking.run), asking.attempt
    if records.run.cut_short:
        return GiveUp("Aborted", "the execution is over: no host is launched for it")
    if attempt in records.attempts:
        return _launched("another call of this state has launched it")
    if records.asks(attempt) != asking.records.asks(attempt):
        raise ServiceUnavailable(
            f"another call asks for attempt {attempt} of {asking.run}: it is looked at again"
        )
    return None


def _there(hosts: Collection[WarmHost], now: datetime) -> tuple[WarmHost, ...]:
    """Those that EC2 knows to run, that are still the pool's by their tag, and that nobody holds."""
    tags = {
        host.id: host.tags
        for host in instances.of_ids([host.instance for host in hosts])
        if host.state == "running" and not pool.is_held(host.tags, now)
    }
    until = {name: warm.warm_until(found) for name, found in tags.items()}
    return tuple(host for host in hosts if (end := until.get(host.instance)) is not None and end > now)


def _take(asking: Asking, hosts: Collection[WarmHost], now: datetime) -> list[Write]:
    """One transaction: they are this run's and the pool has them no more, or neither."""
    kept = ", ".join(sorted({host.run for host in hosts}))
    reason = f"{len(hosts)} x {asking.offer.pool}, which wait in the yard's pool, kept by {kept}"
    values: IntentUpdate = {
        "token": asking.token(Gang.MAIN, 0),
        "offer_pool": asking.offer.pool,
        "at": now,
        "warm": tuple(sorted(asking.warm)),
    }
    return [
        *asking.intended(values),
        run_row(asking.run, {"state": "Launch", "attempt": asking.attempt}, unless="cut_short"),
        asking.event("taking", reason, now),
        *cooled_rows(hosts, now),
        *_host_rows(asking, _as_launched(asking), now),
    ]


def _with_warm(asking: Asking, hosts: Collection[str]) -> Asking:
    """Those that an earlier call has taken."""
    rows = asking.records.hosts
    return replace(asking, warm={host: rows[host].taken or "" for host in hosts if host in rows})


def _as_launched(asking: Asking) -> Launches:
    (choice,) = asking.offer.choices(Gang.MAIN)
    part = Part(Gang.MAIN, len(asking.warm), (choice,), least=len(asking.warm))
    return [(part, Launched(tuple(sorted(asking.warm)), choice.type, asking.offer))]


def _taken(asking: Asking) -> LaunchAnswer:
    """The tags, by which the hosts learn whose they are; then the answer. May happen twice."""
    launched = _as_launched(asking)
    ((part, _),) = launched
    tags = {key: value for key, value in _tags(asking, part, clock()).items() if key != Tag.YARD}
    instances.retag(sorted(asking.warm), tags)
    _write_hosts(asking, launched)
    return _launched(_hosts(asking, launched))


def _ask(asking: Asking) -> LaunchAnswer:
    """Write the intent, look for what an earlier call may have launched, ask EC2, write the answer."""
    there: tuple[Instance, ...] = ()
    if asking.records.unanswered(asking.attempt):
        there = instances.of_run(asking.run, attempt=asking.attempt)
    else:
        try:
            _intend(asking)
        except AlreadyWrittenError:
            instead = _not_first(asking)
            if instead is None:
                raise
            return instead
    launched: Launches = []
    for number in range(len(asking.lacking)):
        part = asking.lacking[number]
        answer = _launched_before(asking, part, there) or _launch(asking, part)
        if not isinstance(answer, Launched):
            return _refused(asking, part, answer, launched)
        asking = asking.into(answer.offer)
        part = asking.lacking[number]
        launched.append((part, answer))
        if len(answer.instances) < part.least:
            return _refused(asking, part, (_too_few(part, answer),), launched)
    _write_hosts(asking, launched)
    return _launched(_hosts(asking, launched))


def _intend(asking: Asking) -> None:
    """Raises AlreadyWrittenError where the execution is over (steps.conclusion), or another call was first."""
    now, rate, lacking = clock(), asking.offer.initialization_rate, asking.lacking
    main = sum(part.count for part in lacking if part.gang is Gang.MAIN)
    beside = [
        f"; beside it {part.count} x {' or '.join(dict.fromkeys(choice.type for choice in part.choices))}"
        for part in lacking
        if part.gang is Gang.CPU
    ]
    reason = "".join([f"{main} x {asking.step.reason}", *beside]) if lacking else asking.nobody
    values: IntentUpdate = {
        "token": asking.token(Gang.MAIN, rate),
        "cpu_token": asking.token(Gang.CPU, rate) if asking.job.cpu_gang else None,
        "offer_pool": asking.pool,
        "at": now,
    }
    if asking.step.together:
        values["together"] = asking.step.together
    asking.ledger.write(
        *asking.intended(values),
        run_row(asking.run, {"state": "Launch", "attempt": asking.attempt}, unless="cut_short"),
        asking.event("asking", reason, now),
    )


def _grow(yard: LaunchSettings, ledger: Ledger, records: Records, attempt: int, now: datetime) -> Grown:
    """More hosts beside an attempt that trains. Asked twice, or late, this changes nothing."""
    if open_ask := records.growth():
        return _more(_asked_before(yard, ledger, records, open_ask), again=True)
    wanted, offer = growth.decide(records, now), records.held_offer(attempt + 1)
    if attempt != records.run.attempt or offer is None or not isinstance(wanted, growth.Ask):
        return Grown(reason="no more hosts are wanted")
    rounds = [row.round for row in records.intents if (row.attempt, row.offer) == (attempt, offer)]
    step = Try(offer, max(rounds, default=-1) + 1, "the pool of those that train")
    asking = Asking(yard, ledger, records, attempt, step, more=wanted.count, asked=now)
    try:
        _intend_more(asking, now)
    except AlreadyWrittenError:
        return Grown(reason="somebody else asks for them, or the attempt is over")
    return _more(asking)


def _asked_before(yard: LaunchSettings, ledger: Ledger, records: Records, row: IntentRow) -> Asking:
    """The ask for more hosts of a call that died, once more."""
    step = Try(row.offer, row.round, "an earlier call asked this pool and its answer was lost")
    return Asking(yard, ledger, records, row.attempt, step, more=row.more or 0, asked=row.at)


def _intend_more(asking: Asking, now: datetime) -> None:
    """Raises AlreadyWrittenError where another call asks, or the attempt or its execution is over."""
    rate, have = asking.offer.initialization_rate, growth.workers_of(asking.records, asking.attempt)
    reason = f"{asking.more} x {asking.offer.pool}, beside the {have} that train{asking.sizes}"
    values: IntentUpdate = {
        "token": asking.token(Gang.MAIN, rate),
        "offer_pool": asking.offer.pool,
        "at": now,
        "more": asking.more,
    }
    asking.ledger.write(
        asking.intent(values, unless="token"),
        attempt_row(asking.run, asking.attempt, {"asked_more": now}, unless="ending"),
        run_row(asking.run, {"grows": now + growth.APART}, unless="cut_short"),
        asking.event("asking for more hosts", reason, now),
    )


def _more(asking: Asking, *, again: bool = False) -> Grown:
    """Ask EC2, `again` looking first; write the answer: hosts that join the next attempt, as many as there are."""
    part = Part(Gang.MAIN, asking.more, asking.offer.choices(Gang.MAIN), least=1)
    there = instances.of_run(asking.run, attempt=asking.attempt) if again else ()
    unknown = [host for host in there if host.id not in asking.records.hosts]
    found = _launched_before(asking, part, unknown)
    if found and len(found.instances) >= asking.more:
        answer: Launched | Refusals = found
    else:
        answer = _launch(asking, part)
        answer = found if found and not isinstance(answer, Launched) else answer
    if not isinstance(answer, Launched):
        no = _refused(asking, part, answer, [])
        return Grown(reason=no.reason)
    _write_more(asking, part, answer)
    return Grown(reason=f"{len(answer.instances)} more hosts in {asking.offer.pool}")


def _write_more(asking: Asking, part: Part, answer: Launched) -> None:
    """The answer is written first: signal knows a host of whom nothing is known any more by its row."""
    now, launched = clock(), [(part, answer)]
    price = part.price_of(answer.type).price * len(answer.instances)
    reason = f"{_hosts(asking, launched)}, which join when they are ready, for ${price:.3f} an hour more"
    asking.ledger.write(
        asking.intent({"answer": "launched", "answered": now}),
        asking.event("launched more hosts", reason, now, hosts=sorted(answer.instances)),
        *_host_rows(asking, launched, now),
    )
    _count(launched)
    records = asking.ledger.read(asking.run)
    if records and records.run.ended is None:  # its dollars last for less long with them
        deadline = deadlines.deadline(records, records.run.attempt, now)
        asking.ledger.write(run_row(asking.run, {"deadline": deadline}))


def _launched_before(asking: Asking, part: Part, there: Collection[Instance]) -> Launched | None:
    """What of these an earlier call whose answer is not written down has launched as this part, in one of the pools
    that it asked."""
    for offer in asking.offers:
        types = {choice.type for choice in offer.choices(part.gang) if choice in part.choices}
        mine = [
            host
            for host in there
            if host.gang is part.gang
            and host.type in types
            and (host.zone, host.market) == (offer.zone, offer.market)
        ]
        if mine:
            return Launched(tuple(host.id for host in mine), mine[0].type, offer, mine[0].volume_charge)
    return None


def _launch(asking: Asking, part: Part) -> Launched | Refusals:
    """At the plan's initialization rate. EC2 refuses it where other volumes of the region use what is allowed, or where
    it has no room for it, with words that nobody has published: whatever is no reason of its own, then without one."""
    rate = asking.offer.initialization_rate
    answer = _request(asking, part, rate)
    if not rate or isinstance(answer, Launched):
        return answer
    no = next((each for each in answer if each.kind is RefusalKind.CONFIGURATION), None)
    if no is None:
        return answer
    reason = f"again without an initialization rate; at {rate} MiB/s: {no.code}: {no.reason}"
    asking.ledger.write(asking.event("asking", reason, clock()))
    return _request(asking, part, 0)


def _request(asking: Asking, part: Part, rate: int) -> Launched | Refusals:
    charge = asking.volume_charge(rate)
    answer = fleet.launch(
        part,
        asking.offers,
        fleet.template(asking.yard.launch_templates, rate),
        image=asking.plan.image,
        token=asking.token(part.gang, rate),
        tags=_tags(asking, part, clock()) | ({Tag.VOLUME_CHARGE: f"{charge:.6f}"} if rate else {}),
        root_gib=asking.root_gib,
        key=asking.yard.kms_key,
    )
    return replace(answer, volume_charge=charge) if isinstance(answer, Launched) else answer


def _too_few(part: Part, launched: Launched) -> FleetRefusal:
    """EC2 promised all or nothing; should it ever break that, the part is known, retired, and another pool asked."""
    reason = f"EC2 launched {len(launched.instances)} of {counted(part.count, 'host')}; a part of a gang is of no use"
    return FleetRefusal(RefusalKind.CAPACITY, "Partial", reason)


def _launched(reason: str) -> GangLaunched:
    return GangLaunched(reason=reason, ready_seconds=int(readiness.PATIENCE.total_seconds()))


def _hosts(asking: Asking, launched: Launches) -> str:
    if not launched:
        return f"no new host in {asking.pool}"
    count = sum(len(answer.instances) for _, answer in launched)
    if asking.warm:
        return f"{count} warm host{'' if count == 1 else 's'} of {asking.offer.pool}, from the yard's pool"
    beside = [
        f", {len(answer.instances)} of them {answer.type}"
        for part, answer in launched
        if part.gang is Gang.CPU
    ]
    return "".join([f"{count} host{'' if count == 1 else 's'} in {asking.offer.pool}", *beside])


def _refused(asking: Asking, part: Part, nos: Refusals, launched: Launches) -> RetireFirst | PoolRefused:
    """EC2 refused this part, in each of the pools that it was asked for. What it has launched of the attempt is written
    to the ledger, and ended at once."""
    now, no = clock(), _in_sum(nos)
    who = f"{gang.called(asking.job, part.gang)}: " if part.gang is Gang.CPU else ""
    reason = f"{who}{no.reason}"
    values: IntentUpdate = {
        "answer": "refused",
        "gang": part.gang,
        "refusal": no.kind,
        "code": no.code,
        "reason": reason,
        "answered": now,
    }
    if asking.taken is not None:
        values |= {"taken": asking.taken, "offer_pool": asking.pool}
    if len(nos) > 1:
        values["refusals"] = tuple(
            OfferRefusal(index, each.kind, each.code, each.reason[: placement.MOST_REASON])
            for index, each in zip(asking.indexes, nos, strict=True)
        )
    entry = asking.event("refused", f"{asking.pool}: {no.code}: {reason}", now, code=no.code)
    asking.ledger.write(*_host_rows(asking, launched, now), entry, asking.intent(values))
    for offer, each in zip(asking.offers, nos, strict=True):
        measure(Metric.LAUNCHES_REFUSED, kind=each.kind.value, pool=offer.pool, code=each.code)
    _count(launched)
    why = f"{no.code}: {reason}"
    return RetireFirst(reason=why) if launched else PoolRefused(reason=why)


def _in_sum(nos: Refusals) -> FleetRefusal:
    """The refusal that most of the pools have; the reason says how many have which."""
    if len(nos) == 1:
        return nos[0]
    (code, _), *_ = counted = Counter(no.code for no in nos).most_common()
    most = next(no for no in nos if no.code == code)
    how_many = ", ".join(f"{count} x {code}" for code, count in counted)
    return replace(most, reason=f"{how_many}. One of them: {most.reason}")


def _write_hosts(asking: Asking, launched: Launches) -> None:
    """The attempt's row goes after its hosts': a crash in between is found by the unanswered intent and done again."""
    now = clock()
    offer, survivors = asking.offer, [host.instance for host in asking.survivors]
    beside = f" beside {len(survivors)} that stayed" if survivors else ""
    hosts = sorted([*(host for _, answer in launched for host in answer.instances), *survivors])
    known = wire.to_json(offer) | {"pool": offer.pool}
    grows = growth.next_ask(asking.records, offer, len(hosts), now)
    answer: IntentUpdate = {"answer": "launched", "answered": now}
    if asking.taken is not None:
        answer |= {"taken": asking.taken, "offer_pool": offer.pool}
    of_the_run = _of_the_gang(asking, launched)
    if grows:
        of_the_run["grows"] = grows
    asking.ledger.write(
        *_host_rows(asking, launched, now),
        asking.event("launched", f"{_hosts(asking, launched)}{beside}{asking.sizes}", now, hosts=hosts),
        attempt_row(asking.run, asking.attempt, {"offer": known, "hosts": tuple(hosts), "launched": now}),
        asking.intent(answer),
        run_row(asking.run, of_the_run, waits=False, grows=grows is not None),
    )
    if not asking.warm:
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
            before = asking.warm.get(instance)
            owner = Owner(run=run, attempt=attempt, before=before)
            rows.append(launched_row(run, host, attempt=attempt, gang=part.gang, taken=before))
            rows.append(look_up_row("instance", instance, owner, now))
    return rows


def _tags(asking: Asking, part: Part, now: datetime) -> dict[str, str]:
    """What the host reads of itself, what every permission to touch it is conditioned on, and what patrol judges by:
    a host needs no ledger to be understood. Of one that is to join an attempt the lease begins with the ask, and ends
    soon where nobody starts it."""
    dearest = max(choice.price for choice in part.choices)
    if asking.asked:
        lease = asking.asked + growth.LEASE
    else:
        lease = deadlines.deadline(asking.records, asking.attempt, now) + deadlines.MARGIN
    row = asking.records.run
    own = {} if row.kind == "train" else {Tag.KIND: row.kind}
    if row.submitter:
        own[Tag.SUBMITTER] = submitter.tag(row.submitter)
    if row.dev:
        own[Tag.DEV] = row.dev
    return own | {
        Tag.YARD: asking.yard.yard,
        Tag.RUN: asking.run,
        Tag.ATTEMPT: str(asking.attempt),
        Tag.GANG: str(part.gang.value),
        Tag.GPUS: str(max(instance_type(choice.type).gpus for choice in part.choices)),
        Tag.LEASE: wire.stamp(lease),
        Tag.AFTER: asking.job.after.hosts.value,
        Tag.PRICE: f"{dearest:.6f}",
        Tag.DISK: str(asking.disk_gib),
        "Name": f"{asking.run} attempt {asking.attempt}",
        **policy.tags(asking.job.policy),
    }
