"""What the ledger and the bucket say of a run, as values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from trainyard.client.runs import html
from trainyard.client.runs.execution import Execution, State
from trainyard.core.model import ends, states
from trainyard.core.model.program import Origin
from trainyard.core.model.submitter import UNKNOWN
from trainyard.core.model.yard.billing import billed_hours, host_dollars
from trainyard.protocol import timeline
from trainyard.values import floats
from trainyard.values.quantities import dollars

ROLES = ("chief", "worker", "ps", "evaluator", "")
"""In the order in which hosts are listed."""
OF_NO_USER = "no user of the yard: it was started by hand, or its job file lies outside jobs/by/"
ORIGIN = ("commit", "repository", "ref", "dirty", "diff")
"""Keys of a job's section `origin`."""
Rows = Iterable[dict[str, Any]]
Loss = tuple[int, float]
"""(step, loss)."""
MEASURES = ("accuracy", "steps_per_second")
"""What samples of metrics.json may have beside the loss."""


@dataclass(frozen=True)
class Host:
    """One host of the run, launched for `attempt`. `role` (`worker 0`) is empty until the cluster is written."""

    instance: str
    attempt: int
    role: str
    type: str
    zone: str
    market: str
    address: str
    price: float
    on_demand_price: float
    launched: datetime
    ended: datetime | None
    state: str
    disk_gib: int = 0
    gib_month: float = 0.0
    volume_charge: float = 0.0

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Hosts of one attempt stand together: the chief first, then the workers, then those that serve them."""
        role, _, index = self.role.partition(" ")
        return self.attempt, ROLES.index(role), index.zfill(4), self.instance

    def dollars(self, now: datetime) -> float:
        """Return what it has cost until now, as the bill of its run counts it."""
        return host_dollars(
            self.seconds(now),
            self.price,
            disk_gib=self.disk_gib,
            gib_month=self.gib_month,
            volume_charge=self.volume_charge,
        )

    def saved(self, now: datetime) -> float:
        """Return what it would have cost more on demand until now; 0 if that price is not known."""
        return max(self.on_demand_price - self.price, 0.0) * billed_hours(self.seconds(now))

    def seconds(self, now: datetime) -> float:
        """Return how long it has been there until now."""
        return elapsed(self.launched, self.ended or now).total_seconds()


@dataclass(frozen=True)
class Attempt:
    """One gang's life, of so many hosts. `ending` (docs/contracts/ledger.md) and `reason` are empty while it goes on;
    `saved` is the step of its last whole checkpoint."""

    number: int
    pool: str
    launched: datetime
    started: datetime | None
    ended: datetime | None
    ending: str
    reason: str
    from_step: int | None
    to_step: int | None
    saved: int | None
    saved_at: datetime | None
    hosts: int = 0


@dataclass(frozen=True)
class Pool:
    """One pool of the plan, in the plan's order: dollars an hour of one host, and on demand."""

    name: str
    price: float
    on_demand_price: float


@dataclass(frozen=True)
class Asked:
    """One time that EC2 was asked for the hosts of an attempt. `answer` is `launched`, `refused`, or empty where none
    is known; `kind` (docs/contracts/README.md, `LaunchesRefused`), `code` and `reason` are a refusal's."""

    attempt: int
    pool: str
    at: datetime
    answer: str
    kind: str
    code: str
    reason: str


@dataclass(frozen=True)
class Event:
    """One line of the timeline."""

    at: datetime
    source: str
    event: str
    instance: str
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[datetime, str, str, str]:
        """Equal for the same event seen twice."""
        return self.at, self.source, self.event, self.instance


@dataclass(frozen=True)
class Progress:
    """How far the program is. `steps` is 0 if the program does not tell how many there are. A number that it does not
    report is None. `nan_since` is the step since which its loss has been NaN or infinite."""

    step: int
    steps: int
    epoch: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    steps_per_second: float | None = None
    nan_since: int | None = None

    @property
    def warning(self) -> str:
        """One sentence about a loss that is no number; empty for any other."""
        if self.loss is None or self.nan_since is None:
            return ""
        return f"Its loss has been {floats.shown(self.loss, '.4g')} since step {self.nan_since}."

    def numbers(self, loss: str = ".4f") -> tuple[str, ...]:
        """Return what the program measures, in words. `loss` is the format of the loss."""
        since = f" since step {self.nan_since}" if self.nan_since is not None else ""
        return (
            *([f"loss {floats.shown(self.loss, loss)}{since}"] if self.loss is not None else []),
            *([f"accuracy {floats.shown(self.accuracy, '.3f')}"] if self.accuracy is not None else []),
            *([f"{self.steps_per_second:.1f} steps/s"] if self.steps_per_second else []),
        )

    def reached(self, of: str = "/") -> str:
        """The step, and of how many."""
        return f"{self.step}{of}{self.steps}" if self.steps else f"{self.step}"


