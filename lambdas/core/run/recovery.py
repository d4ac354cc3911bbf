"""Recovery: what happens after an attempt failed. Pure, so its Lambda has no permissions at all."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ClassVar, assert_never

from lambdas.core.capacity.kept_hosts import KeptHosts
from trainyard.core.model import errors
from trainyard.protocol.ledger.attempt import AttemptRow
from trainyard.values import serialization
from trainyard.values.lazy import dataclass

MOST_TAIL = 8_000
MOST_REASON = 4_000
"""Characters. Step Functions takes a cause of 32,768."""
MOST_RESTART_SECONDS = 300
LOST_WITH_NAME = ("Interrupted", "HostLost", "StartFailed", "UploadFailed", "HostsNotReady", "ProgramHangs")
"""Troubles that name their hosts: the others may stay."""
RESTART_SECONDS = {"Interrupted": 0, "HostLost": 5, "Resized": 0}
"""Seconds before the second attempt, doubled each time; 10 for every other trouble. A first loss is chance, and the
hosts that stay are paid for while they wait: it has no pause."""
STOPS = (errors.LimitReached.__name__, errors.Stopped.__name__)
NOBODY_KNOWS = ("States.HeartbeatTimeout", "States.Timeout")
SERVICE_TROUBLE = ("Lambda.", "Sandbox.", "Runtime.ExitError", "Runtime.OutOfMemory")
"""Beginnings of the error names by which AWS says that it, or a function's process, failed; none of our own words."""
DENIED = "is not authorized to perform"
"""In a plain cause: the state machine's own role lacks something, which AWS calls an error of the service it called."""
WHAT_HAPPENED = {
    "Interrupted": "the hosts left it before its end",
    "HostLost": "a host is gone",
    "StartFailed": "a host could not start the program",
    "UploadFailed": "a host could not upload what the program left",
    "HostsNotReady": "a host was not ready in time",
    "CapacityRefused": "EC2 had no room",
    "ProgramHangs": "the program was ended because it hung",
    "Resized": "more hosts are ready to join",
    "States.HeartbeatTimeout": "no host has reported for too long",
    "States.Timeout": "a state took longer than it may",
}


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """How an attempt ended badly: the error word of the Catch and the found of its cause. `all_well`: every host is
    there, and nothing is wrong with any of them, so the next attempt can be theirs."""

    error: str
    reason: str = ""
    lost: tuple[str, ...] = ()
    step: int | None = None
    tail: str = ""
    exit_code: int | None = None
    final: bool = False
    all_well: bool = False

    @property
    def is_passing(self) -> bool:
        """Whether trying again can help, as far as the error word tells: ours says so itself, and a service's own
        trouble passes."""
        known = errors.WORDS.get(self.error)
        return known.retry_can_help if known else self.error.startswith(SERVICE_TROUBLE)

    @staticmethod
    def caught(error: str, cause: str) -> "Trouble":
        """From `$states.errorOutput`: the cause is our JSON, a Lambda's error JSON, or what a service says."""
        found = _mapping_in(cause)
        if found and "errorMessage" in found:
            return Trouble(error=error, reason=str(found["errorMessage"]))
        ours = {**(found or {}), "error": error}
        if "reason" in ours and not serialization.faults(Trouble, ours):
            return serialization.from_json(Trouble, ours)
        return Trouble(error="AccessDenied" if DENIED in cause else error, reason=cause.strip())

    def to_cause(self) -> str:
        """What SendTaskFailure sends as cause, within the 32,768 characters that it takes."""
        short = replace(self, reason=self.reason[:MOST_REASON], tail=self.tail[-MOST_TAIL:])
        found = {name: value for name, value in serialization.to_json(short).items() if name != "error"}
        return json.dumps(found, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Another attempt, of this number, after so many seconds. `resized`: how many of those before ended for no trouble
    but that the gang could grow, and count against no restart."""

    kind: ClassVar[str] = "retry"
    seconds: int
    keep: KeptHosts
    lost: tuple[str, ...] = ()
    reason: str
    attempt: int
    resized: int = 0


@dataclass(frozen=True, kw_only=True)
class EndRun:
    """The run ends here, and nothing of this attempt is kept; `error` is the word the execution fails with, `reason`
    its cause."""

    kind: ClassVar[str] = "stop"
    error: str
    reason: str
    attempt: int
    keep: KeptHosts = KeptHosts.NONE
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
    """`attempt` is the one that failed, from 1; `restarts` is the job's limit, of which the `resized` attempts take
    none. A run that stops at its cap, or because a person wants it to, says so itself: nothing failed. `elastic`: those
    that stay may go on without the lost."""
    stop = partial(EndRun, attempt=attempt, resized=resized)
    failed = attempt - resized
    if trouble.error in STOPS and trouble.final:
        return stop(error=trouble.error, reason=f"{trouble.reason}.{_last_lines(trouble)}")
    if hopeless := why_hopeless(trouble, attempt):
        return stop(error=trouble.error, reason=hopeless)
    happened = _happened(trouble, attempt)
    pause = _pause(trouble.error, failed)
    if now + timedelta(seconds=pause) >= deadline:
        return stop(error="LimitReached", reason=f"{happened} {USED_UP}{_last_lines(trouble)}")
    grows = trouble.error == errors.Resized.__name__
    if failed > restarts and not grows:
        allowed = f"limits.restarts is {restarts}, so no attempt is left"
        kept = "The logs are in the bucket, and any checkpoint that was saved"
        advice = f"{allowed}. {kept}; raise the limit if hosts are at fault."
        return stop(error=trouble.error, reason=f"{happened} {advice}{_last_lines(trouble)}")
    some_stay = trouble.all_well or (trouble.lost and trouble.error in LOST_WITH_NAME)
    keep = KeptHosts.SURVIVORS if some_stay else KeptHosts.NONE
    return Retry(
        seconds=pause,
        keep=keep,
        lost=trouble.lost,
        reason=f"{happened} {_what_next(trouble, keep, attempt, restarts + resized + grows, pause, elastic)}",
        attempt=attempt + 1,
        resized=resized + grows,
    )


def why_hopeless(trouble: Trouble, attempt: int) -> str | None:
    """The whole reason of a run that ends with this, however many restarts are left; None where one may help."""
    hopeless = _hopeless(trouble)
    return f"{_happened(trouble, attempt)} {hopeless}{_last_lines(trouble)}" if hopeless else None


def _hopeless(trouble: Trouble) -> str | None:
    """Why another attempt cannot help, and what to do; None when it can."""
    known = errors.WORDS.get(trouble.error)
    if known is errors.LimitReached:
        return USED_UP
    if known and not known.retry_can_help:
        return _advice(known.blame)
    if trouble.final and known is errors.UploadFailed:
        return (
            "A finished training is not repeated for its upload. Mend what the reason names; a run that is resumed "
            "starts at its last checkpoint, and repeats only what came after that."
        )
    if trouble.final:
        return "Another attempt would end the same way; mend what the reason names, then start the job again."
    if trouble.is_passing or trouble.error in NOBODY_KNOWS:
        return None
    return (
        "Trainyard does not know this error; another attempt could repeat it and cost money, so the run ends here. "
        "The log of the state's function says more."
    )


USED_UP = "The hours or dollars of the job (limits.hours, limits.dollars) are used up; raise them to go on."


def _advice(blame: errors.Blame) -> str:
    """What to do about an error that comes again with every attempt."""
    match blame:
        case errors.Blame.CAPACITY:
            return "Nothing is left to try now; allow more instance types or markets, or try later."
        case errors.Blame.USER:
            return "The program or its job file is at fault, so it is not tried again; correct it, and submit it again."
        case errors.Blame.ACCESS:
            return "A permission is missing, which trying again cannot add; give it to the role."
        case errors.Blame.CONFIGURATION | errors.Blame.INFRASTRUCTURE | errors.Blame.UNKNOWN:
            return (
                "The yard itself is at fault, which trying again cannot change: mend what the reason names (where it "
                "is set up wrongly, deploy or bake again), then start the job again."
            )
    assert_never(blame)


def _pause(error: str, attempt: int) -> int:
    if error == "HostLost" and attempt == 1:
        return 0
    first: int = RESTART_SECONDS.get(error, 10)
    doubled: int = first * 2 ** min(attempt - 1, 10)
    return min(MOST_RESTART_SECONDS, doubled)


def _happened(trouble: Trouble, attempt: int) -> str:
    """What happened, as a sentence."""
    step = "" if trouble.step is None else f" at step {trouble.step}"
    what = (
        trouble.error
        if trouble.error not in WHAT_HAPPENED
        else f"{trouble.error}, {WHAT_HAPPENED[trouble.error]}"
    )
    code = "" if trouble.exit_code is None else f" (exit code {trouble.exit_code})"
    why = f": {trouble.reason.strip()[:MOST_REASON]}" if trouble.reason.strip() else ""
    ended = "ended" if trouble.error == errors.Resized.__name__ else "failed"
    text = f"Attempt {attempt} {ended}{step}: {what}{code}{why}"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _what_next(
    trouble: Trouble, keep: KeptHosts, attempt: int, restarts: int, pause: int, elastic: bool
) -> str:
    when = f"in {pause} s" if pause else "now"
    match keep:
        case KeptHosts.NONE:
            who = "a whole new gang"
        case KeptHosts.SURVIVORS:
            who = "on the same hosts"
            if trouble.error == errors.Resized.__name__:
                who = "on the same hosts and those that have come"
            elif trouble.lost and elastic:
                who = f"without {', '.join(trouble.lost)} where the others are enough, which stay"
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
    """Return how an attempt ended badly; None while it goes on and if it ended well."""
    return Trouble.caught(row.error, row.cause or "") if row.error else None
