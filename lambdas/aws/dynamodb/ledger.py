"""The ledger: one DynamoDB table. Keys and attributes are docs/contracts/ledger.md's; nouns are core.records'.

Rows that belong together are written in one transaction: a crash leaves all of them or none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from lambdas.aws.calls import listed
from lambdas.aws.clients import client
from lambdas.core.capacity.prices import PriceList
from lambdas.core.images.dev import DevRow
from lambdas.core.run import records
from lambdas.core.run.pool import WarmHost
from lambdas.core.run.records import Records
from lambdas.core.run.updates import AttemptUpdate, HostUpdate, IntentUpdate, RunUpdate
from trainyard.core.model import states
from trainyard.core.model.errors import Misconfigured
from trainyard.protocol.cluster import Gang
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.attempt import TokenRow, WaitRow
from trainyard.protocol.ledger.claim import Claim
from trainyard.protocol.ledger.host import BilledHost
from trainyard.protocol.ledger.lookup import Owner
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.plan import Plan
from trainyard.protocol.timeline import Entry
from trainyard.values import wire
from trainyard.values.lazy import dataclass

MOST_WRITES = 100
LOOK_UPS_LIVE = timedelta(days=90)
BAKE_LOCK = ("bake", "lock")
SMALLEST = 1e-120
"""What is nearer to nothing DynamoDB does not take (its numbers begin at 1e-130), and nobody misses."""
PRICES = ("patrol", "prices")
"""The key of the region's price list, which patrol keeps."""
OPEN = "open"
"""The key under which every run has a row from Admit to Conclude."""
HELD = "held#"
"""Precedes, under that key, a launch whose host may still run."""
PLACES = ("places", "given")
"""The key of the number of places that training runs were given so far."""
POOL = "pool"
"""The key under which every host in the pool has a row."""
POOLED = ("places", "pool")
"""The key of the number of times that a run has put hosts into the pool."""
DEV = "dev"
"""The key under which every name of a dev host has a row."""
DEV_IMAGING = "dev-imaging"
"""The key under which every snapshot has a row that may image a dev host."""
IMAGING_LIVES = timedelta(days=1)
Noun = Literal["instance", "image", "command"]
"""What a look-up row is about."""


class FromDynamoDB(TypeDeserializer):  # type: ignore[misc]  # boto3 has no types
    """Numbers as JSON has them: no value of a row needs a Decimal's digits."""

    def deserialize(self, value: Mapping[str, Any]) -> Any:
        """As boto3 does; at once for what nearly every value is."""
        for kind, content in value.items():
            if kind in ("S", "BOOL"):
                return content
            if kind == "N":
                return self._deserialize_n(content)
            if kind == "M":
                return {name: self.deserialize(inner) for name, inner in content.items()}
            if kind == "L":
                return [self.deserialize(inner) for inner in content]
        return super().deserialize(value)

    def _deserialize_n(self, value: str) -> int | float:
        return int(value) if value.removeprefix("-").isdigit() else float(value)


PACK, UNPACK = TypeSerializer(), FromDynamoDB()


class Packed(Mapping[str, Any]):
    """A row whose attributes are unpacked when somebody reads them."""

    def __init__(self, item: Mapping[str, Any]) -> None:
        self._item = item

    def __getitem__(self, name: str) -> Any:
        return UNPACK.deserialize(self._item[name])

    def __contains__(self, name: object) -> bool:
        return name in self._item

    def __iter__(self) -> Iterator[str]:
        return iter(self._item)

    def __len__(self) -> int:
        return len(self._item)


@dataclass(frozen=True)
class Write:
    """One row to write. `put` replaces the row; otherwise `values` are set on it (None removes nothing and is left
    out), and the attributes in `without` are taken away. `unless` names an attribute that must not be there yet, `only`
    one that must, `same` one that must have that value. `add`: numbers that are added to those that are there, or to 0.
    `delete` removes it, where there is `only` that.

    `rising`: paths of attributes, the most significant first, with their new values. All together must be above those
    in the row. A missing attribute is below every value. So a signal that arrives late changes nothing.

    `stage`: the values name a state, and perhaps an attempt, of a run. If the row has a later attempt, or a later state
    (states.ORDER) of this attempt, it keeps both. The other values are written."""

    pk: str
    sk: str
    values: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    put: bool = False
    unless: str | None = None
    only: str | None = None
    same: tuple[str, int] | None = None
    rising: tuple[tuple[str, Any], ...] = ()
    stage: bool = False
    add: Mapping[str, float] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    delete: bool = False

    @property
    def of_late_stage(self) -> "Write":
        """Return the write without its state and attempt: those of the row stay."""
        return replace(self, stage=False, kept=self.kept | {"state", "attempt"}) if self.stage else self


