"""The progress file: JSON lines that the runtime appends; what of them becomes signals."""

import json
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EVERY_SECONDS = 10.0
ALIVE_SECONDS = 60.0
KNOWN = ("step", "steps", "epoch", "loss", "accuracy", "steps_per_second")


@dataclass(slots=True)
class Progress:
    """Reads on where it stopped. `facts` is the latest line, `reports` says whether there ever was one."""

    path: Path
    started: float
    facts: dict[str, Any] = field(default_factory=dict)
    _offset: int = 0
    _fresh: bool = False
    _said_at: float | None = None
    _looked_at: float = float("-inf")
    _signs: Hashable = None

    def read(self) -> None:
        """Take in new whole lines; what is not a JSON object is the program's own affair."""
        try:
            with self.path.open("rb") as lines:
                lines.seek(self._offset)
                text = lines.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict):
                self.facts = {key: said[key] for key in KNOWN if key in said}
                self._fresh = True

    def to_say(self, now: float, signs: Callable[[], Hashable]) -> dict[str, Any] | None:
        """What to signal now: the newest facts at most every ten seconds, and once a minute that the program lives.

        The signal is the heartbeat of the run, so a program that hangs must not have one: `signs` answers what
        changes while it lives, and while nothing of that changes nothing is said.
        """
        quiet = now - (self.started if self._said_at is None else self._said_at)
        new = self._fresh and (self._said_at is None or quiet >= EVERY_SECONDS)
        if not new and (quiet < ALIVE_SECONDS or not self._lives(now, signs)):
            return None
        self._fresh = False
        self._said_at = now
        return dict(self.facts)

    def _lives(self, now: float, signs: Callable[[], Hashable]) -> bool:
        """Whether anything changed since the last look; one look a minute is enough."""
        if now - self._looked_at < ALIVE_SECONDS:
            return False
        self._looked_at = now
        before, self._signs = self._signs, signs()
        return self._signs != before

    @property
    def reports(self) -> bool:
        return bool(self.facts)

    @property
    def step(self) -> int | None:
        step = self.facts.get("step")
        return int(step) if isinstance(step, int | float) else None
