"""Show a run while it runs: a live panel in a terminal, timestamped lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import isfinite

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.status import Status
from rich.text import Text

from trainyard.cli.output import report, terminal
from trainyard.cli.output.curve import draw_curve
from trainyard.cli.output.terminal import Column, console, print_line
from trainyard.client import Event, Host, Progress, Run, RunStatus
from trainyard.client.runs.logs import LogLine
from trainyard.client.runs.metric_points import Loss
from trainyard.core.model import states
from trainyard.values import floats
from trainyard.values.quantities import format_count, span
from trainyard.values.text import printable

PROGRESS = "progress"
"""The beginning of lines that only show the progress."""
LAST_LINES = 12
HELD = timedelta(seconds=3)
"""Age at which a line is printed, because lines of other hosts arrive up to 2 s late and the order is by time."""
FRAME = 4
"""Characters that the panel's border takes."""
COLOURS = ("blue", "cyan", "green", "magenta", "yellow", "red")
HOSTS = (
    Column("role"),
    Column("host"),
    Column("type", 2),
    Column("zone", 4),
    Column("market", 3),
    Column("$/h", 5, right=True),
    Column("address", 6),
    Column("state", 1),
)


def show(statuses: Iterable[RunStatus]) -> RunStatus:
    """Show the statuses of a run, and return the last one."""
    return _show_live(iter(statuses)) if console.is_terminal else _show_lines(statuses)


def show_states(run: Run, every: float = 1.0, *, quiet: bool = False) -> None:
    """Print the states of a bake and the builder's newest line until the bake ends."""
    if quiet:
        run.wait()
        return
    shown = 0
    with console.status("bake ...") as spinner:
        while True:
            over, words = run.execution.is_over, states.shown_words(run.states, "bake")
            for at, word in words[shown:]:
                print_line(f"  {at:%H:%M:%S} {word}")
            if over:
                return
            shown = len(words)
            newest = [line.partition(" | ")[2] for line in run.log("builder").splitlines()[-1:]]
            spinner.update(escape("".join(newest)[:100]) or "bake ...")
            time.sleep(every)


def _show_live(statuses: Iterator[RunStatus]) -> RunStatus:
    status = next(statuses)
    with Live(panel(status), console=console, auto_refresh=False, transient=True) as live:
        for status in statuses:
            live.update(panel(status), refresh=True)
    console.print(panel(status))
    return status


@dataclass
class _Held:
    """Lines of a followed run that wait for older lines."""

    _lines: list[tuple[datetime, str, str]] = field(default_factory=list)

    def look(self, status: RunStatus, lines: Iterable[tuple[datetime, str, str]]) -> None:
        """Add lines, and print the lines that are old enough. Print all lines once the run has ended."""
        self._lines = sorted((*self._lines, *lines), key=lambda line: line[0])
        until = status.at - HELD
        due = [line for line in self._lines if status.execution.is_over or line[0] <= until]
        self._lines = self._lines[len(due) :]
        _print_lines(due)

    def rest(self) -> None:
        """Print the lines that still wait."""
        waiting, self._lines = self._lines, []
        _print_lines(waiting)


def _show_lines(statuses: Iterable[RunStatus]) -> RunStatus:
    return _follow((status, ()) for status in statuses)[0]


def watch(looks: Iterable[tuple[RunStatus, Sequence[LogLine]]]) -> tuple[RunStatus, bool]:
    """Print the program's output and the events of the run. In a terminal, the last line shows the state.

    Return the last status, and True if the program has printed something.
    """
    with console.status("") if console.is_terminal else nullcontext() as bottom:
        return _follow(looks, bottom)


def _follow(
    looks: Iterable[tuple[RunStatus, Sequence[LogLine]]], bottom: Status | None = None
) -> tuple[RunStatus, bool]:
    before, has_printed, held = None, False, _Held()
    try:
        for status, lines in looks:
            has_printed = has_printed or bool(lines)
            held.look(status, _merge_lines(before, status, lines))
            if bottom:
                bottom.update(_format_state(status))
            before = status
    finally:
        held.rest()
    assert before is not None, "a followed run has a status"
    if curve := draw_curve(before.losses, room=console.width):
        console.print(curve, markup=False)
    return before, has_printed


