"""The reason for a run's state, and the next step, in lines for users."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from trainyard.client.runs.execution import Execution
from trainyard.client.runs.progress import progress_in
from trainyard.client.runs.records import elapsed
from trainyard.command_line import command_line
from trainyard.core.model import ends, states
from trainyard.core.model.job import Outputs
from trainyard.protocol.ledger.run import RunRow, Waiting, WaitsFor
from trainyard.values import serialization
from trainyard.values.quantities import format_count, format_roughly

ADVICE = {
    "NoCapacity": "submit again with more hardware.instance_types, or a longer limits.wait_minutes",
    "QuotaExceeded": "{doctor --request} asks AWS for a larger quota",
    "YardFull": "submit again later, or stop a run: {ls}",
    "BudgetSpent": "ask for less, wait until a run or the month ends, or have the yard's monthly_dollars raised",
    "EarlierRunFailed": (
        "submit this job again after a run that succeeds: {submit JOB --after RUN}; with --when end, any end of it "
        "starts this job"
    ),
    "JobRefused": "correct the job file, and check it first: {check JOB}",
    "RecipeRefused": "correct the recipe, and bake it again: {image bake RECIPE}",
    "BakeUnderWay": "wait for the other bake ({image bake} follows it), then bake again",
    "SnapshotRefused": "{hosts} lists the hosts",
    "RollbackRefused": "{image ls} lists the images",
    "AccessDenied": "deploy the yard again; a permission of its roles is missing",
}
"""The advice by the error's name (trainyard/core/model/errors.py). Words in braces are a command line."""
LOGS = frozenset({"last_log", "log"})
"""The keys of a summary under which runs and bakes have their log."""
RESULTS = ("notebook", "model", "outputs")
"""The results of a finished program. Users are offered them in this order."""
IN_WORDS = {"refused": "was refused", "stopped": "was stopped"}
REFUSED = {
    "capacity": "no room",
    "quota": "quota",
    "throttled": "throttled",
    "unsupported": "not offered",
    "configuration": "misconfigured",
    "access": "denied",
}
"""The words for the kinds of refusals."""


@dataclass(frozen=True)
class Reason:
    """The reason for a run's state. `kind` is one of `running`, `waiting`, `succeeded`, `failed`, `refused` and
    `stopped`, for programs."""

    kind: str
    lines: tuple[str, ...]
    advice: tuple[str, ...] = ()
    logs: str = ""
    """The line of the advice that prints the whole log; empty without a log."""
    doubt: str | None = None
    """The doubt about a run that succeeded."""
    resumes: bool = False
    """True if the run ended without success and left a checkpoint or outputs for a new run."""

    @property
    def label(self) -> str:
        """Return the word for the kind: `Finished, but ...` if something speaks against the success."""
        return f"{ends.WORDS[self.kind]}, but ..." if self.doubt else ends.WORDS.get(self.kind, self.kind)

    def without_logs(self) -> Reason:
        """Return the reason for a user who has read the whole log."""
        return replace(self, advice=self.beyond_logs, logs="")

    @property
    def beyond_logs(self) -> tuple[str, ...]:
        """Return the advice for a user who has read the log."""
        return tuple(line for line in self.advice if line != self.logs)


def reason_for(
    execution: Execution,
    row: RunRow | None,
    summary: Mapping[str, Any],
    *,
    saved: bool,
    now: datetime,
) -> Reason:
    """Return the reason for the run's state. `row` is its row in the ledger; `saved` is True if it has a checkpoint."""
    reason = _reason(execution, row, summary, saved=saved, now=now)
    progress = progress_in(row.progress) if row else None
    warning = progress.warning if progress and reason.kind != "succeeded" else ""  # doubts include it
    limited = (f"{row.limited[:1].upper()}{row.limited[1:]}",) if row and row.limited else ()
    findings = tuple(f"{said}." for said in (*(row.findings.values() if row else ()), *limited))
    more = (*((warning,) if warning else ()), *findings)
    return replace(reason, lines=(*reason.lines, *more)) if more else reason


def _reason(
    execution: Execution, row: RunRow | None, summary: Mapping[str, Any], *, saved: bool, now: datetime
) -> Reason:
    if execution.is_over:
        return _describe_end(execution, row, summary, saved=saved)
    if row and row.waiting:
        return _waits(execution, row.waiting, now)
    return _goes_on(execution, row)


