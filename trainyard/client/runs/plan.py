"""What a run of a job would try, without one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from trainyard.client.errors import NotPlanned


@dataclass(frozen=True)
class Pool:
    """One pool that would be asked: `price` and `on_demand_price` are dollars for a host and hour; `beside`: the types
    that hosts without a GPU may be of there, cheapest first; `workers`: how many fit there, where that is fewer than
    the job may have."""

    type: str
    zone: str
    market: str
    price: float
    on_demand_price: float | None
    beside: tuple[str, ...]
    workers: int | None = None

    @classmethod
    def of(cls, candidate: Mapping[str, Any]) -> Self:
        """From plan.json."""
        return cls(
            type=candidate["type"],
            zone=candidate["zone"],
            market=candidate["market"],
            price=float(candidate["price"]),
            on_demand_price=candidate.get("on_demand_price"),
            beside=tuple(each["type"] for each in candidate.get("beside") or ()),
            workers=candidate.get("workers"),
        )


@dataclass(frozen=True)
class LeftOut:
    """One pool that cannot be used, the word of the first reason, and why."""

    type: str
    zone: str
    market: str
    code: str
    reason: str


@dataclass(frozen=True)
class JobPlan:
    """`pools` in the order in which they would be asked; `gang` hosts at once at most and
    `least_gang` at least, from `image`; `hourly_cap` dollars an
    hour at most (None: any); `prices` says whose they are; `quotas`: vCPUs by the quota's code; `warnings`: what of the
    program will probably fail; `pool_dollars`: what hosts may cost that wait for the next run, in the first pool; None
    where none wait."""

    pools: tuple[Pool, ...]
    left_out: tuple[LeftOut, ...]
    gang: int
    least_gang: int
    image: str
    hourly_cap: float | None
    made: datetime
    reason: str
    prices: str
    quotas: Mapping[str, float]
    warnings: tuple[str, ...]
    pool_dollars: float | None = None


def read(job: str, output: str) -> JobPlan:
    """What the execution has answered. Raises NotPlanned where a run of the job would be refused."""
    answer: dict[str, Any] = json.loads(output)
    if answer["kind"] != "outlook":
        raise NotPlanned(
            f"{job} would not run: {answer['error']}",
            str(answer.get("reason") or answer.get("cause")),
            "correct the job file, and plan it again",
        )
    plan = answer["plan"]
    return JobPlan(
        pools=tuple(map(Pool.of, plan["candidates"])),
        left_out=tuple(
            LeftOut(each["type"], each["zone"], each["market"], each["code"], each["reason"])
            for each in plan["excluded"]
        ),
        gang=int(plan["gang"]),
        least_gang=int(plan.get("least_gang") or plan["gang"]),
        image=plan["image"],
        hourly_cap=plan["hourly_cap"],
        made=datetime.fromisoformat(plan["made"]),
        reason=answer["reason"],
        prices=plan["prices"],
        quotas=answer["quotas"],
        warnings=tuple(answer["warnings"]),
        pool_dollars=answer.get("pool_dollars"),
    )
