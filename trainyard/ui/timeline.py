"""The timeline of a run: phases, attempts and hosts as bars, in percent of its duration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from trainyard.client.runs.execution import State
from trainyard.client.runs.records import Attempt, Event, Host, elapsed
from trainyard.client.runs.status import RunStatus
from trainyard.core.model import states
from trainyard.values.quantities import dollars, span

MOST_HOSTS = 12
MOST_SAVED = 40
"""Checkpoints that are marked on an attempt's bar, including the last one."""
STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip
"""Seconds between two marks on the axis."""
MOST_MARKS = 6
TROUBLE = ("warning", "interrupted", "lost", "failed", "hangs")
"""Words in the names of events that are marked on the timeline."""


@dataclass(frozen=True)
class Bar:
    """A bar of a lane."""

    left: float
    width: float
    kind: str
    """Selects the color."""
    label: str
    title: str


@dataclass(frozen=True)
class Mark:
    """A mark at one moment of a lane or of the axis."""

    left: float
    kind: str
    title: str


@dataclass(frozen=True)
class Lane:
    """One row of the timeline."""

    name: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Line:
    """The whole timeline."""

    lanes: tuple[Lane, ...]
    axis: tuple[Mark, ...]
    """Marks with the time since the beginning."""
    phases: tuple[tuple[str, str], ...]
    """The total duration of each phase, in order."""
    unseen: int
    """The number of hosts without a lane."""


@dataclass(frozen=True)
class Scale:
    """Converts times to percent of the timeline."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return max(elapsed(self.begin, self.end).total_seconds(), 1.0)

    def at(self, moment: datetime) -> float:
        part = elapsed(self.begin, moment).total_seconds() / self.seconds
        return round(100 * min(max(part, 0.0), 1.0), 3)

    def bar(self, begin: datetime, end: datetime | None, kind: str, label: str, title: str) -> Bar:
        left, right = self.at(begin), self.at(end or self.end)
        took = span(elapsed(begin, end or self.end).total_seconds())
        return Bar(left, round(max(right - left, 0.15), 3), kind, label, f"{title}, {took}")


@dataclass(frozen=True)
class Stretch:
    """A phase without a break."""

    phase: str
    begin: datetime
    end: datetime


def line_of(status: RunStatus) -> Line:
    """Return the timeline of the run."""
    scale = Scale(status.execution.started, status.execution.stopped or status.at)
    stretches = stretches_of(status.states, scale.end)
    lanes = [Lane("states", tuple(_of_phase(scale, each) for each in stretches))]
    lanes += (_of_attempt(scale, each, status.timeline) for each in status.attempts)
    shown = status.hosts[-MOST_HOSTS:]
    lanes += (_of_host(scale, each, status.timeline, status.at) for each in shown)
    return Line(tuple(lanes), tuple(_axis(scale)), tuple(_sums(stretches)), len(status.hosts) - len(shown))


def stretches_of(entered: Sequence[State], end: datetime) -> list[Stretch]:
    """Return the phases in their order, without a break between two states of the same phase."""
    known = [state for state in entered if states.is_shown(state.name)]
    ends = [state.entered for state in known[1:]] + [end]
    joined: list[Stretch] = []
    for state, left in zip(known, ends, strict=False):
        phase = states.word_for(state.name)
        if joined and joined[-1].phase == phase:
            joined[-1] = replace(joined[-1], end=left)
        else:
            joined.append(Stretch(phase, state.entered, left))
    return joined


def _sums(stretches: Sequence[Stretch]) -> Iterator[tuple[str, str]]:
    sums: dict[str, float] = {}
    for each in stretches:
        sums[each.phase] = sums.get(each.phase, 0.0) + elapsed(each.begin, each.end).total_seconds()
    return ((phase, span(seconds)) for phase, seconds in sums.items())


def _of_phase(scale: Scale, each: Stretch) -> Bar:
    return scale.bar(each.begin, each.end, f"phase-{each.phase.lower().split()[0]}", each.phase, each.phase)


def _of_attempt(scale: Scale, attempt: Attempt, timeline: Sequence[Event]) -> Lane:
    title = ", ".join(
        filter(None, (f"attempt {attempt.number}", attempt.pool, attempt.ending, attempt.reason))
    )
    pool = f"{attempt.hosts} x {attempt.pool}" if attempt.hosts > 1 else attempt.pool
    label = " · ".join(filter(None, (attempt.ending or "now", pool)))
    kind = f"attempt-{attempt.ending or 'now'}"
    bar = scale.bar(attempt.launched, attempt.ended, kind, label, title)
    marks = [
        Mark(scale.at(event.at), "saved", _saved(event))
        for event in timeline
        if event.event == "checkpointed" and attempt.launched <= event.at <= (attempt.ended or scale.end)
    ]
    every = ceil(len(marks) / MOST_SAVED) or 1
    return Lane(f"attempt {attempt.number}", (bar,), tuple(marks[::-1][::every][::-1]))


def _saved(event: Event) -> str:
    step = event.detail.get("step")
    return "checkpoint" if step is None else f"checkpoint at step {int(step)}"


def _of_host(scale: Scale, host: Host, timeline: Sequence[Event], now: datetime) -> Lane:
    title = f"{host.instance}, {host.type} in {host.zone}, {host.market}, {dollars(host.dollars(now))}"
    bar = scale.bar(host.launched, host.ended, f"host-{host.market}", host.type, title)
    marks = (
        Mark(scale.at(event.at), "trouble", f"{event.event}: {event.reason}".removesuffix(": "))
        for event in timeline
        if event.instance == host.instance and any(word in event.event for word in TROUBLE)
    )
    name = host.role or host.instance
    return Lane(f"{name}, attempt {host.attempt}" if host.attempt > 1 else name, (bar,), tuple(marks))


def _axis(scale: Scale) -> Iterator[Mark]:
    step = next((each for each in STEPS if scale.seconds / each <= MOST_MARKS), STEPS[-1])
    for second in range(0, int(scale.seconds) + 1, step):
        left = round(100 * second / scale.seconds, 3)
        if left <= 96:
            yield Mark(left, "axis", span(second) if second else "0")
