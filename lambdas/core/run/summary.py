"""summary.json: what a person wants to know about a run when it is over."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from lambdas.core.capacity.cost import BilledHost, bill, dollars_of
from lambdas.core.model import wire
from lambdas.core.model.lazy import dataclass


class Outcome(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


class Ending(StrEnum):
    """How an attempt ended (ledger: attempt#<n>.ending)."""

    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    LOST = "lost"
    START_FAILED = "start_failed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, kw_only=True)
class AttemptFacts:
    """One attempt as the ledger knows it. `pool` is the offer in words; `resumed` what its program found when it
    restored (`step`, `verified`, ...), None when it said nothing of that; `reached_before` the last step that an
    earlier attempt had reported when this one first did."""

    attempt: int
    pool: str
    hosts: tuple[str, ...]
    launched: datetime | None = None
    gang_ready: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    ending: Ending | None = None
    reason: str | None = None
    from_step: int | None = None
    to_step: int | None = None
    resumed: Mapping[str, Any] | None = None
    reached_before: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """All that is known about a run when it is over. `job` is the job as admitted (None: refused), `warnings` what was
    expected of its program when it was;
    `objects` are the keys the run left in the bucket; `metrics` is metrics.json."""

    run: str
    bucket: str
    outcome: Outcome
    reason: str
    created: datetime
    ended: datetime
    error: str | None = None
    job: Mapping[str, Any] | None = None
    job_key: str | None = None
    warnings: tuple[str, ...] = ()
    execution_arn: str | None = None
    attempts: tuple[AttemptFacts, ...] = ()
    hosts: tuple[BilledHost, ...] = ()
    progress: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    objects: tuple[str, ...] = ()
    image: str | None = None


def ending_of(error: str) -> Ending:
    """The ending of an attempt that failed with this error word."""
    return ENDINGS.get(error, Ending.FAILED)


ENDINGS: Mapping[str, Ending] = {
    "Interrupted": Ending.INTERRUPTED,
    "HostLost": Ending.LOST,
    "StartFailed": Ending.START_FAILED,
    "HostsNotReady": Ending.TIMED_OUT,
    "States.HeartbeatTimeout": Ending.TIMED_OUT,
    "States.Timeout": Ending.TIMED_OUT,
    "LimitReached": Ending.TIMED_OUT,
}


def summarise(facts: RunFacts) -> dict[str, Any]:
    """The content of summary.json. Its keys are part of docs/contracts/bucket.md."""
    return {
        "run": facts.run,
        "outcome": facts.outcome.value,
        "reason": facts.reason,
        "error": facts.error,
        "created": wire.stamp(facts.created),
        "ended": wire.stamp(facts.ended),
        "seconds": _seconds(facts.created, facts.ended),
        "job": facts.job.get("name") if facts.job else None,
        "job_key": facts.job_key,
        "warnings": list(facts.warnings),
        "execution_arn": facts.execution_arn,
        "restarts": max(0, len(facts.attempts) - 1),
        "attempts": _attempts(facts),
        "steps": _steps(facts),
        "metrics": {key: value for key, value in (facts.metrics or {}).items() if key not in LONG_METRICS},
        "resume": resume(facts.attempts),
        "cost": _cost(facts),
        "hosts": [_host(host, facts.ended) for host in sorted(facts.hosts, key=lambda host: host.launched)],
        "image": facts.image,
        "where": places(facts.run, facts.bucket, facts.objects),
    }


def resume(attempts: Iterable[AttemptFacts]) -> dict[str, Any]:
    """The proof of resume: where each restart went on, how many steps were trained twice for that, and whether the
    checkpoints were found whole (None where there was none to find, or a program did not say)."""
    ordered = sorted(attempts, key=lambda attempt: attempt.attempt)
    restarts = [attempt for attempt in ordered[1:] if attempt.started]
    restored = [attempt for attempt in restarts if attempt.resumed or attempt.from_step]
    verified = [attempt.resumed.get("verified") if attempt.resumed else None for attempt in restored]
    return {
        "attempts": len(ordered),
        "resumed_at": [_resumed_at(attempt) for attempt in restarts],
        "steps_lost": sum(_steps_lost(ordered, attempt) for attempt in restarts),
        "verified": False if False in verified else True if verified and None not in verified else None,
        "restores": [dict(attempt.resumed) for attempt in restarts if attempt.resumed],
    }


def _resumed_at(attempt: AttemptFacts) -> int:
    """The step the program says, else that of the checkpoint it was given; 0 from the beginning."""
    step = attempt.resumed.get("step") if attempt.resumed else None
    return int(step if step is not None else attempt.from_step or 0)


def _steps_lost(ordered: Sequence[AttemptFacts], attempt: AttemptFacts) -> int:
    """What was trained before this attempt and had to be trained again in it; one that was lost before its first
    word leaves that to the next."""
    if attempt.reached_before is None:
        return 0
    reached = max(attempt.reached_before, ordered[ordered.index(attempt) - 1].to_step or 0)
    return max(0, reached - _resumed_at(attempt))


def notice(summary: Mapping[str, Any]) -> tuple[str, str]:
    """Subject (at most 100 characters of ASCII, as SNS asks) and text of the notification."""
    subject = f"Trainyard: {summary['run']} {summary['outcome']}".encode("ascii", "replace").decode()[:100]
    cost, steps = summary["cost"], summary["steps"]
    on_demand = _money(cost["on_demand_dollars"])
    lines = [
        f"{summary['run']} {summary['outcome']} after {_span(summary['seconds'])}.",
        f"Reason: {summary['reason']}",
        *(f"Warning: {warning}" for warning in summary["warnings"]),
        f"Attempts: {len(summary['attempts'])}. {_steps_in_words(steps, summary['resume'])}.",
        f"Cost: {_money(cost['dollars'])} for {cost['hours']:.3f} host hours, on demand {on_demand}.",
        *(f"{what}: {uri}" for what, uri in summary["where"].items()),
    ]
    return subject, "\n".join(lines) + "\n"


def _steps_in_words(steps: Mapping[str, Any], proof: Mapping[str, Any]) -> str:
    done = f"Steps: {steps['done']} of {steps['planned']}"
    if not proof["resumed_at"]:
        return done
    resumed = ", ".join(str(step) for step in proof["resumed_at"])
    return f"{done}, resumed at step {resumed}; steps lost: {proof['steps_lost']}"


def places(run: str, bucket: str, objects: Iterable[str]) -> dict[str, str]:
    """Where things are: s3 URIs by what they are, only those that exist."""
    keys = tuple(objects)
    folder = f"runs/{run}/"
    found = {"folder": f"s3://{bucket}/{folder}"}
    for what, below in PLACES.items():
        if any(key.startswith(f"{folder}{below}") for key in keys):
            found[what] = f"s3://{bucket}/{folder}{below}"
    logs = sorted(key for key in keys if key.startswith(f"{folder}attempts/") and key.endswith(".log"))
    if logs:
        found["last_log"] = f"s3://{bucket}/{_last_log(logs)}"
    return found


LONG_METRICS = ("history", "samples")
"""What of metrics.json a summary leaves out."""
OF_THE_PROOF = ("resumed", "reached_before")
"""What of an attempt the summary says under `resume`."""
PLACES = {
    "model": "model/",
    "metrics": "metrics.json",
    "checkpoints": "checkpoints/",
    "tensorboard": "tensorboard/",
    "plan": "plan.json",
    "attempts": "attempts/",
}


def _last_log(logs: Sequence[str]) -> str:
    """The chief's log of the last attempt, or what comes nearest."""
    return max(
        logs, key=lambda key: (int(key.split("/")[3]) if key.split("/")[3].isdigit() else 0, "/chief-" in key)
    )


def _attempts(facts: RunFacts) -> list[dict[str, Any]]:
    """Each attempt with where it began and how far it got: at least to where the next one resumed."""
    ordered = sorted(facts.attempts, key=lambda attempt: attempt.attempt)
    following = [*(each.from_step for each in ordered[1:]), _steps(facts)["done"]]
    rows = []
    for each, reached in zip(ordered, following, strict=False):
        row = {key: value for key, value in wire.to_json(each).items() if key not in OF_THE_PROOF}
        row["from_step"] = each.from_step or 0
        row["to_step"] = max((step for step in (each.to_step, reached) if step is not None), default=None)
        row["seconds"] = _seconds(each.launched, each.ended or facts.ended) if each.launched else None
        rows.append(row)
    return rows


def _steps(facts: RunFacts) -> dict[str, int | None]:
    """Steps done and planned: what the program wrote last, else what it last signalled."""
    known = {
        **(facts.progress or {}),
        **{key: value for key, value in (facts.metrics or {}).items() if value is not None},
    }
    return {"done": known.get("step"), "planned": known.get("steps")}


def _cost(facts: RunFacts) -> dict[str, Any]:
    """Dollars and hours, by market, beside what the same hours cost on demand."""
    total = bill(facts.hosts, now=facts.ended)
    percent = None
    if total.saved_dollars is not None and total.on_demand_dollars:
        percent = round(100 * total.saved_dollars / total.on_demand_dollars, 1)
    return {
        "dollars": total.dollars,
        "hours": total.hours,
        "by_market": {
            market: {"dollars": dollars, "hours": total.hours_by_market[market]}
            for market, dollars in total.dollars_by_market.items()
        },
        "on_demand_dollars": total.on_demand_dollars,
        "saved_dollars": total.saved_dollars,
        "saved_percent": percent,
        "counts": "instance hours and their root disks, not storage, requests or transfer",
    }


def _host(host: BilledHost, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = wire.to_json(host)
    return row | {"seconds": _seconds(host.launched, host.ended or now), "dollars": dollars_of(host, now=now)}


def _seconds(begin: datetime, end: datetime) -> float:
    return round(max(0.0, (end - begin).total_seconds()), 3)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(
        part for part in (f"{hours} h" * (hours > 0), f"{minutes} min" * (minutes > 0), f"{rest} s") if part
    )


def _money(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"${dollars:.4f}"
