"""Decide whether a run that waits for other runs may start. Pure."""

import textwrap
from collections.abc import Mapping, Sequence

from trainyard.command_line import command_line
from trainyard.core.model.schedule import StartAfter, When
from trainyard.protocol.ledger.run import Outcome, RunRow
from trainyard.values.lazy import dataclass

KINDS = ("train", "study")
MOST_REASON = 200
"""The most characters of the reason of another run."""


@dataclass(frozen=True)
class MayStart:
    """All runs have ended as wanted."""


@dataclass(frozen=True)
class MustWait:
    runs: tuple[str, ...]
    """The runs that have not ended."""


@dataclass(frozen=True)
class NotStarted:
    reason: str


def decide(wanted: StartAfter, rows: Mapping[str, RunRow]) -> MayStart | MustWait | NotStarted:
    """Decide from the rows of the runs. A run without a row was deleted."""
    for run in wanted.runs:
        row = rows.get(run)
        if row is None:
            return NotStarted(
                f"the run was not started, because {run}, for whose end it waits, is not in the ledger; "
                f"the runs of the yard: {command_line('ls')}"
            )
        if wanted.when is When.SUCCESS and row.ended and row.outcome is not Outcome.SUCCEEDED:
            first = textwrap.shorten(row.reason or "it gives no reason", MOST_REASON, placeholder=" ...")
            return NotStarted(
                f"the run was not started, because {run}, for whose success it waits, has ended as {row.outcome} "
                f"({command_line('why', run)}): {first}"
            )
    left = tuple(run for run in wanted.runs if not rows[run].ended)
    return MustWait(left) if left else MayStart()


def describe_wait(wanted: StartAfter, left: Sequence[str]) -> str:
    """Return what a run waits for, as a sentence without a period."""
    have, ended = ("has" if len(left) == 1 else "have"), wanted.when is When.END
    return f"it starts once {', '.join(left)} {have} {'ended in any way' if ended else 'succeeded'}"


def find_fault(run: str, wanted: StartAfter, rows: Mapping[str, RunRow]) -> str | None:
    """Return the fault of the section that no wait can remove."""
    if run in wanted.runs:
        return f"found {run}, the run itself; a run cannot wait for its own end"
    other = next((each for each in rows.values() if each.kind not in KINDS), None)
    return f"found {other.run}, a {other.kind} run; training runs and studies are allowed" if other else None