def _merge_lines(
    before: RunStatus | None, status: RunStatus, lines: Sequence[LogLine]
) -> list[tuple[datetime, str, str]]:
    """Merge events and program lines. A bar marks the program lines."""
    events = list_changes(before, status)
    if lines or console.is_terminal:  # the program's own lines show its progress
        events = [event for event in events if not event[1].startswith(PROGRESS)]
    said = [(at, text, "dim") for at, text in events]
    return said + [(line.at, f"| {printable(line.text)}", "") for line in lines]


def _print_lines(lines: Sequence[tuple[datetime, str, str]]) -> None:
    if not lines:
        return
    if console.is_terminal:
        text = Text("\n").join(
            Text().append(f"{at:%H:%M:%S} ", "dim").append(text, style) for at, text, style in lines
        )
        console.print(text)
    else:
        print("\n".join(f"{at:%H:%M:%S} {text}" for at, text, _ in lines), flush=True)


def _format_state(status: RunStatus) -> str:
    far = status.cost
    if status.progress:
        far = progress_line(status.progress, status.cost).removeprefix(PROGRESS).strip()
    return escape(f"{status.word}  {far}  (Ctrl-C does not stop the run)")


# --- plain lines
def describe_changes(before: RunStatus | None, status: RunStatus) -> list[str]:
    """Return the lines for what happened between two statuses, in the order of time."""
    return [f"{at:%H:%M:%S} {line}" for at, line in list_changes(before, status)]


def list_changes(before: RunStatus | None, status: RunStatus) -> list[tuple[datetime, str]]:
    """Return the time and line of each event between two statuses, in the order of time."""
    lines: list[tuple[datetime, str]] = []
    known_words = len(before.words) if before else 0
    lines += [(at, f"state     {word}") for at, word in status.words[known_words:]]
    known = {event.key for event in before.timeline} if before else set()
    lines += [(event.at, event_line(event)) for event in status.timeline if event.key not in known]
    seen = {host.instance: host for host in before.hosts} if before else {}
    for host in status.hosts:
        lines += list_host_changes(seen.get(host.instance), host, status)
    if status.progress and (before is None or status.progress != before.progress):
        lines.append((status.at, progress_line(status.progress, status.cost)))
    return sorted(lines, key=lambda line: line[0])


def event_line(event: Event) -> str:
    """Format an event of the timeline in one line."""
    step = f"step {event.detail['step']}" if event.detail.get("step") is not None else ""
    reason = printable(event.reason).partition("\n")[0]  # the program's last lines may follow
    words = [f"{event.source:<9} {event.event}", event.instance, step, reason]
    return "  ".join(word for word in words if word)


def list_host_changes(before: Host | None, host: Host, status: RunStatus) -> Iterator[tuple[datetime, str]]:
    """Yield the changes of a host with their times: its launch, its role, its state."""
    if before is None:
        where = f"{host.type} in {host.zone}, {host.market}, ${host.price:.3f}/h"
        address = host.address or "not yet known"
        yield host.launched, f"host      {host.instance}  {where}, address {address}"
    if host.role and (before is None or before.role != host.role):
        own = (event for event in status.timeline if event.instance == host.instance)
        yield (
            next((event.at for event in own if event.event == "started"), status.at),
            f"host      {host.instance}  is {host.role}",
        )
    if before is not None and before.state != host.state:
        yield status.at, f"host      {host.instance}  {host.state}"


def progress_line(progress: Progress, cost: str) -> str:
    """Format the progress of the program in one line."""
    return "  ".join((PROGRESS, f"step {progress.format_steps()}", *progress.numbers(), cost))


# --- the whole run at once
def show_once(status: RunStatus) -> None:
    """Show the current status: a panel in a terminal, plain lines elsewhere."""
    if console.is_terminal:
        console.print(panel(status), soft_wrap=False)
        return
    for line in plain(status):
        print(line)
    terminal.table(HOSTS, _host_rows(status))
    for line in _last_events(status):
        print(line)
    if curve := draw_curve(status.losses, room=console.width):
        print(curve)


