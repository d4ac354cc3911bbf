"""Print in colour in a terminal, and in plain timestamped lines elsewhere.

The answer of a command goes to standard output, all other lines go to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from trainyard.client import YardError
from trainyard.client.fetching import OnProgress
from trainyard.values import floats, serialization
from trainyard.values.quantities import format_bytes, format_count
from trainyard.values.text import printable

if TYPE_CHECKING:
    from trainyard.cli.options import Options
    from trainyard.client.runs.logs import LogLine

HUES = ("green", "cyan", "magenta", "yellow", "blue")
WIDEST = 10_000
GAP = 2
"""Characters between columns."""
WIDTH_OF_A_FILE = 120
"""Columns of a table that is written to a file."""


class _Pipe(Console):
    """A console that raises BrokenPipeError, which ends the command (failures.py)."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class _Beside(_Pipe):
    """Standard error. It flushes standard output first, so that both keep their order in one file."""

    def print(self, *objects: Any, **more: Any) -> None:
        sys.stdout.flush()
        super().print(*objects, **more)


def _console(kind: type[_Pipe] = _Pipe, **more: Any) -> Console:
    made = kind(highlight=False, soft_wrap=True, **more)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = WIDTH_OF_A_FILE
    return made


console = _console()
beside = _console(_Beside, stderr=True)


# --- what a command answers
def answer(document: object) -> None:
    """Print a JSON document."""
    print(json.dumps(floats.with_texts(document), indent=2, default=_to_plain))


def answer_line(document: object) -> None:
    """Print one of several JSON documents in one line, at once."""
    print(json.dumps(floats.with_texts(document), default=_to_plain), flush=True)


def _to_plain(value: object) -> object:
    """Convert values that JSON lacks: times to ISO 8601, DynamoDB's numbers to numbers, sets to lists."""
    if isinstance(value, datetime):
        return serialization.timestamp(value)
    if isinstance(value, set | frozenset | tuple):
        return [*value]
    number = float(value)  # type: ignore[arg-type]
    return int(number) if number.is_integer() else number


@dataclass(frozen=True)
class Column:
    """A column of a table. A narrow terminal drops the columns with the highest `rank` first."""

    title: str
    rank: int = 0
    right: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Print the columns that fit the terminal, or all columns in a pipe. `styles` has one style for each row."""
    if not rows and console.is_terminal:
        return
    room = console.width if console.is_terminal or "COLUMNS" in os.environ else None
    made = laid_out(columns, rows, room, styles)
    if room is None:
        _Pipe(width=WIDEST, highlight=False).print(made, soft_wrap=True)
    else:
        console.print(made, soft_wrap=False)


def laid_out(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    room: int | None,
    styles: Sequence[str] = (),
) -> Table:
    """Return a table of the columns that fit."""
    clean = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    kept = fit_columns(columns, clean, room)
    made = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for index in kept:
        side: JustifyMethod = "right" if columns[index].right else "left"
        made.add_column(columns[index].title, justify=side, overflow="ellipsis", no_wrap=True)
    for number, row in enumerate(clean):
        made.add_row(*(Text(row[index]) for index in kept), style=styles[number] if styles else None)
    return made


def print_finding(verdict: str, colour: str, subject: str, found: str, needed: str, step: str) -> None:
    """Print the result of one check: what was found, what is needed, and what to type."""
    head = f"[{colour}]{verdict:<8}[/] [bold]{escape(subject)}[/]: {escape(printable(found))}"
    console.print(head, soft_wrap=not console.is_terminal)
    if verdict != "ready":
        console.print(f"         needed: {printable(needed)}", markup=False, style="dim")
    if step:
        console.print(f"         {printable(step)}", markup=False, style="" if verdict != "ready" else "dim")


def log_lines(lines: Iterable[LogLine], options: Options) -> None:
    """Print the lines of programs' logs as they arrive, or each as JSON."""
    is_terminal = console.is_terminal
    for line in lines:
        if options.is_json:
            answer_line(
                {
                    "at": line.at,
                    "host": line.host,
                    "instance": line.instance,
                    "attempt": line.attempt,
                    "text": line.text,
                }
            )
            continue
        at, said = "" if options.quiet else f"{line.at:%H:%M:%S} ", printable(line.text)
        if not is_terminal:  # Rich takes minutes for a long log
            print(f"{line.host} {at}{said}", flush=True)
            continue
        text = Text(f"{line.host} ", style=HUES[sum(line.host.encode()) % len(HUES)]).append(at, "dim")
        console.print(text.append(said, "default"), no_wrap=True, overflow="ignore", crop=False)


