"""What the ledger knows about one run: its rows as nouns, and what may be set on each. Keys: docs/contracts/ledger.md.

Of an update every attribute may be left out, and None is; a unit test holds it to the row that it updates."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, TypedDict

from lambdas.core.capacity.cost import BilledHost
from lambdas.core.capacity.plan import Offer, Plan, Refusal, RefusalKind
from lambdas.core.run.outcome import Ending, Outcome, ending_of
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.waiting import Waiting
from trainyard.core.model import gang
from trainyard.core.model.gang import PROGRAM_SILENT, Gang, Member, StopReason
from trainyard.core.model.images.imaging import Imaging
from trainyard.core.model.instance_types import Market
from trainyard.core.model.job import Job
from trainyard.protocol import keys
from trainyard.protocol.cluster import Role
from trainyard.values import wire
from trainyard.values.lazy import dataclass
from trainyard.values.quantities import counted, rounded

ASKS_FOR = timedelta(minutes=1)
"""What an ask of EC2 takes at the longest, but for throttles; patrol concludes no run sooner."""
WAITING = ("train", "await_hosts")
"""The tokens an attempt's end can answer."""
FOR_ANOTHER = (StopReason.PEER, StopReason.KILLED, StopReason.HANGS)
"""Why a chief leaves that had nobody to save with: others may still be in the attempt."""
ENDED_WITH_IT: Mapping[str, tuple[str, ...]] = {"train": WAITING, "bake": ("install", "test", "generalize")}
"""The same by the kind of the run. An image that EC2 makes goes on when its host is gone: its own end answers."""


@dataclass(frozen=True)
class Moved:
    """How the image parameters move: current becomes `image`, previous what was current, `before`."""

    image: str
    before: str


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """The run itself. `job` is None where it could not be read, `warnings` what of its program will probably fail.
    `image_id` is the image that its hosts start from, `image` the one that it has made. `hold_hours`: how long the host
    of a launch is held. `outcome`, `error` and `reason` are how it ended. Of a bake: `recipe` is recipe.json and
    `recipe_sha256` that of the file, `published` how the image parameters were moved. `cut_short`: when it was learned
    that the execution was over before its Conclude. `imaging`: the host that becomes an image, of a snapshot or at the
    end of a run. `month` is that of `created`: by it lists find the run. `name` is the job's, the recipe's or the
    family's. `pool`, `market`, `gang` (how many hosts) and `price` (dollars an hour of all of them) are those of its
    last launch, `waiting` what it waits for while it has none, `dollars` what it has cost when it ended and
    `saved_dollars` what it would have cost more on demand. `dev` is the name of the dev host that a
    launch brings up. `submitter` is who asked for a training run or a dev host, for whom IAM
    vouches (core/model/submitter.py), `requester` the account that S3 told of. `stopping`: when a
    person asked for it to be stopped, `stopped_by`. `grows`: when more hosts may be asked for, where the job would have
    them; None: it has all.
    `pool_dollars`: what its hosts have cost in the pool, which are among its `dollars`. `notifying`: when a function
    began to send the notification of its end, `notified`: when that was sent."""

    run: str
    kind: str
    state: str
    attempt: int
    created: datetime
    execution_arn: str
    month: str = ""
    name: str | None = None
    job: Job | None = None
    job_key: str | None = None
    submitter: str | None = None
    requester: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    waiting: Waiting | None = None
    pool: str | None = None
    market: Market | None = None
    gang: int | None = None
    price: float | None = None
    dollars: float | None = None
    saved_dollars: float | None = None
    pool_dollars: float | None = None
    deadline: datetime | None = None
    progress: Mapping[str, Any] | None = None
    image_id: str | None = None
    hold_hours: float | None = None
    image: str | None = None
    recipe: Mapping[str, Any] | None = None
    recipe_sha256: str | None = None
    published: Moved | None = None
    imaging: Imaging | None = None
    dev: str | None = None
    outcome: Outcome | None = None
    error: str | None = None
    reason: str | None = None
    cut_short: datetime | None = None
    stopping: datetime | None = None
    stopped_by: str | None = None
    grows: datetime | None = None
    ended: datetime | None = None
    notifying: datetime | None = None
    notified: datetime | None = None

    @property
    def lacks_notification(self) -> bool:
        """Return True if the run has ended and the notification of its end is not sent yet."""
        return self.kind == "train" and self.ended is not None and self.notified is None

    def is_of(self, execution: str | None, started: datetime | None = None) -> bool:
        """Whether it is this execution's: executions of two workflows may have one name, and with it one run; and Step
        Functions gives a name anew after 90 days, which only `started` tells apart. None asks for nothing."""
        same = execution is None or self.execution_arn == execution
        return same and (started is None or wire.stamp(self.created) == wire.stamp(started))


