"""The conclusion: what the last word of the workflow means for the run."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.core.model.errors import WORDS, Infrastructure, TrainyardError
from lambdas.core.run.recovery import Trouble
from lambdas.core.run.summary import Outcome

WELL = ("finished", "baked", "unchanged", "rolled_back", "imaged", "launched")
MOST_REASON = 30_000
"""A cause may have 32,768 characters."""


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """How the run ended; `error` is None for one that succeeded."""

    outcome: Outcome
    error: str | None
    reason: str

    @property
    def word(self) -> str:
        """What the workflow routes on: succeeded or failed (a refused run is a failed execution)."""
        return "succeeded" if self.outcome is Outcome.SUCCEEDED else "failed"


def read(said: Mapping[str, Any]) -> Conclusion:
    """From the workflow's `outcome`: a decision's answer (`kind`, `error`, `reason`) or a caught error (`cause`)."""
    kind = str(said.get("kind", "error"))
    if kind in WELL:
        reason = str(said.get("reason") or "the program finished")
        return Conclusion(outcome=Outcome.SUCCEEDED, error=None, reason=reason)
    error = str(said.get("error") or "States.Runtime")
    trouble = Trouble.caught(error, str(said.get("cause") or ""))
    reason = str(said.get("reason") or _why(trouble))[:MOST_REASON]
    outcome = Outcome.REFUSED if kind == "refused" else Outcome.FAILED
    return Conclusion(outcome=outcome, error=trouble.error, reason=reason)


def unreleased(run: str, hosts: Collection[str], failure: Mapping[str, Any]) -> TrainyardError:
    """Release failed: why, which hosts nobody has seen end, and how a person ends them."""
    trouble = Trouble.caught(str(failure["error"]), str(failure.get("cause") or ""))
    if hosts:
        ids = " ".join(sorted(hosts))
        what = f"HOSTS MAY STILL RUN AND COST MONEY: {ids}."
        todo = f"End them now: aws ec2 terminate-instances --instance-ids {ids}"
    else:
        what = "Every host that the ledger knows has ended, but there may be others."
        todo = f"Look for them: aws ec2 describe-instances --filters Name=tag:trainyard:run,Values={run}"
    reason = (
        f"{what} Release failed: {_why(trouble)}\n{todo}\n"
        "A host powers itself off once its lease is over (its tag trainyard:lease), which may be hours from now."
    )
    return WORDS.get(trouble.error, Infrastructure)(reason)


def not_undone(run: str, failure: Mapping[str, Any]) -> TrainyardError:
    """Undo failed: why, and what a person has to look for."""
    trouble = Trouble.caught(str(failure["error"]), str(failure.get("cause") or ""))
    reason = (
        f"What an image had begun could not all be undone: {_why(trouble)}\n"
        f"Look for an image that is not available and its snapshots (tag trainyard:execution={run}), and whether the "
        "host runs. A program that was paused goes on by itself."
    )
    return WORDS.get(trouble.error, Infrastructure)(reason)


def spoiled(conclusion: Conclusion, error: TrainyardError) -> Conclusion:
    """The same run when its very end went wrong: a run that had failed keeps its own reason first."""
    if conclusion.outcome is not Outcome.SUCCEEDED:
        reason = f"{conclusion.reason}\nThen: {error.reason}"
        return Conclusion(outcome=conclusion.outcome, error=conclusion.error, reason=reason[:MOST_REASON])
    reason = f"What was to be done is done, but the run did not end as it must: {error.reason}"
    return Conclusion(outcome=Outcome.FAILED, error=type(error).__name__, reason=reason)


def _why(trouble: Trouble) -> str:
    """The sentence of a caught error, with the program's or the command's last lines if it has some."""
    tail = f"\nThe last lines:\n{trouble.tail.strip()}" if trouble.tail.strip() else ""
    return f"{trouble.reason or f'{trouble.error}, without a cause'}{tail}"