def widest(columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int]) -> int:
    """Return the width of these columns in characters."""
    return sum(_width(columns, rows, index) + GAP for index in kept) - GAP


def fit_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int | None) -> list[int]:
    """Return the columns that fit into `room` characters. Columns of rank 0 always stay."""
    kept = [*range(len(columns))]
    for rank in sorted({column.rank for column in columns} - {0}, reverse=True):
        if room is None or widest(columns, rows, kept) <= room:
            break
        kept = [index for index in kept if columns[index].rank != rank]
    return kept


def _width(columns: Sequence[Column], rows: Sequence[Sequence[str]], index: int) -> int:
    return max([cell_len(columns[index].title), *(cell_len(row[index]) for row in rows)])


# --- what it says
def print_line(line: str) -> None:
    """Print a line with rich's markup. A leading line feed prints an empty line first."""
    if line.startswith("\n"):
        console.print()
        line = line[1:]
    if console.is_terminal:
        console.print(line, soft_wrap=False)
    else:
        console.print(f"{datetime.now(UTC):%H:%M:%S} {Text.from_markup(line).plain}", markup=False)


def hint(line: str) -> None:
    """Print a line to standard error without wrapping it, so that the user can copy a command."""
    beside.print(line, markup=False, style="dim")


def note(line: str) -> None:
    """Print a sentence to standard error, wrapped only in a terminal."""
    beside.print(line, markup=False, style="dim", soft_wrap=not beside.is_terminal)


@contextmanager
def busy(doing: str, quiet: bool) -> Iterator[None]:
    """Show a spinner in a terminal while the block runs."""
    if quiet or not beside.is_terminal:
        yield
        return
    with beside.status(doing):
        yield


def quote(text: str) -> None:
    """Print lines of another program."""
    for line in printable(text).splitlines():
        print_line("    " + escape(line))


def print_error(error: YardError) -> None:
    """Print an error: what happened, what it means, what to type next."""
    for text, style in ((error.what, "bold red"), (error.means, "")):
        beside.print(Text(printable(text), style), soft_wrap=not beside.is_terminal)
    beside.print(f"Next: {printable(error.next_step)}", markup=False)


class Phases:
    """The `seconds` of each phase that has ended, including failed phases."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, title: str) -> Iterator[None]:
        """Print the title, run the block, and record its duration."""
        print_line(f"[bold]{title}[/bold]")
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - begun, 2)
            print_line(f"  {name}: {self.seconds[name]:.1f} s")


# --- words for numbers
LARGE = 4 * 2**20
"""Bytes of the smallest file with a progress bar of its own."""


@contextmanager
def transfers(quiet: bool) -> Iterator[OnProgress]:
    """Show the progress of each large file and the number of small ones in a terminal. Elsewhere, print a line for each
    large file that has arrived."""
    if quiet or not beside.is_terminal:
        yield _silent if quiet else _show_download
        return
    columns = (TextColumn("{task.description}"), BarColumn(None), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=beside, transient=True, expand=True) as progress:
        tasks: dict[str, TaskID] = {}
        small = progress.add_task("", total=None, visible=False)
        arrived, counting = [0, 0], threading.Lock()

        def on_progress(key: str, done: int, total: int) -> None:
            folder, _, count = key.partition(": ")
            if total >= LARGE or count:
                name = f"{folder} {count}" if count else key.rpartition("/")[2] or key
                if folder not in tasks:
                    tasks[folder] = progress.add_task(escape(name), total=total)
                progress.update(tasks[folder], completed=done, description=escape(name))
            elif done == total:
                with counting:
                    arrived[:] = arrived[0] + 1, arrived[1] + total
                    number, size = arrived
                progress.update(
                    small, description=format_count(number, "smaller file"), completed=size, visible=True
                )

        yield on_progress


def _silent(key: str, done: int, total: int) -> None:
    """Ignore the progress."""


def _show_download(key: str, done: int, total: int) -> None:
    if total >= LARGE and done == total:
        hint(f"{key}: {format_bytes(total)}")
