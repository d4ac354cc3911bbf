"""The state of a run at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trainyard.client.runs import html
from trainyard.client.runs.execution import Execution, State
from trainyard.client.runs.metric_points import Loss, MetricPoints
from trainyard.client.runs.progress import Progress
from trainyard.client.runs.records import AnsweredRequest, Attempt, Event, Host, Pool
from trainyard.core.model import ends, states
from trainyard.core.model.program import Origin
from trainyard.core.model.submitter import UNKNOWN
from trainyard.protocol.ledger.run import RunRow
from trainyard.values import serialization
from trainyard.values.quantities import dollars

OF_NO_USER = "no user of the yard: it was started by hand, or its job file lies outside jobs/by/"


@dataclass(frozen=True)
class RunStatus:
    """The state of a run at one moment."""

    at: datetime
    execution: Execution
    attempt: int
    states: tuple[State, ...]
    hosts: tuple[Host, ...]
    timeline: tuple[Event, ...]
    progress: Progress | None
    samples: Mapping[str, MetricPoints] = field(default_factory=dict)
    """Samples of the curve of each metric that the program reports, the loss first."""
    attempts: tuple[Attempt, ...] = ()
    pools: tuple[Pool, ...] = ()
    launch_requests: tuple[AnsweredRequest, ...] = ()
    row: RunRow | None = None
    """The row in the ledger; None before the yard has admitted the run."""

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Return samples of the loss with their steps."""
        return self.samples["loss"].curve if "loss" in self.samples else ()

    @property
    def measures(self) -> dict[str, tuple[Loss, ...]]:
        """Return samples of the other metrics with their steps."""
        return {name: points.curve for name, points in self.samples.items() if name != "loss"}

    @property
    def state(self) -> str:
        """Return the present state of the execution, or its status once it has ended."""
        if self.execution.is_over:
            return self.execution.status
        return self.states[-1].name if self.states else "Starting"

    @property
    def word(self) -> str:
        """Return the word for the state, or for the outcome of an ended run (trainyard/core/model/states.py)."""
        if self.execution.is_over and self.row and self.row.outcome:
            return ends.outcome_in_words(self.row.outcome, self.row.reason)
        return states.word_for(self.state, self.kind)

    @property
    def words(self) -> list[tuple[datetime, str]]:
        """Return the words of the states so far, with their beginnings."""
        return states.shown_words(self.states, self.kind)

    @property
    def kind(self) -> str:
        """Return the workflow of the run."""
        return self.row.kind if self.row else "train"

    @property
    def job(self) -> Mapping[str, Any]:
        """Return the job as it was admitted; empty before that."""
        return (self.row.job if self.row else None) or {}

    @property
    def submitter(self) -> str:
        """Return the submitter in words. Empty if the row has none."""
        who = (self.row.submitter if self.row else None) or ""
        return OF_NO_USER if who == UNKNOWN else who

    @property
    def origin(self) -> str:
        """Return the program's commit in words, with the key of its uncommitted changes. Empty without a commit."""
        known = serialization.from_json(Origin, self.job.get("origin") or {})
        if not known.commit:
            return ""
        return f"{known.described} ({known.diff})" if known.diff else known.described

    @property
    def dollars(self) -> float:
        """Return the cost until now, or the bill of an ended run."""
        billed = self.row.dollars if self.row else None
        return sum(host.dollars(self.at) for host in self.hosts) if billed is None else billed

    @property
    def saved_dollars(self) -> float:
        """Return the amount saved until now compared to on-demand prices, or by the bill of an ended run."""
        if self.row is None or self.row.dollars is None:
            return sum(host.saved_dollars(self.at) for host in self.hosts)
        return self.row.saved_dollars or 0.0

    @property
    def cost(self) -> str:
        """Return the cost in words: `$0.0012 so far`, `$0.0565 in all`."""
        return f"{dollars(self.dollars)} {'in all' if self.execution.is_over else 'so far'}"

    @property
    def has_saved(self) -> bool:
        """Return True if the run has a whole checkpoint, even if the program reports no steps."""
        return any(attempt.saved_at or attempt.saved is not None for attempt in self.attempts)

    @property
    def saved_step(self) -> int | None:
        """Return the step of the last whole checkpoint, or None before the first."""
        steps = [attempt.saved for attempt in self.attempts if attempt.saved is not None]
        return max(steps, default=None)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: a table and curves."""
        done = self.progress
        rows = (
            ("run", self.execution.name),
            ("state", self.word),
            ("attempt", self.attempt or None),
            ("step", done.format_steps(" of ") if done else None),
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