@dataclass(frozen=True)
class RunStatus:
    """Everything that is known of a run at one moment."""

    at: datetime
    execution: Execution
    attempt: int
    states: tuple[State, ...]
    hosts: tuple[Host, ...]
    timeline: tuple[Event, ...]
    progress: Progress | None
    losses: tuple[Loss, ...]
    measures: Mapping[str, tuple[Loss, ...]] = field(default_factory=dict)
    """The curves beside the loss, by MEASURES; without those that the program does not report."""
    attempts: tuple[Attempt, ...] = ()
    pools: tuple[Pool, ...] = ()
    asked: tuple[Asked, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)
    """Its own in the ledger, as it is."""

    @property
    def state(self) -> str:
        """The state the execution is in, or its status when it is over."""
        if self.execution.is_over:
            return self.execution.status
        return self.states[-1].name if self.states else "Starting"

    @property
    def word(self) -> str:
        """The word for the state, and for how the run ended (trainyard/core/model/states.py)."""
        if self.execution.is_over and (outcome := self.row.get("outcome")):
            return ends.named(str(outcome), self.row.get("reason"))
        return states.word_for(self.state, self.kind)

    @property
    def words(self) -> list[tuple[datetime, str]]:
        """The words of the states so far, and when each began to hold."""
        return states.shown_words(self.states, self.kind)

    @property
    def kind(self) -> str:
        """The workflow that the run is of."""
        return str(self.row.get("kind", "train"))

    @property
    def submitter(self) -> str:
        """Return in words who asked for the run. Empty if its row does not say."""
        who = str(self.row.get("submitter") or "")
        return OF_NO_USER if who == UNKNOWN else who

    @property
    def origin(self) -> str:
        """Return the commit that the program is from in words, and where in the bucket the changes beside it are. Empty
        if no commit is known."""
        said = (self.row.get("job") or {}).get("origin") or {}
        known = Origin(**{name: said[name] for name in ORIGIN if said.get(name) is not None})
        if not known.commit:
            return ""
        return f"{known.described} ({known.diff})" if known.diff else known.described

    @property
    def dollars(self) -> float:
        """Return what the run has cost until now; once it has ended, the amount of its bill."""
        billed = self.row.get("dollars")
        return sum(host.dollars(self.at) for host in self.hosts) if billed is None else float(billed)

    @property
    def saved_dollars(self) -> float:
        """Return what the run would have cost more on demand until now; once it has ended, by its bill."""
        if self.row.get("dollars") is None:
            return sum(host.saved(self.at) for host in self.hosts)
        return float(self.row.get("saved_dollars") or 0)

    @property
    def cost(self) -> str:
        """Return the cost in words: `$0.0012 so far`, `$0.0565 in all`."""
        return f"{dollars(self.dollars)} {'in all' if self.execution.is_over else 'so far'}"

    @property
    def has_saved(self) -> bool:
        """Whether it has a whole checkpoint, be it that its program tells no steps."""
        return any(attempt.saved_at or attempt.saved is not None for attempt in self.attempts)

    @property
    def saved_step(self) -> int | None:
        """The step of its last whole checkpoint, as far as it was told of; None before the first."""
        steps = [attempt.saved for attempt in self.attempts if attempt.saved is not None]
        return max(steps, default=None)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        done = self.progress
        rows = (
            ("run", self.execution.name),
            ("state", self.word),
            ("attempt", self.attempt or None),
            ("step", done.reached(" of ") if done else None),
            (
                "hosts",
                ", ".join(f"{host.role or 'host'} on {host.type}, {host.state}" for host in self.hosts),
            ),
            ("source", self.origin),
            ("cost", dollars(self.dollars)),
        )
        return (
            html.facts(rows)
            + html.curve(self.losses)
            + html.curve(self.measures.get("accuracy", ()), "accuracy")
        )


def run_row(rows: Rows) -> dict[str, Any]:
    """The row of the run itself; empty before there is one."""
    return next((row for row in rows if row["sk"] == "run"), {})


def attempts_started(rows: Rows) -> list[int]:
    """The attempts whose cluster is written."""
    return [
        int(row["sk"].partition("#")[2])
        for row in rows
        if row["sk"].startswith("attempt#") and row.get("started")
    ]


def hosts_in(rows: Rows, roles: Mapping[str, str], states: Mapping[str, str]) -> Iterator[Host]:
    """The hosts, with their roles and EC2's states by instance."""
    for row in rows:
        if not row["sk"].startswith("host#"):
            continue
        instance = row["sk"].partition("#")[2]
        yield Host(
            instance=instance,
            attempt=int(row.get("attempt") or 0),
            role=roles.get(instance, ""),
            type=str(row.get("type", "")),
            zone=str(row.get("zone", "")),
            market=str(row.get("market", "")),
            address=str(row.get("address") or ""),
            price=float(row.get("price") or 0),
            on_demand_price=float(row.get("on_demand_price") or 0),
            launched=datetime.fromisoformat(row["launched"]),
            ended=datetime.fromisoformat(row["ended"]) if row.get("ended") else None,
            state=states.get(instance, "gone"),
            disk_gib=int(row.get("disk_gib") or 0),
            gib_month=float(row.get("gib_month") or 0),
            volume_charge=float(row.get("volume_charge") or 0),
        )