class RunUpdate(TypedDict, total=False):
    kind: str
    state: str
    attempt: int
    created: datetime
    execution_arn: str
    month: str
    name: str | None
    job: Job | None
    job_key: str | None
    submitter: str
    requester: str | None
    labels: Mapping[str, str]
    warnings: tuple[str, ...]
    waiting: Waiting
    pool: str
    market: Market
    gang: int
    price: float
    dollars: float
    saved_dollars: float | None
    deadline: datetime
    progress: Mapping[str, Any]
    image_id: str | None
    hold_hours: float | None
    image: str
    recipe: Mapping[str, Any]
    recipe_sha256: str
    published: Moved
    imaging: Imaging | None
    dev: str
    outcome: Outcome
    error: str | None
    reason: str
    cut_short: datetime
    stopping: datetime
    stopped_by: str
    grows: datetime
    ended: datetime
    notifying: datetime
    notified: datetime


@dataclass(frozen=True, kw_only=True)
class HostRow(Member, BilledHost):
    """One host. `ready` and `stopped` are attempt numbers: the last one it said so for. `pooled` is when it went into
    the pool, `cooled` when it left that; `taken`: of a host from the pool, the run that had kept it."""

    attempt: int
    ready: int = 0
    ready_at: datetime | None = None
    stopped: int = 0
    stopped_at: datetime | None = None
    why: str | None = None
    warned: str | None = None
    lost: str | None = None
    releasing: datetime | None = None
    pooled: datetime | None = None
    cooled: datetime | None = None
    taken: str | None = None

    @property
    def is_unended(self) -> bool:
        """Whether it is there, well or lost: neither gone, nor is anybody about to end it."""
        return self.ended is None and self.releasing is None

    @property
    def lives(self) -> bool:
        """Whether it is there to go on with."""
        return self.is_unended and self.lost is None

    @property
    def going(self) -> str | None:
        """Why no attempt can count on it any more, though it may still live; None for one that stays."""
        if self.lost or not (self.warned or self.why == StopReason.INTERRUPTED):
            return self.lost
        return "EC2 takes it back"

    @property
    def stays(self) -> bool:
        """Whether another attempt can count on it."""
        return self.lives and self.going is None


class HostUpdate(TypedDict, total=False):
    address: str | None
    ready: int
    ready_at: datetime
    stopped: int
    stopped_at: datetime
    why: str
    warned: str
    lost: str
    releasing: datetime
    pooled: datetime
    cooled: datetime
    ended: datetime


@dataclass(frozen=True)
class OfferRefusal:
    """What one offer of several that a request asked was refused with."""

    offer: int
    kind: RefusalKind
    code: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class IntentRow:
    """One ask, written before EC2 was asked. `answer` is None when nobody knows what came of it; `gang` is the one
    that was refused. `token` is that of the request, `cpu_token` that of the second gang's; `offer_pool` is for
    people who read the table. `more`: how many hosts were asked for beside those that trained; None: for an attempt
    that had yet to begin. `warm`: these hosts of the pool were taken, and EC2 was not asked. `together`: what the same
    request asked beside the offer; `taken`: the one of them that EC2 has taken; `refusals`: each one's, where none."""

    attempt: int
    offer: int
    round: int
    token: str
    at: datetime
    cpu_token: str | None = None
    offer_pool: str | None = None
    answered: datetime | None = None
    answer: str | None = None
    gang: Gang = Gang.MAIN
    refusal: str | None = None
    code: str | None = None
    reason: str | None = None
    more: int | None = None
    warm: tuple[str, ...] = ()
    together: tuple[int, ...] = ()
    taken: int | None = None
    refusals: tuple[OfferRefusal, ...] = ()

    @property
    def where(self) -> int:
        """The offer that was asked, or that EC2 has taken of several."""
        return self.offer if self.taken is None else self.taken

    def answers(self) -> list[tuple[int, str | None, str | None]]:
        """The offers that it says something of, each with code and reason of its refusal."""
        if self.refusals:
            return [(each.offer, each.code, each.reason) for each in self.refusals]
        asked = (self.offer, *self.together) if self.answer is None else (self.where,)
        return [(offer, self.code, self.reason) for offer in asked]

    def refused(self) -> tuple[Refusal, ...]:
        """What each offer has said that has refused; nothing while nobody has."""
        if self.answer != "refused":
            return ()
        alone = OfferRefusal(
            self.where,
            RefusalKind(self.refusal or RefusalKind.CAPACITY),
            self.code or "",
            self.reason or "",
        )
        return tuple(
            Refusal(
                offer=each.offer,
                round=self.round,
                gang=self.gang,
                kind=each.kind,
                code=each.code,
                reason=each.reason,
                at=self.answered or self.at,
                lead=self.offer if self.together else None,
            )
            for each in self.refusals or (alone,)
        )


