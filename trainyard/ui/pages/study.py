"""The page of one study: its best values, its money, its trials, and the trial that starts next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from typing import Any

from trainyard.client import Yard
from trainyard.client.next_trial import describe_next
from trainyard.client.runs.execution import Execution
from trainyard.client.runs.metric_points import MetricPoints, samples_in
from trainyard.client.runs.reasons import Reason, reason_for
from trainyard.client.trials import STATES, Trials
from trainyard.core.model import ends, states
from trainyard.core.model.study import Study
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.ledger.study import STUDY, DrawnBy, TrialRow, TrialState
from trainyard.ui import parallel
from trainyard.ui.cache import FRESH, Cache
from trainyard.ui.pages.page import Page, PageEvent, Seen
from trainyard.ui.pages.run import OVER_FRESH, columns, find_run
from trainyard.values import serialization

MOST_SHOWN = 500
"""Trials in the table."""
MOST_CURVES = 12
MOST_STOPPED = 3
"""The curves of trials that were stopped early, unless there are too few others."""
RUNNING_FRESH = 5.0
ENDED_FRESH = 600.0
"""Seconds for a curve. A trial that has ended reports nothing more."""
SIGNS = {
    TrialState.ASKED: "waiting",
    TrialState.STARTED: "running",
    TrialState.COMPLETE: "succeeded",
    TrialState.STOPPED: "stopped",
    TrialState.FAILED: "failed",
    TrialState.LOST: "failed",
    TrialState.CUT: "stopped",
}
"""The color and the sign of a trial, as runs have them."""


@dataclass(frozen=True)
class Shown:
    """A trial in the table."""

    row: TrialRow
    run: str
    sign: str
    word: str
    value: float | None
    """The metric, or its latest value while the trial runs."""
    dollars: float | None
    price: float | None
    """Dollars an hour while the trial runs."""
    why: str


@dataclass(frozen=True)
class Picture:
    """A study at one moment."""

    id: str
    execution: Execution
    row: RunRow | None
    reason: Reason
    section: Study | None
    """None before the study is admitted."""
    trials: Trials | None
    runs: Mapping[int, RunRow]
    """The rows of the open trials that have a run."""
    at: datetime

    @property
    def is_over(self) -> bool:
        return self.execution.is_over

    @property
    def word(self) -> str:
        """Return the word for the state, or for the outcome."""
        if self.row and self.row.outcome:
            return ends.outcome_in_words(self.row.outcome, self.row.reason)
        state = self.execution.status if self.is_over or self.row is None else self.row.state
        return states.word_for(state, STUDY)

    @property
    def next(self) -> str:
        """Return a sentence about the next trial."""
        if not (self.row and self.section and self.trials):
            return ""
        return describe_next(self.section, self.row, self.trials, self.runs)

    @property
    def drawing(self) -> parallel.Drawing | None:
        """Return the parallel coordinates."""
        return parallel.draw(self.section, self.trials.trials) if self.section and self.trials else None

    @property
    def shown(self) -> tuple[Shown, ...]:
        """Return the trials of the table, the newest first."""
        found = self.trials.trials[-MOST_SHOWN:] if self.trials else ()
        return tuple(self._show(row) for row in reversed(found))

    def _show(self, row: TrialRow) -> Shown:
        run = self.runs.get(row.number)
        value = run.objective.value if run and run.objective else None
        waiting = run.waiting.reason if run and run.waiting else ""
        is_open = row.state.is_open
        return Shown(
            row=row,
            run=row.run_of(self.id),
            sign="waiting" if waiting else SIGNS[row.state],
            word="Waiting" if waiting else STATES[row.state],
            value=row.value if value is None else float(value),
            dollars=row.dollars,
            price=run.price if run and is_open else None,
            why=waiting or (row.reason or "").partition("\n")[0],
        )


@dataclass(frozen=True)
class StudyPage(Page):
    """The page of the study with this ID."""

    study: str

    name, title = "study", "Study"
    parts = ("head", "figures", "parallel", "trials")

    async def look(self, cache: Cache) -> Seen:
        picture = await cache.fetch(
            ("study", self.study), self._picture, lambda found: OVER_FRESH if found.is_over else FRESH
        )
        return {"picture": picture, "study": self.study, "curves": await self._curves(cache, picture)}

    def list_events(self, seen: Seen, sent: dict[str, Any], last: str) -> Iterator[PageEvent]:
        picture: Picture | None = seen.get("picture")
        if picture is None or picture.section is None or picture.trials is None:
            return
        charts = best_charts(picture.section, picture.trials.ended)
        if charts and sent.get("best") != charts:
            sent["best"] = charts
            yield PageEvent("best", {"charts": charts})
        curves = seen["curves"]
        if curves and sent.get("curves") != (curves, picture.trials.rungs):
            sent["curves"] = (curves, picture.trials.rungs)
            chart = curve_chart(picture.section, picture.trials, curves)
            yield PageEvent("compared", {"charts": [chart]})

    def _picture(self, yard: Yard) -> Picture:
        run = find_run(yard, self.study)
        row, trials, execution = yard.row(self.study), yard.trials(self.study), run.execution
        found = (row.job or {}).get("study") if row else None
        now = datetime.now(UTC)
        summary = run.summary if execution.is_over else {}
        rows = (
            (each.number, yard.row(each.run_of(self.study)))
            for each in (trials.trials if trials else ())
            if each.state.is_open
        )
        return Picture(
            id=self.study,
            execution=execution,
            row=row,
            reason=reason_for(execution, row, summary, saved=False, now=now),
            section=serialization.from_json(Study, found) if found else None,
            trials=trials,
            runs={number: row for number, row in rows if row},
            at=now,
        )

    async def _curves(self, cache: Cache, picture: Picture) -> dict[int, MetricPoints]:
        """Return the curves of the metric: of the running trials, and of the best ended ones."""
        if picture.section is None or picture.trials is None:
            return {}
        chosen = curved(picture.section, picture.trials.trials)
        found = await asyncio.gather(*(self._curve(cache, picture.section, each) for each in chosen))
        return {each.number: points for each, points in zip(chosen, found, strict=True) if points.steps}

    async def _curve(self, cache: Cache, section: Study, row: TrialRow) -> MetricPoints:
        run, fresh = row.run_of(self.study), RUNNING_FRESH if row.state.is_open else ENDED_FRESH
        read = partial(_read_curve, run=run, metric=section.objective.metric)
        return await cache.fetch(("metric", run, row.state), read, fresh)


def curved(section: Study, trials: Sequence[TrialRow]) -> list[TrialRow]:
    """Return the trials whose curves are shown, in the order of their numbers: running ones, stopped ones that came
    farthest, and the best complete ones."""
    running = [row for row in trials if row.state is TrialState.STARTED]
    sign = -1.0 if section.objective.is_better(1.0, 0.0) else 1.0
    ended = [row for row in trials if row.state.is_answer and row.value is not None]
    ranked = sorted(ended, key=lambda row: (-(row.step or 0), sign * (row.value or 0.0)))
    stopped = [row for row in ranked if row.state is TrialState.STOPPED]
    best = sorted(ended, key=lambda row: (row.state is not TrialState.COMPLETE, sign * (row.value or 0.0)))
    chosen = {row.number: row for row in [*running, *stopped[:MOST_STOPPED], *best]}
    return sorted([*chosen.values()][:MOST_CURVES], key=lambda row: row.number)


def curve_chart(section: Study, trials: Trials, curves: Mapping[int, MetricPoints]) -> dict[str, Any]:
    """Return the curves of trials with the rungs that they reached, and a sentence about the rungs."""
    marked, rungs = dict[int, list[tuple[int, float, bool]]](), set[int]()
    stopped = {row.number: row.step for row in trials.trials if row.state is TrialState.STOPPED}
    for each in trials.rungs:
        if each.number in curves and each.at is not None and isfinite(each.value):
            mark = (each.at, each.value, stopped.get(each.number) == each.step)
            marked.setdefault(each.number, []).append(mark)
            rungs.add(each.step)
    drawn = [
        {"label": f"trial {number}", **columns(points), "rungs": marked.get(number, [])}
        for number, points in curves.items()
    ]
    steps = ", ".join(f"{step:,}" for step in sorted(rungs))
    note = f"A ring is a rung, here {section.pruner.by} {steps}: trials are compared there. A cross stops a trial."
    return {"title": section.objective.metric, "curves": drawn, "note": note if rungs else ""}


def best_charts(section: Study, ended: Sequence[TrialRow]) -> list[dict[str, Any]]:
    """Return the values and the best value so far, by ended trials and by dollars spent."""
    counts, costs, values, best = [], [], [], []
    spent, so_far = 0.0, None
    for count, row in enumerate(ended, 1):
        spent += row.dollars or 0.0
        is_result = row.state is TrialState.COMPLETE and row.drawn_by is not DrawnBy.RETRAIN
        value = row.value if is_result else None
        if value is not None and (so_far is None or section.objective.is_better(value, so_far)):
            so_far = value
        counts.append(count)
        costs.append(round(spent, 6))
        values.append(value)
        best.append(so_far)
    if so_far is None:
        return []
    metric = section.objective.metric
    is_log = parallel.spans_magnitudes([value for value in values if value is not None])
    return [
        {"title": f"Best {metric} by {by}", "by": by, "x": x, "values": values, "best": best, "log": is_log}
        for by, x in (("ended trials", counts), ("dollars", costs))
    ]


def _read_curve(yard: Yard, run: str, metric: str) -> MetricPoints:
    """Return samples of the metric of a run; empty if the program reported it only at its end."""
    return samples_in(yard.run(run).latest_metrics).get(metric, MetricPoints())