def _describe_end(
    execution: Execution, row: RunRow | None, summary: Mapping[str, Any], *, saved: bool
) -> Reason:
    where, run = summary.get("where") or {}, execution.name
    results = {part: _get_line(run, part) for part in RESULTS if part in where}
    if execution.succeeded:
        doubt = ends.doubt("succeeded", summary.get("reason") or (row.reason if row else None))
        if doubt:
            logs = command_line("logs", run)
            said = f"{run} has finished, but {doubt}."
            return Reason("succeeded", (said,), (logs, *results.values()), logs, doubt)
        return Reason("succeeded", (f"{run} has finished.",), tuple(results.values()))
    told = summary.get("outcome") or (row.outcome if row else None)
    outcome = str(told or ("stopped" if execution.status == "ABORTED" else "failed"))
    error = str(summary.get("error") or execution.error)
    said = summary.get("reason") or (row.reason if row else None) or execution.error_text
    text = str(said or f"the execution is {execution.status} and gives no cause").splitlines()
    advice = [advise(error)] if error in ADVICE else []
    logs, resumes = "", False
    if outcome != "refused":
        resumes = saved or ("outputs" in where and _outputs_of(row).are_restored())
        logs = command_line("logs", run) if LOGS & where.keys() or not summary else ""
        advice += [line for line in (results.get("notebook"), logs) if line]
        advice += [command_line("resume", run)] if resumes else []
    lines = (f"{run} {IN_WORDS.get(outcome, 'has failed')}:", *text)
    return Reason(outcome, lines, tuple(advice), logs, resumes=resumes)


def _outputs_of(row: RunRow | None) -> Outputs:
    return serialization.from_json(Outputs, ((row.job if row else None) or {}).get("outputs") or {})


def advise(error: str) -> str:
    """Return the advice for an error, with complete command lines."""
    return re.sub(r"\{([^}]*)\}", lambda found: command_line(*found[1].split()), ADVICE[error])


def _get_line(run: str, part: str) -> str:
    return command_line("get", run, *([] if part == "model" else [part]))


def _goes_on(execution: Execution, row: RunRow | None) -> Reason:
    if row is None:
        return Reason("running", (f"{execution.name} has begun: the yard checks its job now.",))
    if row.search:
        done = f"{row.search.reported} of {format_count(row.search.trials, 'trial')} are reported"
        return Reason("running", (f"{execution.name} is searching: {done}, {row.search.running} run.",))
    progress = progress_in(row.progress)
    at = f", at step {progress.step}" if progress else ""
    word = states.word_for(row.state, row.kind)
    lines = [f"{execution.name} is {word.lower()}: attempt {row.attempt}{at}."]
    if left := row.leaves_for:
        needs = f"Run {left.run} of priority {left.priority} needs its slot"
        lines.append(f"{needs}: it saves, waits in the queue, and continues from its last checkpoint.")
    return Reason("running", tuple(lines))


def _waits(execution: Execution, waiting: Waiting, now: datetime) -> Reason:
    is_soon = waiting.until - now < timedelta(days=1)
    until = f"{waiting.until:%H:%M}" if is_soon else f"{waiting.until:%Y-%m-%d %H:%M}"
    since = format_roughly(elapsed(waiting.since, now).total_seconds())
    asks = f"it asks again at {waiting.next_request_after(now):%H:%M:%S}, and gives up at {until} UTC"
    if waiting.what is WaitsFor.SLOT:
        lines = (f"{execution.name} waits {since} for its slot in the yard: {waiting.reason}; {asks}.",)
        return Reason("waiting", lines, (f"{command_line('ls')} lists the runs before it",))
    if waiting.what is WaitsFor.RUNS:
        lines = (f"{execution.name} waits {since}: {waiting.reason}.",)
        advice = (f"{command_line('ls')} lists these runs", command_line("stop", execution.name))
        return Reason("waiting", lines, advice)
    if waiting.what is WaitsFor.RUN:
        return Reason("waiting", (f"{execution.name} waits {since}: {waiting.reason}; {asks}.",))
    kinds = Counter({REFUSED.get(kind, kind): count for kind, count in waiting.refused.items()})
    refused = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    pools = f"{format_count(kinds.total(), 'pool')} refused ({refused})" if kinds else waiting.reason
    sooner = "more hardware.instance_types, or market: spot_then_on_demand, find room sooner"
    advice = (
        advise("QuotaExceeded") if set(waiting.refused) == {"quota"} else sooner,
        command_line("stop", execution.name),
    )
    return Reason("waiting", (f"{execution.name} waits {since}: {pools}; {asks}.",), advice)
