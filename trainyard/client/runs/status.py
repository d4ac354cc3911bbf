"""Everything that is known of a run at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trainyard.client.runs import html
from trainyard.client.runs.execution import Execution, State
from trainyard.client.runs.progress import Loss, Progress
from trainyard.client.runs.records import Asked, Attempt, Event, Host, Pool
from trainyard.core.model import ends, states
from trainyard.core.model.program import Origin
from trainyard.core.model.submitter import UNKNOWN
from trainyard.protocol.ledger.run import RunRow
from trainyard.values import serialization
from trainyard.values.quantities import dollars

OF_NO_USER = "no user of the yard: it was started by hand, or its job file lies outside jobs/by/"


@dataclass(frozen=True)
class RunStatus:
    """Everything that is known of a run at one moment."""

    at: datetime
    execution: Execution
    attempt: int
    states: tuple[State, ...]
    hosts: tuple[Host, ...]
    timeline: tuple[Event, ...]
    progress: Progress | None
    losses: tuple[Loss, ...]
    measures: Mapping[str, tuple[Loss, ...]] = field(default_factory=dict)
    """The curves beside the loss, by MEASURES; without those that the program does not report."""
    attempts: tuple[Attempt, ...] = ()
    pools: tuple[Pool, ...] = ()
    asked: tuple[Asked, ...] = ()
    row: RunRow | None = None
    """Its own in the ledger; None before the yard has admitted it."""

    @property
    def state(self) -> str:
        """The state the execution is in, or its status when it is over."""
        if self.execution.is_over:
            return self.execution.status
        return self.states[-1].name if self.states else "Starting"

    @property
    def word(self) -> str:
        """The word for the state, and for how the run ended (trainyard/core/model/states.py)."""
        if self.execution.is_over and self.row and self.row.outcome:
            return ends.outcome_in_words(self.row.outcome, self.row.reason)
        return states.word_for(self.state, self.kind)

    @property
    def words(self) -> list[tuple[datetime, str]]:
        """The words of the states so far, and when each began to hold."""
        return states.shown_words(self.states, self.kind)

    @property
    def kind(self) -> str:
        """The workflow that the run is of."""
        return self.row.kind if self.row else "train"

    @property
    def job(self) -> Mapping[str, Any]:
        """Return the job as it was admitted; empty before that."""
        return (self.row.job if self.row else None) or {}

    @property
    def submitter(self) -> str:
        """Return in words who asked for the run. Empty if its row does not say."""
        who = (self.row.submitter if self.row else None) or ""
        return OF_NO_USER if who == UNKNOWN else who

    @property
    def origin(self) -> str:
        """Return the commit that the program is from in words, and where in the bucket the changes beside it are. Empty
        if no commit is known."""
        known = serialization.from_json(Origin, self.job.get("origin") or {})
        if not known.commit:
            return ""
        return f"{known.described} ({known.diff})" if known.diff else known.described

    @property
    def dollars(self) -> float:
        """Return what the run has cost until now; once it has ended, the amount of its bill."""
        billed = self.row.dollars if self.row else None
        return sum(host.dollars(self.at) for host in self.hosts) if billed is None else billed

    @property
    def saved_dollars(self) -> float:
        """Return what the run would have cost more on demand until now; once it has ended, by its bill."""
        if self.row is None or self.row.dollars is None:
            return sum(host.saved(self.at) for host in self.hosts)
        return self.row.saved_dollars or 0.0

    @property
    def cost(self) -> str:
        """Return the cost in words: `$0.0012 so far`, `$0.0565 in all`."""
        return f"{dollars(self.dollars)} {'in all' if self.execution.is_over else 'so far'}"

    @property
    def has_saved(self) -> bool:
        """Whether it has a whole checkpoint, be it that its program tells no steps."""
        return any(attempt.saved_at or attempt.saved is not None for attempt in self.attempts)

    @property
    def saved_step(self) -> int | None:
        """The step of its last whole checkpoint, as far as it was told of; None before the first."""
        steps = [attempt.saved for attempt in self.attempts if attempt.saved is not None]
        return max(steps, default=None)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        done = self.progress
        rows = (
            ("run", self.execution.name),
            ("state", self.word),
            ("attempt", self.attempt or None),
            ("step", done.reached(" of ") if done else None),
            (
                "hosts",
                ", ".join(f"{host.role or 'host'} on {host.type}, {host.state}" for host in self.hosts),
            ),
            ("source", self.origin),
            ("cost", dollars(self.dollars)),
        )
        return (
            html.facts(rows)
            + html.curve(self.losses)
            + html.curve(self.measures.get("accuracy", ()), "accuracy")
        )
