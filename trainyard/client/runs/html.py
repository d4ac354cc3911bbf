"""Tables and curves of runs for notebooks, made from data that is already loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import isfinite

from trainyard.values import floats
from trainyard.values.text import printable

WIDTH, HEIGHT = 480, 120
MOST_POINTS = 500
COLOUR = "#4a7ebb"


def facts(rows: Iterable[tuple[str, object]]) -> str:
    """Return a table with a name and a value in each row. Rows without a value are left out."""
    return _table(
        f"<tr><th>{_text(name)}</th>{_cell(value)}</tr>" for name, value in rows if value not in ("", None)
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a head."""
    first = "".join(f"<th>{_text(each)}</th>" for each in head)
    lines = ("".join(map(_cell, row)) for row in rows)
    return _table([f"<tr>{first}</tr>", *(f"<tr>{line}</tr>" for line in lines)])


def curve(points: Sequence[tuple[int, float]], name: str = "loss") -> str:
    """Draw a line through (step, value), with its last value. Return nothing for fewer than two finite points."""
    finite = [point for point in points if isfinite(point[1])]
    if len(finite) < 2:
        return ""
    every = -(-len(finite) // MOST_POINTS)
    drawn = [*finite[:-1:every], finite[-1]]
    steps, losses = [step for step, _ in drawn], [loss for _, loss in drawn]
    across, up = (steps[-1] - steps[0]) or 1, (max(losses) - min(losses)) or 1.0
    line = " ".join(
        f"{WIDTH * (step - steps[0]) / across:.1f},{HEIGHT * (max(losses) - loss) / up:.1f}"
        for step, loss in drawn
    )
    return (
        f'<svg viewBox="-4 -4 {WIDTH + 8} {HEIGHT + 8}" width="{WIDTH}" role="img" aria-label="{name}">'
        f'<polyline points="{line}" fill="none" stroke="{COLOUR}" stroke-width="1.5"/></svg>'
        f"<div>{name} {floats.format_float(points[-1][1], '.4g')} at step {points[-1][0]}</div>"
    )


def _table(rows: Iterable[str]) -> str:
    return f"<table>{''.join(rows)}</table>"


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else _text(value)}</td>"


def _text(value: object) -> str:
    return escape(printable(str(value)))
