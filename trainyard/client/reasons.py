"""Why a run is as it is, in lines for a person, and what to type next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trainyard.client.execution import Execution
from trainyard.client.records import elapsed, run_row

ADVICE = {
    "NoOffer": "submit again with more hardware.instance_types, or a longer limits.wait_minutes",
    "QuotaExceeded": "trainyard doctor --request asks AWS for a larger quota",
    "YardFull": "submit again later, or stop a run: trainyard ls",
    "BudgetSpent": "wait for the next month, or have the yard deployed with a higher monthly_dollars",
    "JobRefused": "mend the job file: trainyard check JOB",
    "AccessDenied": "deploy the yard again; a permission of its roles is missing",
}
"""By the error's word (trainyard/core/model/errors.py)."""
REFUSED = {
    "capacity": "no room",
    "quota": "quota",
    "throttled": "throttled",
    "unsupported": "not offered",
    "configuration": "misconfigured",
    "access": "denied",
}
"""What a pool's refusal is called."""


@dataclass(frozen=True)
class Reason:
    """`kind` is a word for programs: `running`, `waiting`, `succeeded`, `failed`, `refused`, `stopped`."""

    kind: str
    lines: tuple[str, ...]
    advice: tuple[str, ...] = ()


def reason_for(
    execution: Execution,
    rows: Iterable[dict[str, Any]],
    summary: Mapping[str, Any],
    *,
    saved: bool,
    now: datetime,
) -> Reason:
    """`saved`: whether it has a checkpoint to go on from."""
    rows = [*rows]
    row = run_row(rows)
    if execution.is_over:
        return _ended(execution, row, summary, saved=saved)
    attempt = int(row.get("attempt") or 1)
    launched = any(each["sk"] == f"attempt#{attempt:04}" and each.get("launched") for each in rows)
    return _goes_on(execution, row) if launched else _waits(execution, row, rows, attempt, now)


def _ended(
    execution: Execution, row: Mapping[str, Any], summary: Mapping[str, Any], *, saved: bool
) -> Reason:
    if execution.status == "SUCCEEDED":
        return Reason(
            "succeeded", (f"{execution.name} has succeeded.",), (f"trainyard get {execution.name}",)
        )
    outcome = str(summary.get("outcome") or row.get("outcome") or "failed")
    error = str(summary.get("error") or execution.error)
    said = summary.get("reason") or row.get("reason") or f"{execution.error} {execution.cause}".strip()
    text = str(said or f"the execution is {execution.status} and gives no cause").splitlines()
    advice = [ADVICE[error]] if error in ADVICE else []
    if outcome != "refused":
        advice.append(f"trainyard logs {execution.name}")
        advice += [f"trainyard resume {execution.name}"] if saved else []
    return Reason(outcome, (f"{execution.name} {_in_words(outcome, execution)}:", *text), tuple(advice))


def _in_words(outcome: str, execution: Execution) -> str:
    if outcome == "failed" and execution.status == "ABORTED":
        return "was stopped"
    return {"refused": "was refused", "stopped": "was stopped"}.get(outcome, "has failed")


def _goes_on(execution: Execution, row: Mapping[str, Any]) -> Reason:
    progress = row.get("progress") or {}
    at = f", at step {int(progress['step'])}" if progress.get("step") is not None else ""
    state = row.get("state") or "Starting"
    return Reason("running", (f"{execution.name} goes on: {state}, attempt {row.get('attempt') or 1}{at}.",))


def _waits(
    execution: Execution, row: Mapping[str, Any], rows: list[dict[str, Any]], attempt: int, now: datetime
) -> Reason:
    since = _minutes(elapsed(execution.started, now).total_seconds())
    asked = [each for each in rows if each["sk"].startswith(f"intent#{attempt}#")]
    refusals = [str(each.get("refusal")) for each in asked if each.get("answer") == "refused"]
    refused = Counter(REFUSED.get(word, "refused") for word in refusals)
    if not refused:
        return Reason(
            "running", (f"{execution.name} goes on: {row.get('state') or 'Starting'}, for {since}.",)
        )
    kinds = ", ".join(f"{count} {kind}" for kind, count in refused.most_common())
    line = f"{execution.name} waits for hosts, for {since}: pools refused {refused.total()} times ({kinds})."
    return Reason("waiting", (line,), (f"trainyard show {execution.name}",))


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