class IntentUpdate(TypedDict, total=False):
    token: str
    at: datetime
    cpu_token: str | None
    offer_pool: str
    answered: datetime
    answer: str
    gang: Gang
    refusal: RefusalKind
    code: str
    reason: str
    more: int
    warm: tuple[str, ...]
    together: tuple[int, ...]
    taken: int
    refusals: tuple[OfferRefusal, ...]


@dataclass(frozen=True, kw_only=True)
class AttemptRow:
    """One attempt. `error` and `cause` are what its token was, or will be, answered with. `resumed` is what its program
    found when it restored (`step`, `verified`, ...), None when it said nothing of that; `reported` the last step that
    its chief has reported, `checkpointed` that of its last whole checkpoint where the program tells steps, `saved` when
    that was whole. `capped` is when its gang was asked to leave because the run's hours or dollars are used up,
    `asked_to_stop` because somebody has stopped the run, `growing` because more hosts are there to go on with;
    `asked_more` is when such were asked for last."""

    attempt: int
    offer: Mapping[str, Any]
    hosts: tuple[str, ...]
    launched: datetime
    gang_ready: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    ending: Ending | None = None
    reason: str | None = None
    error: str | None = None
    cause: str | None = None
    from_step: int | None = None
    to_step: int | None = None
    resumed: Mapping[str, Any] | None = None
    reported: int | None = None
    checkpointed: int | None = None
    saved: datetime | None = None
    asked: datetime | None = None
    asked_to_stop: datetime | None = None
    capped: datetime | None = None
    asked_more: datetime | None = None
    growing: datetime | None = None
    but: tuple[str, ...] = ()
    """What speaks against its success, a sentence each, though its program ended with 0."""

    @property
    def reached(self) -> int | None:
        """The last step that anybody has told of it; None before its first."""
        return self.reached_with(self.to_step)

    def reached_with(self, step: int | None) -> int | None:
        """The last step, with what somebody says now who may have seen less of it than others, or nothing at all."""
        told = (step, self.reported, self.checkpointed)
        return max((step for step in told if step is not None), default=None)

    @property
    def pool(self) -> str:
        """Its offer in words."""
        return str(self.offer.get("pool", ""))

    @property
    def trouble(self) -> Trouble | None:
        """How it ended badly; None while it goes on and when it ended well."""
        return Trouble.caught(self.error, self.cause or "") if self.error else None


class AttemptUpdate(TypedDict, total=False):
    offer: Mapping[str, Any]
    hosts: Sequence[str]
    launched: datetime
    gang_ready: datetime
    started: datetime
    ended: datetime
    ending: Ending
    reason: str | None
    error: str | None
    cause: str | None
    from_step: int
    to_step: int | None
    resumed: Mapping[str, Any] | None
    reported: int
    checkpointed: int
    saved: datetime
    asked: datetime
    asked_to_stop: datetime
    capped: datetime
    asked_more: datetime
    growing: datetime
    but: tuple[str, ...]


