"""Recovery: what follows a failed attempt. Pure, so its Lambda has no permissions."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, assert_never

from lambdas.core.capacity.retained_hosts import RetainedHosts
from trainyard.core.model import errors
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

MOST_TAIL = 8_000
MOST_REASON = 4_000
"""Characters. Step Functions allows a cause of 32,768."""
MOST_RESTART_SECONDS = 300
LOST_WITH_NAME = (
    "Interrupted", "HostLost", "HardwareFailed", "StartFailed", "UploadFailed", "HostsNotReady", "ProgramHangs",
)  # fmt: skip
"""Troubles that name their hosts, so that the others may stay."""
RESTART_SECONDS = {"Interrupted": 0, "HostLost": 5, "Resized": 0, "Preempted": 0}
"""Seconds before the second attempt, doubled each time; 10 for every other trouble. A first loss is chance, and the
remaining hosts cost money while they wait, so it has no pause."""
STOPS = (errors.LimitReached.__name__, errors.Stopped.__name__)
NO_FAILURES = (errors.Resized.__name__, errors.Preempted.__name__)
"""Ends of attempts that do not count as restarts."""
UNEXPLAINED_TIMEOUTS = ("States.HeartbeatTimeout", "States.Timeout")
SERVICE_TROUBLE = ("Lambda.", "Sandbox.", "Runtime.ExitError", "Runtime.OutOfMemory")
"""Prefixes of the errors that report a failure of AWS or of a function's process. None of our errors begins with
them."""
DENIED = "is not authorized to perform"
"""Marks a plain cause for a missing permission of the state machine's role. AWS reports it as an error of the called
service."""
WHAT_HAPPENED = {
    "Interrupted": "its hosts left before its end",
    "HostLost": "a host is gone",
    "HardwareFailed": "the hardware of a host failed",
    "StartFailed": "a host could not start the program",
    "UploadFailed": "a host could not upload the program's outputs",
    "HostsNotReady": "a host was not ready in time",
    "CapacityRefused": "EC2 had no room",
    "ProgramHangs": "the program was ended because it hung",
    "Resized": "more hosts are ready to join",
    "Preempted": "a run of a higher priority needs its slot",
    "States.HeartbeatTimeout": "no host has reported for too long",
    "States.Timeout": "a state exceeded its time",
}


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """How an attempt failed: the error of the Catch and the fields of its cause."""

    error: str
    reason: str = ""
    lost: tuple[str, ...] = ()
    step: int | None = None
    tail: str = ""
    exit_code: int | None = None
    final: bool = False
    all_well: bool = False
    """True if every host is present and healthy, so that the next attempt can use them."""

    @property
    def is_passing(self) -> bool:
        """Return True if another attempt can help: each of our errors has a flag for it, and a service's own failure
        passes."""
        known = errors.WORDS.get(self.error)
        return known.retry_can_help if known else self.error.startswith(SERVICE_TROUBLE)

    @staticmethod
    def caught(error: str, cause: str) -> "Trouble":
        """Read `$states.errorOutput`: the cause is our JSON, a Lambda's error JSON, or the text of a service."""
        found = _mapping_in(cause)
        if found and "errorMessage" in found:
            return Trouble(error=error, reason=str(found["errorMessage"]))
        ours = {**(found or {}), "error": error}
        if "reason" in ours and not serialization.faults(Trouble, ours):
            return serialization.from_json(Trouble, ours)
        return Trouble(error="AccessDenied" if DENIED in cause else error, reason=cause.strip())

    def to_cause(self) -> str:
        """Return the cause for SendTaskFailure, within its 32,768 characters."""
        short = replace(self, reason=self.reason[:MOST_REASON], tail=self.tail[-MOST_TAIL:])
        found = {name: value for name, value in serialization.to_json(short).items() if name != "error"}
        return json.dumps(found, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Another attempt after a pause."""

    kind: ClassVar[str] = "retry"
    seconds: int
    keep: RetainedHosts
    lost: tuple[str, ...] = ()
    reason: str
    attempt: int
    """The number of the new attempt."""
    resized: int = 0
    """How many earlier attempts ended only because the gang could grow, or for a run of a higher priority. They do not
    count as restarts."""


@dataclass(frozen=True, kw_only=True)
class EndRun:
    """The run ends, and no host of this attempt stays."""

    kind: ClassVar[str] = "stop"
    error: str
    """The error of the execution."""
    reason: str
    """The cause of the execution."""
    attempt: int
    keep: RetainedHosts = RetainedHosts.NONE
    lost: tuple[str, ...] = ()
    resized: int = 0


def decide(
    trouble: Trouble,
    *,
    attempt: int,
    restarts: int,
    now: datetime,
    deadline: datetime,
    resized: int = 0,
    elastic: bool = False,
) -> Retry | EndRun:
    """Decide what follows a failed attempt. `attempt` counts from 1; `restarts` is the job's limit, and the
    `resized` attempts do not count. A run that stops at its cap or for a user has its own reason, because nothing
    failed. `elastic`: the remaining hosts may continue without the lost ones."""
    stop = partial(EndRun, attempt=attempt, resized=resized)
    failed = attempt - resized
    if trouble.error in STOPS and trouble.final:
        return stop(error=trouble.error, reason=f"{trouble.reason}.{_last_lines(trouble)}")
    if hopeless := why_hopeless(trouble, attempt):
        return stop(error=trouble.error, reason=hopeless)
    happened = _describe_trouble(trouble, attempt)
    pause = _pause(trouble.error, failed)
    if now + timedelta(seconds=pause) >= deadline:
        return stop(error="LimitReached", reason=f"{happened} {USED_UP}{_last_lines(trouble)}")
    free = trouble.error in NO_FAILURES
    if failed > restarts and not free:
        allowed = f"limits.restarts is {restarts}, so no attempt is left"
        kept = "The logs are in the bucket, and any checkpoint that was saved"
        advice = f"{allowed}. {kept}; raise the limit if hosts are at fault."
        return stop(error=trouble.error, reason=f"{happened} {advice}{_last_lines(trouble)}")
    some_stay = trouble.all_well or (trouble.lost and trouble.error in LOST_WITH_NAME)
    keep = RetainedHosts.REMAINING if some_stay else RetainedHosts.NONE
    return Retry(
        seconds=pause,
        keep=keep,
        lost=trouble.lost,
        reason=f"{happened} {_what_next(trouble, keep, attempt, restarts + resized + free, pause, elastic)}",
        attempt=attempt + 1,
        resized=resized + free,
    )


def why_hopeless(trouble: Trouble, attempt: int) -> str | None:
    """Return the reason of a run that no restart can help; None if one may help."""
    hopeless = _hopeless(trouble)
    return f"{_describe_trouble(trouble, attempt)} {hopeless}{_last_lines(trouble)}" if hopeless else None


def _hopeless(trouble: Trouble) -> str | None:
    """Return why another attempt cannot help, and what to do; None if it can."""
    known = errors.WORDS.get(trouble.error)
    if known is errors.LimitReached:
        return USED_UP
    if known and not known.retry_can_help:
        return _advice(known.blame)
    if trouble.final and known is errors.UploadFailed:
        return (
            "A finished training is not repeated for its upload. Fix what the reason names; a run that is resumed "
            "starts at its last checkpoint, and repeats only later steps."
        )
    if trouble.final:
        return "Another attempt would end the same way; fix what the reason names, then start the job again."
    if trouble.is_passing or trouble.error in UNEXPLAINED_TIMEOUTS:
        return None
    return (
        "This error is unknown to Trainyard; another attempt could repeat it and cost money, so the run ends here. "
        "The log of the state's function says more."
    )


USED_UP = (
    "The hours or dollars of the job (limits.hours, limits.dollars) are used up; raise them to continue."
)


def _advice(blame: errors.Blame) -> str:
    """Return the advice for an error that every attempt would repeat."""
    match blame:
        case errors.Blame.CAPACITY:
            return "No capacity pool is left to try now; allow more instance types or markets, or try later."
        case errors.Blame.USER:
            return "The program or its job file is at fault, so it is not repeated; correct it, and submit it again."
        case errors.Blame.ACCESS:
            return "A permission is missing, and another attempt would miss it, too; grant it to the role."
        case errors.Blame.CONFIGURATION | errors.Blame.INFRASTRUCTURE | errors.Blame.UNKNOWN:
            return (
                "The yard itself is at fault, so another attempt would fail, too: fix what the reason names (if it "
                "is set up wrongly, deploy or bake again), then start the job again."
            )
    assert_never(blame)


def _pause(error: str, attempt: int) -> int:
    if error == "HostLost" and attempt == 1:
        return 0
    first: int = RESTART_SECONDS.get(error, 10)
    doubled: int = first * 2 ** min(attempt - 1, 10)
    return min(MOST_RESTART_SECONDS, doubled)


def _describe_trouble(trouble: Trouble, attempt: int) -> str:
    """Return a sentence about what happened."""
    step = "" if trouble.step is None else f" at step {trouble.step}"
    what = (
        trouble.error
        if trouble.error not in WHAT_HAPPENED
        else f"{trouble.error}, {WHAT_HAPPENED[trouble.error]}"
    )
    code = "" if trouble.exit_code is None else f" (exit code {trouble.exit_code})"
    why = f": {trouble.reason.strip()[:MOST_REASON]}" if trouble.reason.strip() else ""
    ended = "ended" if trouble.error in NO_FAILURES else "failed"
    text = f"Attempt {attempt} {ended}{step}: {what}{code}{why}"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _what_next(
    trouble: Trouble, keep: RetainedHosts, attempt: int, restarts: int, pause: int, elastic: bool
) -> str:
    when = f"in {pause} s" if pause else "now"
    if trouble.error == errors.Preempted.__name__:
        when = "once the run has a slot again"
    match keep:
        case RetainedHosts.NONE:
            who = "a whole new gang"
        case RetainedHosts.REMAINING:
            who = "on the same hosts"
            if trouble.error == errors.Resized.__name__:
                who = "on the same hosts and the new ones"
            elif trouble.lost and elastic:
                who = f"without {', '.join(trouble.lost)} if the others are enough"
            elif trouble.lost:
                who = f"{', '.join(trouble.lost)} replaced, the others stay"
        case _:
            assert_never(keep)
    return (
        f"Attempt {attempt + 1} of at most {restarts + 1} follows {when}: {who}; "
        "it resumes from the last checkpoint, or else from the outputs of its working folder."
    )


def _last_lines(trouble: Trouble) -> str:
    return f"\nThe program's last lines:\n{trouble.tail.strip()[-MOST_TAIL:]}" if trouble.tail.strip() else ""


def _mapping_in(cause: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(cause)
    except ValueError:  # plain text, as Step Functions itself writes
        return None
    return found if isinstance(found, Mapping) else None


def trouble_of(row: AttemptRow) -> Trouble | None:
    """Return how an attempt failed; None for an attempt that runs or ended well."""
    return Trouble.caught(row.error, row.cause or "") if row.error else None
