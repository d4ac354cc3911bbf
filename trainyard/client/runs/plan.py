"""The plan of a job, made without a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from trainyard.client.errors import NotPlanned


@dataclass(frozen=True)
class Pool:
    """One capacity pool of the plan, with prices in dollars for a host and hour."""

    type: str
    zone: str
    market: str
    price: float
    on_demand_price: float | None
    beside: tuple[str, ...]
    """The types for hosts without a GPU in this zone, the cheapest first."""
    workers: int | None = None
    """The number of workers that fit into the pool, if it is lower than the job's maximum."""

    @classmethod
    def of(cls, candidate: Mapping[str, Any]) -> Self:
        """Read a pool from plan.json."""
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
    """A capacity pool that cannot be used, with the code of the first reason and the reason in words."""

    type: str
    zone: str
    market: str
    code: str
    reason: str


@dataclass(frozen=True)
class JobPlan:
    """The plan of a job."""

    pools: tuple[Pool, ...]
    """The capacity pools in the order of the launch requests."""
    left_out: tuple[LeftOut, ...]
    gang: int
    """The most hosts at once."""
    least_gang: int
    """The fewest hosts at once."""
    image: str
    hourly_cap: float | None
    """The most dollars per hour; None without a limit."""
    made: datetime
    reason: str
    prices: str
    """The source of the prices, in words."""
    quotas: Mapping[str, float]
    """The vCPUs by the code of the quota."""
    warnings: tuple[str, ...]
    """The parts of the program that will probably fail."""
    pool_dollars: float | None = None
    """The most that hosts in the warm pool may cost while they wait for the next run, in the first capacity pool; None
    if no hosts wait."""


def read(job: str, output: str) -> JobPlan:
    """Read the plan from the execution's output. Raise NotPlanned if a run of the job would be refused."""
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