def ended_badly(trouble: Trouble, now: datetime) -> AttemptUpdate:
    """What an attempt that trouble ended keeps of it."""
    return {
        "ending": ending_of(trouble.error),
        "ended": now,
        "reason": trouble.reason,
        "error": trouble.error,
        "cause": trouble.to_cause(),
    }


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    attempt: int
    wait: str
    token: str
    stored: datetime
    answered: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class WaitRow:
    """What a wait is for: the command that was sent for it, or the image that EC2 makes. `since` is when it began,
    however often its state has been entered."""

    attempt: int
    wait: str
    since: datetime
    command: str | None = None
    image: str | None = None


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Which run an instance, an image or a command belongs to, and which wait of it the thing answers. `before`: whose
    the host was before it was taken from the pool."""

    run: str
    attempt: int = 1
    wait: str | None = None
    before: str | None = None


@dataclass(frozen=True)
class Records:
    """All rows of a run but its timeline."""

    run: RunRow
    planned: Mapping[str, Any] | None = None
    """The row of its plan."""
    hosts: Mapping[str, HostRow] = field(default_factory=dict)
    attempts: Mapping[int, AttemptRow] = field(default_factory=dict)
    intents: tuple[IntentRow, ...] = ()
    tokens: Mapping[tuple[int, str], TokenRow] = field(default_factory=dict)
    waits: Mapping[tuple[int, str], WaitRow] = field(default_factory=dict)

    @cached_property
    def plan(self) -> Plan | None:
        """Read from its row when somebody asks: it is the largest of all rows, and most words of hosts need none."""
        return None if self.planned is None else wire.from_json(Plan, self.planned)

    @property
    def torn(self) -> str | None:
        """Which rows of the current attempt are gone though it was launched; None while all are there. Nobody of ours
        takes rows away, and without these no host's word can be understood. The host of a snapshot is another run's."""
        if self.run.kind == "snapshot":
            return None
        number = self.run.attempt
        row = self.attempts.get(number)
        if row is None:
            launched = any(
                each.attempt == number and each.answer == "launched" and each.more is None
                for each in self.intents
            )
            waited = any((number, wait) in self.tokens for wait in WAITING)
            return f"attempt {number}" if launched or waited else None
        return ", ".join(sorted(set(row.hosts) - set(self.hosts))) or None

    def waiting(self, attempt: int, waits: Iterable[str] = WAITING) -> TokenRow | None:
        """The token that waits for this attempt's news, if one does."""
        rows = (self.tokens.get((attempt, wait)) for wait in waits)
        return next((row for row in rows if row is not None and row.answered is None), None)

    def first_market(self, attempt: int) -> Market | None:
        """The market to ask first, before the plan's order counts: on demand for a lone host that follows one which
        EC2 took back, since it has no checkpoint to go on from."""
        earlier = (row.ending for number, row in self.attempts.items() if number < attempt)
        alone = self.run.kind != "train"
        return Market.ON_DEMAND if alone and Ending.INTERRUPTED in earlier else None

    def failed_offers(self, attempt: int) -> tuple[int, ...]:
        """The offers to ask after all others: those that a lone host of an earlier attempt came from and failed."""
        if self.run.kind == "train":
            return ()
        return tuple(row.where for row in self.intents if row.attempt < attempt and row.answer == "launched")

    def members(self, attempt: int) -> tuple[HostRow, ...]:
        """The hosts of that attempt, both gangs, sorted by id."""
        row = self.attempts.get(attempt)
        return tuple(self.hosts[host] for host in sorted(row.hosts) if host in self.hosts) if row else ()

    def assigned(self, attempt: int) -> tuple[tuple[Role, HostRow], ...]:
        """The hosts of that attempt with their roles, the chief first."""
        return tuple(
            (assignment.role, self.hosts[assignment.instance]) for assignment in self.assignments(attempt)
        )

    def assignments(self, attempt: int) -> tuple[gang.Assignment, ...]:
        """The same with their numbers."""
        assert self.run.job is not None, "only a job's hosts have roles"
        return tuple(gang.assignments(self.run.job, self.members(attempt)))

    def chief(self, attempt: int) -> HostRow | None:
        """The host that speaks for that attempt and saves; None before the attempt is launched."""
        return next((host for role, host in self.assigned(attempt) if role is Role.CHIEF), None)

    def stranded(self, attempt: int) -> tuple[HostRow, ...]:
        """The hosts that were launched for this attempt with a part of it missing, and that nobody has ended yet."""
        if attempt in self.attempts or self.unanswered(attempt):
            return ()
        return tuple(host for host in self.hosts.values() if host.attempt == attempt and host.lives)

    def ready(self, attempt: int) -> frozenset[str]:
        """The members that wait for this attempt's start: they said so for it, or for an earlier one that never came
        as far as Train, so that they wait still."""
        return frozenset(
            host.instance
            for host in self.members(attempt)
            if host.ready and all((n, "train") not in self.tokens for n in range(host.ready, attempt))
        )

    def survivors(self, attempt: int) -> tuple[HostRow, ...]:
        """The hosts that an attempt before this one launched and that stay."""
        return tuple(host for host in self.hosts.values() if host.attempt < attempt and host.stays)

    def left_behind(self, attempt: int) -> tuple[HostRow, ...]:
        """The hosts that an attempt before this one has kept, that went meanwhile (EC2 takes them back, or they are
        lost), and that nobody has ended yet: this attempt cannot count on them."""
        if attempt in self.attempts or self.unanswered(attempt):
            return ()
        before = (host for host in self.hosts.values() if host.attempt < attempt)
        return tuple(host for host in before if host.going and host.is_unended)

    def newcomers(self) -> tuple[HostRow, ...]:
        """The hosts that were launched beside the current attempt, to join the next one, and that nobody has ended:
        also those that have failed. Only jobs of min and max workers have any."""
        row, job = self.attempts.get(self.run.attempt), self.run.job
        if row is None or job is None or not job.cluster.is_elastic:
            return ()
        others = (host for host in self.hosts.values() if host.instance not in row.hosts)
        return tuple(host for host in others if host.is_unended)

    def taken(self, attempt: int) -> tuple[HostRow, ...]:
        """The survivors with which that attempt begins. Where those that have been ready are enough nobody waits for
        the others, which join later."""
        survivors, job = self.survivors(attempt), self.run.job
        ready = tuple(host for host in survivors if host.ready)
        enough = (
            job is not None
            and job.cluster.is_elastic
            and all(
                sum(host.gang is which for host in ready) >= gang.size(job.at_least, which) for which in Gang
            )
        )
        return ready if enough else survivors

    def growth(self) -> IntentRow | None:
        """The ask for more hosts whose answer was never written."""
        return next((row for row in self.intents if row.more is not None and row.answer is None), None)

    def refusals(self, attempt: int) -> tuple[Refusal, ...]:
        """The refusals of this attempt's search, oldest first."""
        asks = sorted(self._asks(attempt), key=lambda row: (row.round, row.at))
        return tuple(refusal for row in asks for refusal in row.refused())

    def unanswered(self, attempt: int) -> IntentRow | None:
        """The ask of this attempt whose answer was never written: the function died in between."""
        return next((row for row in self._asks(attempt) if row.answer is None), None)

    def asks(self, attempt: int) -> int:
        """How often hosts were asked for, of EC2 or of the yard's pool, that the attempt begins with."""
        return len(self._asks(attempt))

    def _asks(self, attempt: int) -> list[IntentRow]:
        return [row for row in self.intents if row.attempt == attempt and row.more is None]

    def is_asking(self, now: datetime) -> bool:
        """Whether Launch may still be waiting for EC2's answer. Patrol, which comes later, takes it for dead."""
        return any(row.answer is None and now - row.at < ASKS_FOR for row in self.intents)

    def searching_since(self, attempt: int, now: datetime) -> datetime:
        """When this attempt's search for capacity began."""
        return min((row.at for row in self.intents if row.attempt == attempt), default=now)

    def held_offer(self, attempt: int) -> int | None:
        """The index of the offer in which survivors live; None when nobody survives."""
        survivors = self.survivors(attempt)
        offers = self.plan.offers if survivors and self.plan else ()
        return next(
            (n for n, offer in enumerate(offers) if all(_is_of(host, offer) for host in survivors)), None
        )

    def asked(self) -> list[dict[str, Any]]:
        """Every pool that was asked, in order, and what it answered: the second half of plan.json."""
        offers = self.plan.offers if self.plan else ()
        return [
            {
                "attempt": row.attempt,
                "pool": offers[offer].pool,
                "at": wire.stamp(row.at),
                "answer": row.answer or "unknown",
                "code": code,
                "reason": reason,
            }
            for row in sorted(self.intents, key=lambda row: row.at)
            for offer, code, reason in row.answers()
        ]


