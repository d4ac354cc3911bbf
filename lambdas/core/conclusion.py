"""The conclusion: what the last word of the workflow means for the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.core.errors import TrainyardError
from lambdas.core.recovery import Trouble
from lambdas.core.summary import Outcome

WELL = ("finished", "published")
MOST_REASON = 30_000
"""A cause may have 32,768 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    reason = str(said.get("reason") or _why(error, str(said.get("cause") or "")))[:MOST_REASON]
    outcome = Outcome.REFUSED if kind == "refused" else Outcome.FAILED
    return Conclusion(outcome=outcome, error=error, reason=reason)


def spoiled(conclusion: Conclusion, error: TrainyardError) -> Conclusion:
    """The same run when its very end went wrong: a run that had failed keeps its own reason first."""
    if conclusion.outcome is not Outcome.SUCCEEDED:
        reason = f"{conclusion.reason}\nThen: {error.reason}"
        return Conclusion(outcome=conclusion.outcome, error=conclusion.error, reason=reason[:MOST_REASON])
    reason = f"The program finished, but the run did not end as it must: {error.reason}"
    return Conclusion(outcome=Outcome.FAILED, error=type(error).__name__, reason=reason)


def _why(error: str, cause: str) -> str:
    """The sentence of a caught error, with the program's or the command's last lines if it has some."""
    trouble = Trouble.caught(error, cause)
    tail = f"\nThe last lines:\n{trouble.tail.strip()}" if trouble.tail.strip() else ""
    return f"{trouble.reason or f'{error}, without a cause'}{tail}"
