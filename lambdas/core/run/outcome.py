"""The conclusion of a run, from the last answer of the workflow."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from lambdas.core.run import AttemptUpdate
from lambdas.core.run.recovery import Trouble
from trainyard.core.model.errors import WORDS, Infrastructure, Stopped, TrainyardError
from trainyard.protocol.ledger.attempt import Ending
from trainyard.protocol.ledger.run import Outcome
from trainyard.protocol.tags import Tag
from trainyard.values.lazy import dataclass

WELL = ("finished", "baked", "unchanged", "rolled_back", "imaged", "launched")
RESUME = "checkpoints.resume"
MOST_REASON = 30_000
"""Step Functions allows a cause of 32,768 characters."""


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """How the run ended."""

    outcome: Outcome
    error: str | None
    """None for a successful run."""
    reason: str


def ending_of(error: str) -> Ending:
    """Return the ending of an attempt that failed with this error."""
    return ENDINGS.get(error, Ending.FAILED)


ENDINGS: Mapping[str, Ending] = {
    "Interrupted": Ending.INTERRUPTED,
    "HostLost": Ending.LOST,
    "StartFailed": Ending.START_FAILED,
    "HostsNotReady": Ending.TIMED_OUT,
    "ProgramHangs": Ending.TIMED_OUT,
    "States.HeartbeatTimeout": Ending.TIMED_OUT,
    "States.Timeout": Ending.TIMED_OUT,
    "LimitReached": Ending.TIMED_OUT,
    "Aborted": Ending.ABORTED,
    Stopped.__name__: Ending.STOPPED,
    "Resized": Ending.RESIZED,
    "Preempted": Ending.PREEMPTED,
}


def conclude(
    kind: str, *, error: str | None = None, cause: str | None = None, reason: str | None = None
) -> Conclusion:
    """Conclude from the workflow's `outcome`: a decision's answer (`kind`, `error`, `reason`) or a caught error
    (`cause`)."""
    if kind in WELL:
        return Conclusion(outcome=Outcome.SUCCEEDED, error=None, reason=reason or "the program finished")
    trouble = Trouble.caught(error or "States.Runtime", cause or "")
    reason = (reason or _why(trouble))[:MOST_REASON]
    outcome = Outcome.REFUSED if kind == "refused" else Outcome.FAILED
    if trouble.error == Stopped.__name__:
        outcome = Outcome.STOPPED
    return Conclusion(outcome=outcome, error=trouble.error, reason=reason)


def release_error(run: str, hosts: Collection[str], trouble: Trouble) -> TrainyardError:
    """Return the error of a failed Release: the reason, the hosts that may still run, and how to terminate them."""
    if hosts:
        ids = " ".join(sorted(hosts))
        what = f"HOSTS MAY STILL RUN AND COST MONEY: {ids}."
        todo = f"End them now: aws ec2 terminate-instances --instance-ids {ids}"
    else:
        what = "Every host in the ledger has ended, but others may exist."
        todo = f"Look for them: aws ec2 describe-instances --filters Name=tag:{Tag.RUN},Values={run}"
    reason = (
        f"{what} Release failed: {_why(trouble)}\n{todo}\n"
        f"A host powers itself off at the end of its lease (tag {Tag.LEASE}), which may be hours from now."
    )
    return WORDS.get(trouble.error, Infrastructure)(reason)


def image_warning(trouble: Trouble) -> str:
    """Return the warning that the image of after.image failed, with the reason. The run is otherwise complete."""
    return f"The image of this run (after.image) failed; the run itself is complete: {_why(trouble)}"


def undo_error(run: str, trouble: Trouble) -> TrainyardError:
    """Return the error of a failed Undo: the reason, and what to check."""
    reason = (
        f"Some steps of an image could not be undone: {_why(trouble)}\n"
        f"Look for an unavailable image and its snapshots (tag {Tag.EXECUTION}={run}), and check whether the "
        "host is running. A paused program continues by itself."
    )
    return WORDS.get(trouble.error, Infrastructure)(reason)


def spoil(conclusion: Conclusion, error: TrainyardError) -> Conclusion:
    """Return the conclusion after the run's end itself failed. A failed run keeps its own reason first."""
    if conclusion.outcome is not Outcome.SUCCEEDED:
        reason = f"{conclusion.reason}\nThen: {error.reason}"
        return Conclusion(outcome=conclusion.outcome, error=conclusion.error, reason=reason[:MOST_REASON])
    reason = f"The work is complete, but the end of the run failed: {error.reason}"
    return Conclusion(outcome=Outcome.FAILED, error=type(error).__name__, reason=reason)


def add_resume(conclusion: Conclusion, run: str, *, has_checkpoint: bool, has_outputs: bool) -> Conclusion:
    """Return the conclusion with how to continue from what the run left. `has_outputs` is True if the next run of the
    job begins with the outputs."""
    if conclusion.outcome is Outcome.SUCCEEDED or f"{RESUME}: {run}" in conclusion.reason:
        return conclusion
    if not has_checkpoint and not has_outputs:
        return conclusion
    start = "last checkpoint" if has_checkpoint else "outputs"
    reason = f"{conclusion.reason}\nTo continue from its {start}, start a job with {RESUME}: {run}"
    return replace(conclusion, reason=reason)


def _why(trouble: Trouble) -> str:
    """Return the reason of a caught error, with the last lines of the program or command if there are any."""
    tail = f"\nThe last lines:\n{trouble.tail.strip()}" if trouble.tail.strip() else ""
    return f"{trouble.reason or f'{trouble.error}, without a cause'}{tail}"


def failure_update(trouble: Trouble, now: datetime) -> AttemptUpdate:
    """Return the update of an attempt's row after trouble ended it."""
    return {
        "ending": ending_of(trouble.error),
        "ended": now,
        "reason": trouble.reason,
        "error": trouble.error,
        "cause": trouble.to_cause(),
    }