ROWS: Mapping[str, tuple[type, tuple[str, ...], str]] = {
    "host": (HostRow, ("instance",), "launched"),
    "attempt": (AttemptRow, ("attempt",), "launched"),
    "intent": (IntentRow, ("attempt", "offer", "round"), "token"),
    "token": (TokenRow, ("attempt", "wait"), "token"),
    "wait": (WaitRow, ("attempt", "wait"), "since"),
}
"""By the first word of a row's key: its noun, what the other words of the key are, and the attribute without which it
was deleted, and a late word wrote a piece of it again."""


def of_rows(run: str, rows: Iterable[Mapping[str, Any]]) -> Records | None:
    """The records these rows hold; None when the run itself is not among them."""
    found: RunRow | None = None
    planned: Mapping[str, Any] | None = None
    others: dict[str, dict[Any, Any]] = {kind: {} for kind in ROWS}
    for row in rows:
        kind = str(row["sk"]).partition("#")[0]
        if kind == "run" and "created" in row:  # else as in ROWS
            found = wire.from_json(RunRow, {**row, "run": run})
        elif kind == "plan":
            planned = row
        elif kind in ROWS and ROWS[kind][2] in row:
            noun = of_row(row)
            key = tuple(getattr(noun, name) for name in ROWS[kind][1])
            others[kind][key if len(key) > 1 else key[0]] = noun
    if found is None:
        return None
    return Records(
        found,
        planned,
        hosts=others["host"],
        attempts=others["attempt"],
        intents=tuple(others["intent"].values()),
        tokens=others["token"],
        waits=others["wait"],
    )


