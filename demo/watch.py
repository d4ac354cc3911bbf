"""A run as a user can see it, gathered from the execution's history, the ledger and the bucket."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from demo.curve import Sample
from demo.yard import Execution, Yard, elapsed, states_of

ROLES = ("chief", "worker", "ps", "evaluator", "")
"""In the order in which hosts are shown."""


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

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Hosts of one attempt stand together: the chief first, then the workers, then those that serve them."""
        role, _, index = self.role.partition(" ")
        return self.attempt, ROLES.index(role), index.zfill(4), self.instance

    def dollars(self, now: datetime) -> float:
        """What it has cost until now."""
        return self.price * elapsed(self.launched, self.ended or now).total_seconds() / 3600


@dataclass(frozen=True)
class Entry:
    """One line of the timeline."""

    at: datetime
    source: str
    event: str
    instance: str
    reason: str
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[datetime, str, str, str]:
        """Equal for the same entry seen twice."""
        return self.at, self.source, self.event, self.instance


@dataclass(frozen=True)
class Progress:
    """How far the program is."""

    step: int
    steps: int
    epoch: float
    loss: float
    accuracy: float | None
    steps_per_second: float


@dataclass(frozen=True)
class View:
    """Everything that is shown of a run at one moment."""

    at: datetime
    execution: Execution
    attempt: int
    states: tuple[tuple[datetime, str], ...]
    hosts: tuple[Host, ...]
    timeline: tuple[Entry, ...]
    progress: Progress | None
    curve: tuple[Sample, ...]
    outcome: str
    reason: str

    @property
    def run(self) -> str:
        """The run's id."""
        return self.execution.name

    @property
    def state(self) -> str:
        """The state the execution is in, or its status when it is over."""
        if self.execution.is_over:
            return self.execution.status
        return self.states[-1][1] if self.states else "Starting"

    @property
    def dollars(self) -> float:
        """What the hosts have cost until now."""
        return sum(host.dollars(self.at) for host in self.hosts)


def gather(yard: Yard, arn: str) -> View:
    """Ask once for everything."""
    execution = yard.execution(arn)
    rows = yard.ledger(execution.name)
    run = next((row for row in rows if row["sk"] == "run"), {})
    roles = _roles(yard, execution.name, rows)
    states = {
        instance["InstanceId"]: instance["State"]["Name"] for instance in yard.instances(execution.name)
    }
    return View(
        at=datetime.now(UTC),
        execution=execution,
        attempt=int(run.get("attempt") or 0),
        states=tuple(states_of(yard.history(arn))),
        hosts=tuple(sorted(_hosts(rows, roles, states), key=lambda host: host.rank)),
        timeline=tuple(sorted(_timeline(rows), key=lambda entry: entry.at)),
        progress=_progress(run.get("progress")),
        curve=tuple(_curve(yard.read_json(f"runs/{execution.name}/metrics.json") or {})),
        outcome=str(run.get("outcome") or ""),
        reason=str(run.get("reason") or ""),
    )


def _roles(yard: Yard, run: str, rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Role of each host by instance id, as the latest attempt's cluster.json says."""
    roles: dict[str, str] = {}
    for row in rows:
        if row["sk"].startswith("attempt#") and row.get("started"):
            cluster = (
                yard.read_json(f"runs/{run}/attempts/{int(row['sk'].partition('#')[2])}/cluster.json") or {}
            )
            roles |= {
                host["instance"]: f"{host['role']} {host['index']}" for host in cluster.get("hosts", [])
            }
    return roles


def _hosts(rows: Iterable[dict[str, Any]], roles: dict[str, str], states: dict[str, str]) -> Iterable[Host]:
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
            launched=instant(row["launched"]),
            ended=instant(row["ended"]) if row.get("ended") else None,
            state=states.get(instance, "gone"),
        )


def _timeline(rows: Iterable[dict[str, Any]]) -> Iterable[Entry]:
    for row in rows:
        if row["sk"].startswith("event#"):
            yield Entry(
                at=instant(row["at"]),
                source=str(row.get("source", "")),
                event=str(row.get("event", "")),
                instance=str(row.get("instance") or ""),
                reason=str(row.get("reason") or ""),
                detail=dict(row.get("detail") or {}),
            )


def _progress(told: dict[str, Any] | None) -> Progress | None:
    if not told or told.get("step") is None:
        return None
    return Progress(
        step=int(told["step"]),
        steps=int(told.get("steps") or 0),
        epoch=float(told.get("epoch") or 0),
        loss=float(told.get("loss") or 0),
        accuracy=float(told["accuracy"]) if told.get("accuracy") is not None else None,
        steps_per_second=float(told.get("steps_per_second") or 0),
    )


def _curve(metrics: dict[str, Any]) -> Iterable[Sample]:
    """The samples that the chief's agent keeps in metrics.json; a program need not report a loss."""
    for sample in metrics.get("samples", []):
        if sample.get("step") is not None and sample.get("loss") is not None:
            yield int(sample["step"]), float(sample["loss"])


def instant(text: str) -> datetime:
    """An ISO-8601 time of the ledger."""
    return datetime.fromisoformat(text)