@dataclass(frozen=True)
class Lock:
    """Who may move the image parameter: a run, its execution, and when that execution's time is up at the latest."""

    run: str
    execution_arn: str
    until: datetime


class AlreadyWrittenError(Exception):
    """A condition of a write did not hold: another call was here before, which callers expect and handle.

    `numbers`: which writes of the transaction, the first being 0, had conditions that did not hold."""

    def __init__(self, message: str, *, numbers: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.numbers = tuple(numbers)


def run_row(
    run: str,
    values: RunUpdate,
    *,
    unless: Literal["created", "cut_short", "stopping", "ended", "notified"] | None = None,
    only: Literal["created"] | None = None,
    rising: tuple[tuple[str, Any], ...] = (),
    waits: bool = True,
    grows: bool = True,
    add: Mapping[str, float] | None = None,
) -> Write:
    """`waits`: whether it may go on waiting; else what it has waited for is over, and goes from the row. `grows`: the
    same of more hosts. `add`: dollars."""
    gone = (*(() if waits else ("waiting",)), *(() if grows else ("grows",)))
    return Write(
        f"run#{run}",
        "run",
        values,
        unless=unless,
        only=only,
        rising=rising,
        stage="state" in values,
        without=gone,
        add=add or {},
    )


def open_row(run: str, kind: str, execution_arn: str, claim: Claim | None = None) -> Write:
    """That the run goes on: whoever looks for runs that nobody has concluded need not read them all. A training run has
    its claim with it."""
    claimed = (
        {} if claim is None else {name: value for name, value in wire.to_json(claim).items() if name != "run"}
    )
    return Write(OPEN, run, {"kind": kind, "execution_arn": execution_arn, **claimed}, put=True)


def held_row(claim: Claim) -> Write:
    """The claim of a launch, which outlives its run: patrol deletes the row once no host of the launch runs."""
    known = {
        name: value for name, value in wire.to_json(claim).items() if name != "run" and value is not None
    }
    return Write(OPEN, HELD + claim.run, known, put=True)


def no_held_row(run: str) -> Write:
    return Write(OPEN, HELD + run, delete=True)


def claim_of(row: Mapping[str, Any]) -> Claim | None:
    """Return the claim of a row of an open run or of a launch; None for a run that asks for no place."""
    run = str(row["sk"]).removeprefix(HELD)
    return wire.from_json(Claim, {**row, "run": run}) if "hosts" in row else None


def place_given(before: int) -> Write:
    """That one more place is given. AlreadyWrittenError where somebody else has given one since `before` was read."""
    return _next_number(PLACES, before)


def _next_number(key: tuple[str, str], before: int) -> Write:
    if before == 0:
        return Write(*key, {"number": 1}, unless="number")
    return Write(*key, {"number": before + 1}, same=("number", before))


def no_open_row(run: str) -> Write:
    return Write(OPEN, run, delete=True)


def plan_row(run: str, plan: Plan) -> Write:
    """The plan of a run, which never changes: launch requests name its offers by their numbers. The write raises
    AlreadyWrittenError if the run has a plan."""
    return Write(f"run#{run}", "plan", wire.to_json(plan), put=True, unless="pk")


def intent_row(
    run: str,
    attempt: int,
    offer: int,
    round_: int,
    values: IntentUpdate,
    *,
    unless: Literal["token"] | None = None,
) -> Write:
    return Write(f"run#{run}", f"intent#{attempt:04d}#{offer:03d}#{round_:03d}", values, unless=unless)


def ask_counted(run: str, attempt: int, before: int) -> Write:
    """That an attempt asks once more. AlreadyWrittenError where it has since `before` was read."""
    return _next_number((f"run#{run}", f"asks#{attempt:04d}"), before)


def attempt_row(
    run: str,
    attempt: int,
    values: AttemptUpdate,
    *,
    unless: Literal[
        "ending", "gang_ready", "started", "resumed", "asked", "asked_to_stop", "capped", "growing"
    ]
    | None = None,
    rising: tuple[tuple[str, Any], ...] = (),
) -> Write:
    return Write(f"run#{run}", f"attempt#{attempt:04d}", values, unless=unless, rising=rising)


def pooled_rows(hosts: Iterable[WarmHost], before: int) -> list[Write]:
    """That these hosts of a run are the pool's from now on. AlreadyWrittenError where somebody else has put some there
    since `before` was read, or where one of them is there."""
    writes = [_next_number(POOLED, before)]
    for host in hosts:
        known = {name: value for name, value in wire.to_json(host).items() if value is not None}
        del known["instance"]
        writes.append(Write(POOL, host.instance, known, unless="run"))
        writes.append(host_row(host.run, host.instance, {"pooled": host.since, "ended": host.since}))
    return writes


def wiped_row(instance: str, ready: datetime, until: datetime) -> Write:
    """That it may be taken; AlreadyWrittenError where it is not in the pool any more, or was wiped before."""
    return Write(POOL, instance, {"ready": ready, "until": until}, only="run", unless="ready")


def cooled_rows(hosts: Iterable[WarmHost], at: datetime) -> list[Write]:
    """That these have left the pool, and whose bill that is. AlreadyWrittenError where one of them has left before."""
    writes: list[Write] = []
    dollars: dict[str, float] = {}
    for host in hosts:
        writes.append(Write(POOL, host.instance, only="run", delete=True))
        writes.append(host_row(host.run, host.instance, {"cooled": at}))
        dollars[host.run] = round(dollars.get(host.run, 0.0) + host.dollars(at), 5)
    for run, more in dollars.items():
        added = {"dollars": more, "pool_dollars": more}
        writes.append(Write(f"run#{run}", "run", only="created", add=added))
    return writes


def no_warm_row(instance: str) -> Write:
    """The same where the ledger knows nothing more of the run that had kept it."""
    return Write(POOL, instance, delete=True)


def launched_row(
    run: str,
    host: BilledHost,
    *,
    attempt: int,
    gang: Gang,
    taken: str | None = None,
    releasing: datetime | None = None,
) -> Write:
    """`taken`: the run that had kept it in the pool; `releasing`: it is ended as soon as it is known.

    The time of the launch is the time of the first write. A second call of Launch does not move the start of the bill.
    """
    values = wire.to_json(host) | {"attempt": attempt, "gang": gang, "taken": taken}
    if releasing:
        values["releasing"] = releasing
    del values["instance"]
    return Write(f"run#{run}", f"host#{host.instance}", values, kept=frozenset({"launched"}))


def host_row(
    run: str, instance: str, values: HostUpdate, *, rising: tuple[tuple[str, Any], ...] = ()
) -> Write:
    """News of a host that this run has launched; AlreadyWrittenError where it has not."""
    return Write(f"run#{run}", f"host#{instance}", values, only="launched", rising=rising)


def token_row(run: str, attempt: int, wait: str, token: str, now: datetime) -> Write:
    """Replaces the row: a wait that begins anew has a new token, which nobody has answered."""
    return Write(f"run#{run}", f"token#{attempt:04d}#{wait}", {"token": token, "stored": now}, put=True)


def wait_row(run: str, row: WaitRow) -> Write:
    """What the wait is for, once it is sent or asked for."""
    values = {"since": row.since, "command": row.command, "image": row.image}
    known = {name: value for name, value in values.items() if value is not None}
    return Write(f"run#{run}", f"wait#{row.attempt:04d}#{row.wait}", known, put=True)


def answered_row(run: str, token: TokenRow, now: datetime) -> Write:
    return Write(f"run#{run}", f"token#{token.attempt:04d}#{token.wait}", {"answered": now}, only="token")


def event_row(run: str, entry: Entry) -> Write:
    return Write(f"timeline#{run}", entry.key, wire.to_json(entry), put=True)


def look_up_row(noun: Noun, name: str, owner: Owner, now: datetime) -> Write:
    """Which run that thing belongs to."""
    expires = int((now + LOOK_UPS_LIVE).timestamp())
    known = {name: value for name, value in wire.to_json(owner).items() if value is not None}
    return Write(f"{noun}#{name}", "run", known | {"expires": expires}, put=True)


def dev_imaging_row(run: str, instance: str, now: datetime) -> Write:
    """That the snapshot of this name may image a dev host."""
    expires = int((now + IMAGING_LIVES).timestamp())
    return Write(DEV_IMAGING, run, {"instance": instance, "at": now, "expires": expires}, put=True)


class Table:
    """The yard's one table."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.dynamodb = client("dynamodb")

    def _get(self, pk: str, sk: str) -> dict[str, Any] | None:
        answer = self.dynamodb.get_item(TableName=self.table, Key=_key(pk, sk), ConsistentRead=True)
        return unpack(answer["Item"]) if "Item" in answer else None

    def _only_if(
        self, condition: str, act: Literal["Put", "Delete"], values: Mapping[str, Any], **more: Any
    ) -> bool:
        """Whether the condition held, so that it is done. `#name` in it is an attribute, `:name` one of `values`.

        A transaction of one: botocore gives it a token, so that its retry of one whose answer was lost is told that it
        is done. Alone, the retry would meet its own write and be told that the condition does not hold."""
        names = {word: word[1:] for word in re.findall(r"#\w+", condition)}
        words: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
        if values:
            words["ExpressionAttributeValues"] = {f":{name}": pack(value) for name, value in values.items()}
        only = {act: {"TableName": self.table, "ConditionExpression": condition, **words, **more}}
        try:
            self.dynamodb.transact_write_items(TransactItems=[only])
        except ClientError as error:
            if _did_not_hold(error):
                return False
            raise
        return True

    def pool(self) -> tuple[WarmHost, ...]:
        """All hosts in the pool."""
        rows = self._query("pk = :pool", {"pool": POOL}, ConsistentRead=True)
        return tuple(wire.from_json(WarmHost, {**row, "instance": row["sk"]}) for row in rows)

    def _query(self, condition: str, values: Mapping[str, str], **more: Any) -> list[dict[str, Any]]:
        """The rows for whose keys the condition holds, in which `:name` is one of `values`."""
        return [unpack(item) for item in self._items(condition, values, **more)]

    def _items(self, condition: str, values: Mapping[str, str], **more: Any) -> Iterator[Mapping[str, Any]]:
        """The same as DynamoDB's API has them."""
        words = {f":{name}": {"S": value} for name, value in values.items()}
        asked = {"KeyConditionExpression": condition, "ExpressionAttributeValues": words, **more}
        return listed("dynamodb", "query", "Items", TableName=self.table, **asked)


class Ledger(Table):
    def write(self, *writes: Write) -> None:
        """All rows of a call in one transaction of up to 100 (the conditions belong into the first 100).

        Raises AlreadyWrittenError, having written nothing, when a condition does not hold. A late state is no reason:
        everything else is written without it."""
        for first in range(0, len(writes), MOST_WRITES):
            chunk = writes[first : first + MOST_WRITES]
            try:
                self._transact(chunk)
            except AlreadyWrittenError as error:
                if not any(chunk[number].stage for number in error.numbers):
                    raise
                self._transact([write.of_late_stage for write in chunk])

    def _transact(self, writes: Iterable[Write]) -> None:
        try:
            self.dynamodb.transact_write_items(TransactItems=[self._item(write) for write in writes])
        except ClientError as error:
            if not _did_not_hold(error):
                raise
            raise AlreadyWrittenError(str(error), numbers=_of_failed_conditions(error)) from error

    def read(self, run: str) -> Records | None:
        """All rows of a run; None for a run the ledger does not know."""
        found = self._read(run)
        # A Query may show a part of a transaction that is written meanwhile: what looks torn is read once more.
        return self._read(run) if found and found.torn else found

    def known(self, run: str) -> Records:
        """All rows of a run that must be there; raises Misconfigured where some are not."""
        found = self.read(run)
        if found is None:
            raise self.lost(run)
        if found.torn:
            raise self.lost(run, found.torn)
        return found

    def lost(self, run: str, rows: str | None = None) -> Misconfigured:
        """That the ledger knows nothing of the run any more, or nothing of these `rows` of it."""
        of = f"{rows} of the run {run}" if rows else f"the run {run}"
        return Misconfigured(
            f"The ledger {self.table} does not know {of}: the rows were deleted, or the table replaced, while the run "
            f"went on. Start it again; a training goes on from its last checkpoint with checkpoints.resume: {run}."
        )

    def _read(self, run: str) -> Records | None:
        items = self._items("pk = :run", {"run": f"run#{run}"}, ConsistentRead=True)
        return records.of_rows(
            run, [Packed(item) if item["sk"]["S"] == "plan" else unpack(item) for item in items]
        )

    def run(self, run: str) -> RunRow | None:
        """The run's own row alone; None for a run the ledger does not know."""
        found = records.of_rows(run, [row] if (row := self._get(f"run#{run}", "run")) else [])
        return found.run if found else None

    def timeline(self, run: str) -> tuple[Entry, ...]:
        """Every timeline entry of a run, in order."""
        rows = self._query("pk = :timeline", {"timeline": f"timeline#{run}"}, ConsistentRead=True)
        return tuple(wire.from_json(Entry, row) for row in rows)

    def token(self, run: str, attempt: int, wait: str) -> TokenRow | None:
        row = self._get(f"run#{run}", f"token#{attempt:04d}#{wait}")
        return reading.read_one(row) if row else None

    def waiting(self, run: str) -> tuple[TokenRow, ...]:
        """The tokens of a run that nobody has answered, be the run itself known or not."""
        tokens_of = {"run": f"run#{run}", "token": "token#"}
        rows = self._query("pk = :run AND begins_with(sk, :token)", tokens_of, ConsistentRead=True)
        tokens: Iterable[TokenRow] = (reading.read_one(row) for row in rows if "token" in row)
        return tuple(token for token in tokens if token.answered is None)

    def owner(self, noun: Noun, name: str) -> Owner | None:
        """Whose the instance, image or command is, by its look-up row."""
        row = self._get(f"{noun}#{name}", "run")
        return wire.from_json(Owner, row) if row else None

    def prices(self) -> PriceList | None:
        """The region's price list; None until patrol has asked for it."""
        row = self._get(*PRICES)
        return wire.from_json(PriceList, row) if row else None

    def claims(self) -> tuple[int, tuple[Claim, ...]]:
        """How many places were given until now, and the claims of training runs that are not concluded and of launches.

        The number is read first: who gives a place by these claims and finds another number was not alone."""
        given = self._get(*PLACES)
        rows = self._query("pk = :open", {"open": OPEN}, ConsistentRead=True)
        claims = tuple(claim for row in rows if (claim := claim_of(row)))
        return int(given["number"]) if given else 0, claims

    def warm_hosts(self) -> tuple[int, tuple[WarmHost, ...]]:
        """How often hosts were put into the pool until now, and all that are there. The number is read first, as that
        of the claims."""
        given = self._get(*POOLED)
        return int(given["number"]) if given else 0, self.pool()

    def warm_host(self, instance: str) -> WarmHost | None:
        """The host, if it is in the pool."""
        row = self._get(POOL, instance)
        return wire.from_json(WarmHost, {**row, "instance": instance}) if row else None

    def dev(self, name: str) -> DevRow | None:
        """Who has the name of a dev host."""
        row = self._get(DEV, name)
        return wire.from_json(DevRow, {**row, "name": name}) if row else None

    def take_dev_name(self, row: DevRow, before: DevRow | None) -> bool:
        """Whether the name is now as the row says: nobody has taken it since `before` was read."""
        known = {name: value for name, value in wire.to_json(row).items() if name != "name"}
        return self._only_if(
            "#run = :before" if before else "attribute_not_exists(pk)",
            "Put",
            {"before": before.run} if before else {},
            Item=_key(DEV, row.name) | packed(known),
        )

    def may_image_dev_host(self, run: str, instance: str) -> bool:
        """Whether its owner or patrol wants that host to be imaged by this snapshot."""
        row = self._get(DEV_IMAGING, run)
        return row is not None and row["instance"] == instance

    def bake_lock(self) -> Lock | None:
        """The lock as somebody holds it; None when it is free."""
        row = self._get(*BAKE_LOCK)
        return wire.from_json(Lock, row) if row else None

    def take_bake_lock(self, lock: Lock, *, instead_of: str | None) -> bool:
        """Whether the lock is this run's now: it was free, its own, or that of `instead_of`, which is over."""
        return self._only_if(
            "attribute_not_exists(pk) OR #run IN (:mine, :over)",
            "Put",
            {"mine": lock.run, "over": instead_of or lock.run},
            Item=_key(*BAKE_LOCK) | packed(wire.to_json(lock)),
        )

    def give_back_bake_lock(self, run: str) -> bool:
        """Whether the lock was this run's until now."""
        return self._only_if("#run = :mine", "Delete", {"mine": run}, Key=_key(*BAKE_LOCK))

    def _item(self, write: Write) -> dict[str, Any]:
        key = _key(write.pk, write.sk)
        if write.delete:
            only: dict[str, Any] = {}
            if write.only:
                only["ConditionExpression"] = "attribute_exists(#only)"
                only["ExpressionAttributeNames"] = {"#only": write.only}
            return {"Delete": {"TableName": self.table, "Key": key, **only}}
        if write.put:
            first: dict[str, Any] = {}
            if write.unless:
                first["ConditionExpression"] = "attribute_not_exists(#unless)"
                first["ExpressionAttributeNames"] = {"#unless": write.unless}
            return {"Put": {"TableName": self.table, "Item": key | packed(write.values), **first}}
        values = packed({name: value for name, value in write.values.items() if value is not None})
        names = {f"#v{n}": name for n, name in enumerate(values)}
        sets = [
            f"{alias} = if_not_exists({alias}, :v{alias[2:]})"
            if name in write.kept
            else f"{alias} = :v{alias[2:]}"
            for alias, name in names.items()
        ]
        words = {f":v{alias[2:]}": values[name] for alias, name in names.items()}
        for n, (name, more) in enumerate(write.add.items()):
            sets.append(f"#a{n} = if_not_exists(#a{n}, :zero) + :a{n}")
            names[f"#a{n}"] = name
            words |= {f":a{n}": pack(more), ":zero": pack(0)}
        update: dict[str, Any] = {
            "TableName": self.table,
            "Key": key,
            "UpdateExpression": "SET " + ", ".join(sets),
            "ExpressionAttributeValues": words,
        }
        if write.without:
            gone = {f"#w{n}": name for n, name in enumerate(write.without)}
            update["UpdateExpression"] += " REMOVE " + ", ".join(gone)
            names |= gone
        conditions = []
        if write.unless:
            names["#unless"] = write.unless
            conditions.append("attribute_not_exists(#unless)")
        if write.only:
            names["#only"] = write.only
            conditions.append("attribute_exists(#only)")
        if write.same:
            names["#same"], value = write.same
            conditions.append("#same = :same")
            words[":same"] = pack(value)
        if write.rising:
            names |= {f"#{name}": name for path, _ in write.rising for name in path.split(".")}
            words |= {f":r{n}": pack(value) for n, (_, value) in enumerate(write.rising)}
            conditions.append(f"({_is_above([path for path, _ in write.rising])})")
        if write.stage:
            up_to = states.ORDER[: states.ORDER.index(write.values["state"]) + 1]
            words |= {f":s{n}": pack(state) for n, state in enumerate(up_to)}
            names["#state"] = "state"
            is_timely = f"#state IN ({', '.join(f':s{n}' for n in range(len(up_to)))})"
            if "attempt" in write.values:
                names["#attempt"] = "attempt"
                words[":attempt"] = pack(write.values["attempt"])
                is_timely = f"#attempt < :attempt OR #attempt = :attempt AND {is_timely}"
            conditions.append(f"(attribute_not_exists(#state) OR {is_timely})")
        if conditions:
            update["ConditionExpression"] = " AND ".join(conditions)
        return {"Update": update | {"ExpressionAttributeNames": names}}


def _is_above(paths: Sequence[str]) -> str:
    """Return the condition that the values `:r0`, `:r1`, ... are above those at the paths, compared in this order."""
    aliases = [".".join(f"#{name}" for name in path.split(".")) for path in paths]
    above = [
        " AND ".join([*(f"{each} = :r{n}" for n, each in enumerate(aliases[:last])), f"{path} < :r{last}"])
        for last, path in enumerate(aliases)
    ]
    return " OR ".join([f"attribute_not_exists({aliases[0]})", *above])


def _did_not_hold(error: ClientError) -> bool:
    """Return True if a transaction was cancelled because a condition of its own did not hold."""
    return bool(_of_failed_conditions(error))


def _of_failed_conditions(error: ClientError) -> list[int]:
    """Return the numbers of the transaction's writes whose conditions did not hold; none for another error."""
    if error.response["Error"]["Code"] != "TransactionCanceledException":
        return []
    codes = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
    return [number for number, code in enumerate(codes) if code == "ConditionalCheckFailed"]


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def pack(value: Any) -> dict[str, Any]:
    """The value as DynamoDB's API has it."""
    packed: dict[str, Any] = PACK.serialize(_exact(wire.to_json(value)))
    return packed


def packed(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: pack(value) for name, value in row.items()}


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return Decimal(str(value)) if abs(value) >= SMALLEST else Decimal(0)
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exact(item) for item in value]
    return value


def unpack(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item as JSON knows it."""
    return {name: UNPACK.deserialize(value) for name, value in item.items()}