def of_row(row: Mapping[str, Any]) -> Any:
    """The noun of a row, of which its key says a part."""
    kind, *words = str(row["sk"]).split("#")
    noun, names, _ = ROWS[kind]
    return wire.from_json(noun, {**row, **dict(zip(names, words, strict=True))})


def _is_of(host: HostRow, offer: Offer) -> bool:
    types = [choice.type for choice in offer.choices(host.gang)]
    return (host.zone, host.market) == (offer.zone, offer.market) and host.type in types


def gang_has_stopped(records: Records, attempt: int) -> bool:
    """Whether the attempt's last checkpoint is made: every member that lives has left, or the chief has, and not
    because a peer vanished, its program was killed or it hung (then a member that says nothing may be that peer, or has
    yet to see it: it speaks, its own event comes, or silent_hosts.py finds it).

    A member that is ready for a later attempt has left this one, be it that it had nothing to say."""
    members, chief = records.members(attempt), records.chief(attempt)
    stopped = [host for host in members if host.stopped >= attempt]
    silent = [host for host in members if host.lives and host not in stopped and host.ready <= attempt]
    chief_left = chief is not None and chief in stopped and chief.why not in FOR_ANOTHER
    return bool(stopped) and (not silent or chief_left)


def others_must_be_asked(records: Records, attempt: int, instance: str) -> bool:
    """Whether the end of this host's program ends the others' only if they are told: parameter servers and their
    workers serve until then, and their chief trains on without the host. With all-reduce they notice by themselves,
    unless they hang too; but an evaluator sees nobody go, and nobody sees it go."""
    job, host = records.run.job, records.hosts[instance]
    if host.stopped < attempt or host.why == StopReason.ASKED:
        return False
    is_noticed = job is None or not (job.cluster.strategy.is_asynchronous or job.cluster.evaluator)
    return host.why == StopReason.HANGS or not is_noticed


def at_its_limit(records: Records, attempt: int) -> bool:
    """Whether the gang leaves because the hours or dollars are used up: patrol asked it to, or a host found out."""
    row = records.attempts.get(attempt)
    asked = row is not None and row.capped is not None
    return asked or any(
        host.stopped >= attempt and host.why == StopReason.LIMIT for host in records.members(attempt)
    )


KILLED_ON = "the program was killed on"


