"""Show a run while it runs: a live panel in a terminal, timestamped lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.curve import drawn
from demo.say import console
from demo.watch import Entry, Host, Progress, View

LAST_LINES = 12
FRAME = 4
"""What the panel's border takes of a line."""


def show(look: Callable[[], View], every: float) -> View:
    """Show what `look` sees every so many seconds until the run is over; answers the last view."""
    return _show_live(look, every) if console.is_terminal else _show_lines(look, every)


def _show_live(look: Callable[[], View], every: float) -> View:
    view = look()
    with Live(panel(view), console=console, auto_refresh=False, transient=True) as live:
        while not view.execution.is_over:
            time.sleep(every)
            view = look()
            live.update(panel(view), refresh=True)
    console.print(panel(view))
    return view


def _show_lines(look: Callable[[], View], every: float) -> View:
    before: View | None = None
    while True:
        view = look()
        for line in news(before, view):
            console.print(line, markup=False)
        if view.execution.is_over:
            if curve := drawn(view.curve, room=console.width):
                console.print(curve, markup=False)
            return view
        before = view
        time.sleep(every)


# --- plain lines
def news(before: View | None, view: View) -> list[str]:
    """The lines that say what happened between two views, in the order of time."""
    lines: list[tuple[datetime, str]] = []
    known_states = len(before.states) if before else 0
    lines += [(at, f"state     {name}") for at, name in view.states[known_states:]]
    known = {entry.key for entry in before.timeline} if before else set()
    lines += [(entry.at, event_line(entry)) for entry in view.timeline if entry.key not in known]
    seen = {host.instance: host for host in before.hosts} if before else {}
    lines += [(view.at, line) for host in view.hosts for line in host_news(seen.get(host.instance), host)]
    if view.progress and (before is None or view.progress != before.progress):
        lines.append((view.at, progress_line(view.progress, view.dollars)))
    return [f"{at:%H:%M:%S} {line}" for at, line in sorted(lines, key=lambda line: line[0])]


def event_line(entry: Entry) -> str:
    """One timeline entry."""
    step = f"step {entry.detail['step']}" if entry.detail.get("step") is not None else ""
    words = [f"{entry.source:<9} {entry.event}", entry.instance, step, entry.reason]
    return "  ".join(word for word in words if word)


def host_news(before: Host | None, host: Host) -> Iterator[str]:
    """What is new about a host: that it is there, its role, its state."""
    if before is None:
        yield (
            f"host      {host.instance}  {host.type} in {host.zone}, {host.market}, ${host.price:.3f}/h,"
            f" address {host.address or 'not yet known'}"
        )
    if host.role and (before is None or before.role != host.role):
        yield f"host      {host.instance}  is {host.role}"
    if before is not None and before.state != host.state:
        yield f"host      {host.instance}  {host.state}"


def progress_line(progress: Progress, dollars: float) -> str:
    """How far the program is."""
    accuracy = f"  accuracy {progress.accuracy:.3f}" if progress.accuracy is not None else ""
    return (
        f"progress  step {progress.step}/{progress.steps}  loss {progress.loss:.4f}{accuracy}"
        f"  {progress.steps_per_second:.1f} steps/s  ${dollars:.4f} so far"
    )


# --- the panel
def panel(view: View) -> RenderableType:
    """Everything about the run on one screen."""
    parts: list[RenderableType] = [_head(view), _hosts(view)]
    if view.progress:
        parts.append(
            Text(progress_line(view.progress, view.dollars).removeprefix("progress").strip(), "cyan")
        )
    if curve := drawn(view.curve, room=console.width - FRAME):
        parts.append(Text(curve, "cyan", no_wrap=True))
    parts.append(_lines(view))
    return Panel(Group(*parts), title=f"run {view.run}", border_style="green")


def _head(view: View) -> RenderableType:
    passed = (
        " → ".join(name for _, name in view.states if name[:1].isupper() and " " not in name) or "starting"
    )
    head = Text(f"attempt {view.attempt}  ${view.dollars:.4f} so far\n")
    head.append(passed[-300:], "dim")
    head.append(f"\n{view.state}", "bold")
    return head


def _hosts(view: View) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for title in ("host", "role", "type", "zone", "market", "$/h", "address", "state"):
        table.add_column(title)
    for host in view.hosts:
        price = f"{host.price:.3f}"
        table.add_row(
            host.instance, host.role, host.type, host.zone, host.market, price, host.address, host.state
        )
    return table


def _lines(view: View) -> RenderableType:
    shown = view.timeline[-LAST_LINES:]
    return Text("\n".join(f"{entry.at:%H:%M:%S} {event_line(entry)}" for entry in shown), "dim", no_wrap=True)
