"""Speak to the person: with colour in a terminal, in plain timestamped lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from trainyard.client import YardError

console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 120  # a file has no width, and tables need one


class DemoError(YardError):
    """What went wrong on this machine, not in the yard."""


def say(line: str) -> None:
    """One line of ours; rich's markup is understood. A line feed before it is an empty line."""
    if line.startswith("\n"):
        console.print()
        line = line[1:]
    if console.is_terminal:
        console.print(line)
    else:
        console.print(f"{datetime.now(UTC):%H:%M:%S} {Text.from_markup(line).plain}", markup=False)


def quote(text: str) -> None:
    """Lines of another program, as they are."""
    for line in text.splitlines():
        say("    " + escape(line))


def failed(error: YardError) -> None:
    """What went wrong, what it means, what to do now; without a traceback."""
    say(f"\n[bold red]Failed:[/bold red] {escape(error.what)}")
    say(f"{escape(error.means)}\nNext: {escape(error.next_step)}")


class Phases:
    """What the time went into: `seconds` of every phase that has ended, failed ones too."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, title: str) -> Iterator[None]:
        """Say the title, do what the block does, remember how long it took."""
        say(f"[bold]{title}[/bold]")
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - begun, 2)
            say(f"  {name}: {self.seconds[name]:.1f} s")