def interruption(records: Records, attempt: int, step: int | None) -> Trouble:
    """What to tell Recover when a gang has left: the hosts that go, or that none does, and the step reached.

    Hosts that have trained together in this attempt can do so again; those that have not may be what is wrong. Where a
    program hangs they are suspected only when the one before hung, too: all of them have answered. A program that hangs
    twice in a row in a run that has come to no step and no checkpoint would hang again, and is given up."""
    members = records.members(attempt)
    going = tuple(
        host.instance for host in members if host.why == StopReason.INTERRUPTED or host.warned or host.lost
    )
    error, well, final = "Interrupted", not going and _trained(records, attempt), False
    row = records.attempts[attempt]
    killed = _left(records, attempt, StopReason.KILLED)
    if _left(records, attempt, StopReason.HANGS):
        error, well = (
            "ProgramHangs",
            not going and (_trained(records, attempt) or not _hung(records, attempt - 1)),
        )
        final = _hung(records, attempt - 1) and not _has_come_anywhere(records)
        reason = _hangs(records, attempt, going)
        if final:
            reason = f"{reason}. It hung twice in a row, before its first step and its first checkpoint"
    elif going:
        what = _saved_before_it_left(records, attempt)
        reason = f"the gang has left because hosts are going away: {', '.join(going)}; {what}"
    elif row.growing and not killed:
        error, well = "Resized", True
        sizes = f"to go on with {counted(len(records.taken(attempt + 1)), 'host')} in place of {len(members)}"
        reason = f"the gang has saved and left, {sizes}; {_saved_before_it_left(records, attempt)}"
    elif killed:
        others = ", and the others left to be started again" if len(members) > 1 else ", to be started again"
        reason = f"{KILLED_ON} {killed}{others}; all hosts are there"
        final = _killed_at_the_same_place(records, attempt)
        if final:
            reason = f"{reason}. It was killed twice in a row without a step or a checkpoint more in between"
    else:
        reason = "the programs left to be started again; all hosts are there"
    return Trouble(error=error, reason=reason, lost=going, step=step, all_well=well, final=final)


def _left(records: Records, attempt: int, why: StopReason) -> str:
    """The members that have left the attempt for that reason, by name."""
    members = records.members(attempt)
    return ", ".join(host.instance for host in members if host.stopped >= attempt and host.why == why)


def _hangs(records: Records, attempt: int, going: Collection[str]) -> str:
    """Of the chief's log alone: whose program it is that the others wait for, nobody knows."""
    minutes = PROGRAM_SILENT.total_seconds() / 60
    log = f"{keys.logs(records.run.run, attempt)}chief-0/"
    hosts = f"{', '.join(going)} went meanwhile" if going else "all hosts are there"
    return (
        f"for {minutes:g} minutes the program has shown no work (no progress, no new line or file, no real share of a "
        f"processor or GPU on any host), so it was ended: it hangs; {hosts}; its log {log} shows how far it came"
    )


def _hung(records: Records, attempt: int) -> bool:
    row = records.attempts.get(attempt)
    return row is not None and row.error == "ProgramHangs"


def _killed_at_the_same_place(records: Records, attempt: int) -> bool:
    """Return True if the attempt before was killed, too, and this one came no further: the program does it itself."""
    row, before = records.attempts[attempt], records.attempts.get(attempt - 1)
    if before is None or not (before.reason or "").startswith(KILLED_ON):
        return False
    reached, reached_before = row.reached, before.reached
    if reached is None and reached_before is None:
        return row.saved is None or before.saved is not None
    return (reached or 0) <= (reached_before or 0)


def _has_come_anywhere(records: Records) -> bool:
    """Whether any attempt has told of a step or a checkpoint, or began from one."""
    return any(row.reached or row.from_step or row.saved for row in records.attempts.values())


def _saved_before_it_left(records: Records, attempt: int) -> str:
    left = [
        host.stopped_at for host in records.members(attempt) if host.stopped >= attempt and host.stopped_at
    ]
    return last_save(records, max(left, default=None))


def last_save(records: Records, until: datetime | None) -> str:
    """How much of the work is in the bucket, in words: how old the run's last checkpoint was at that time (None: nobody
    knows when), and its step where the program tells steps."""
    saves = [(row.saved, row.checkpointed) for row in records.attempts.values() if row.saved]
    if not saves:
        return "no checkpoint has been saved"
    at, step = max(saves, key=lambda save: save[0])
    age = max(0.0, (until - at).total_seconds()) if until else None
    old = "is in the bucket" if age is None else f"was {rounded(age)} old"
    return f"its last save{'' if step is None else f', of step {step:,},'} {old}"


def _trained(records: Records, attempt: int) -> bool:
    """Whether the attempt has come further than where it began."""
    progress, row = records.run.progress or {}, records.attempts[attempt]
    return progress.get("attempt") == attempt and (progress.get("step") or 0) > (row.from_step or 0)
