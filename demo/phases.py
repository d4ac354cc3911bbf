"""What the time went into: named phases with their wall seconds."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from demo.say import say


class Phases:
    """Phases one after the other; `seconds` has every phase that has ended, failed ones too."""

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