def draw_metric(name: str, points: Sequence[Loss]) -> None:
    """Draw the curve of a metric, with its last value and a line about values that are not numbers."""
    step, last = points[-1]
    print(f"{printable(name)}  {floats.format_float(last, '.6g')} at step {step:,}")
    if curve := draw_curve(points, room=console.width, metric=name):
        print(curve)
    odd = [step for step, value in points if not isfinite(value)]
    if odd:
        values = format_count(len(odd), "value")
        print(f"{values} of {len(points):,} not drawn, because NaN or infinite: the first at step {odd[0]:,}")


def plain(status: RunStatus) -> list[str]:
    """Return the status of a run in plain lines."""
    spent = "  ".join(f"{name} {span(seconds)}" for name, seconds in report.spans(status))
    lines = [f"run       {status.execution.name}", f"state     {_state_line(status)}", f"time      {spent}"]
    lines += [f"by        {printable(status.submitter)}"] if status.submitter else []
    lines += [f"source    {printable(status.origin)}"] if status.origin else []
    return [*lines, progress_line(status.progress, status.cost)] if status.progress else lines


def panel(status: RunStatus) -> RenderableType:
    """Return a panel with the whole status of the run."""
    parts: list[RenderableType] = [_head(status)]
    if status.submitter:
        parts.append(Text(f"submitted by {printable(status.submitter)}", "dim"))
    if status.origin:
        parts.append(Text(f"source {printable(status.origin)}", "dim"))
    parts.append(_hosts(status))
    if status.progress:
        parts.append(Text(progress_line(status.progress, status.cost).removeprefix(PROGRESS).strip(), "cyan"))
    if curve := draw_curve(status.losses, room=console.width - FRAME):
        parts.append(Text(curve, "cyan", no_wrap=True))
    parts.append(_lines(status))
    return Panel(Group(*parts), title=f"run {status.execution.name}", border_style="green")


def _head(status: RunStatus) -> RenderableType:
    parts = report.spans(status)
    head = Text(status.word, "bold")
    head.append(f"{_state_line(status).removeprefix(status.word)}\n", "not bold")
    head.append_text(bar(parts, terminal.console.width - FRAME))
    return head


def _state_line(status: RunStatus) -> str:
    """Return the state, the attempt and the cost in one line."""
    size = (
        f" on {format_count(status.attempts[-1].hosts, 'host')}"
        if len({each.hosts for each in status.attempts}) > 1
        else ""
    )
    return f"{status.word}  attempt {status.attempt}{size}  {status.cost}"


def bar(parts: Sequence[tuple[str, float]], room: int) -> Text:
    """Draw the states as a line in time, with a legend below."""
    total = sum(seconds for _, seconds in parts) or 1.0
    line, names = Text(), Text()
    for number, (name, seconds) in enumerate(parts):
        colour = COLOURS[number % len(COLOURS)]
        line.append("━" * max(round(seconds / total * room), 1), colour)
        names.append(f"{name} ", colour).append(f"{span(seconds)}  ", "dim")
    line.truncate(room)
    return line.append("\n").append_text(names)


def _hosts(status: RunStatus) -> RenderableType:
    return terminal.laid_out(HOSTS, _host_rows(status), terminal.console.width - FRAME)


def _host_rows(status: RunStatus) -> list[tuple[str, ...]]:
    return [
        (
            host.role,
            host.instance,
            host.type,
            host.zone,
            host.market,
            f"{host.price:.3f}",
            host.address,
            host.state,
        )
        for host in status.hosts
    ]


def _lines(status: RunStatus) -> RenderableType:
    return Text("\n".join(_last_events(status)), "dim")


def _last_events(status: RunStatus) -> list[str]:
    return [f"{event.at:%H:%M:%S} {event_line(event)}" for event in status.timeline[-LAST_LINES:]]