def attempts_in(rows: Rows) -> Iterator[Attempt]:
    """The attempts that were launched, oldest first."""
    for row in rows:
        if row["sk"].startswith("attempt#") and row.get("launched"):
            yield Attempt(
                number=int(row["sk"].partition("#")[2]),
                pool=str((row.get("offer") or {}).get("pool", "")),
                launched=datetime.fromisoformat(row["launched"]),
                started=_instant(row.get("started")),
                ended=_instant(row.get("ended")),
                ending=str(row.get("ending") or ""),
                reason=str(row.get("reason") or ""),
                from_step=_step(row.get("from_step")),
                to_step=_step(row.get("to_step")),
                saved=_step(row.get("checkpointed")),
                saved_at=_instant(row.get("saved")),
                hosts=len(row.get("hosts") or ()),
            )


def pools_in(rows: Rows) -> Iterator[Pool]:
    """What the plan offers; none before there is one."""
    for row in rows:
        if row["sk"] == "plan":
            for offer in row.get("offers", []):
                yield Pool(
                    name=f"{offer['type']} in {offer['zone']}, {str(offer['market']).replace('_', '-')}",
                    price=float(offer["price"]),
                    on_demand_price=float(offer.get("on_demand_price") or 0),
                )


def asked_in(rows: Rows) -> tuple[Asked, ...]:
    """Every time that EC2 was asked, oldest first; of several pools that one request asked, each."""
    rows = list(rows)
    pools = [pool.name for pool in pools_in(rows)]
    asked = [
        Asked(
            attempt=int(row["sk"].split("#")[1]),
            pool=str(said.get("offer_pool") or pools[int(said["offer"])]),
            at=datetime.fromisoformat(row["at"]),
            answer=str(row.get("answer") or ""),
            kind=str(said.get("refusal") or said.get("kind") or ""),
            code=str(said.get("code") or ""),
            reason=str(said.get("reason") or ""),
        )
        for row in rows
        if row["sk"].startswith("intent#")
        for said in row.get("refusals") or [row]
    ]
    return tuple(sorted(asked, key=lambda each: each.at))


def timeline_in(rows: Rows) -> tuple[Event, ...]:
    """Return the events in their order, oldest first (trainyard/protocol/timeline.py)."""
    events = [
        Event(
            at=datetime.fromisoformat(row["at"]),
            source=str(row.get("source", "")),
            event=str(row.get("event", "")),
            instance=str(row.get("instance") or ""),
            reason=str(row.get("reason") or ""),
            detail=dict(row.get("detail") or {}),
        )
        for row in rows
    ]
    return tuple(sorted(events, key=lambda event: timeline.place(event.at, event.event)))


def progress_in(row: Mapping[str, Any]) -> Progress | None:
    """What the run's row says of it; None before the program has reported a step."""
    reported = row.get("progress") or {}
    if reported.get("step") is None:
        return None
    return Progress(
        step=int(reported["step"]),
        steps=int(reported.get("steps") or 0),
        epoch=_number(reported.get("epoch")),
        loss=_number(reported.get("loss")),
        accuracy=_number(reported.get("accuracy")),
        steps_per_second=_number(reported.get("steps_per_second")),
        nan_since=_step(reported.get("nan_since")),
    )


def further(told: Progress | None, written: Progress | None) -> Progress | None:
    """The later of what the ledger was told and what metrics.json has: a short run tells of its last steps there alone.
    What a program writes at its end need not say all that it has told."""
    if told is None or written is None or written.step <= told.step:
        return told or written
    nan_since = written.nan_since
    if nan_since is None and written.loss is not None and not math.isfinite(written.loss):
        nan_since = written.step if told.nan_since is None else told.nan_since
    return replace(
        written, steps=written.steps or told.steps, epoch=written.epoch or told.epoch, nan_since=nan_since
    )


def losses_in(metrics: Mapping[str, Any]) -> Iterator[Loss]:
    """The samples of metrics.json, which the chief's agent keeps; a program need not report a loss."""
    for sample in metrics.get("samples", []):
        if sample.get("step") is not None and sample.get("loss") is not None:
            yield int(sample["step"]), float(sample["loss"])


def measures_in(metrics: Mapping[str, Any]) -> dict[str, tuple[Loss, ...]]:
    """Return (step, value) of each measure beside the loss that metrics.json has."""
    found = {}
    for name in MEASURES:
        samples = [each for each in metrics.get("samples", []) if each.get("step") is not None]
        if values := tuple(
            (int(each["step"]), float(each[name])) for each in samples if each.get(name) is not None
        ):
            found[name] = values
    return found


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _step(number: Any) -> int | None:
    return None if number is None else int(number)


def elapsed(since: datetime, until: datetime) -> timedelta:
    """Never negative, whatever the clocks say."""
    return max(until - since, timedelta())
