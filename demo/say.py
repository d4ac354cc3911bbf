"""Speak to the person: with colour in a terminal, in plain timestamped lines elsewhere."""

from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

console = Console(highlight=False, soft_wrap=True)
if not console.is_terminal:
    console.width = 120  # a file has no width, and tables need one


class DemoError(Exception):
    """What went wrong, and the next step to take; printed as it is, without a traceback."""

    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what)
        self.next_step = next_step


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
        say("    " + line.replace("[", r"\["))
