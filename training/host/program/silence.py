"""Whether a program that says nothing still goes on. Pure."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

LOOK_SECONDS = 60.0
SILENT_SECONDS = 15 * 60.0
"""How long a program may be silent: the slowest first step (tracing, compiling, filling caches) and the export."""
SAID = (
    f"for {SILENT_SECONDS / 60:g} minutes the program has neither reported progress nor printed: it hangs, "
    "and is to be started again"
)


@dataclass(slots=True)
class Silence:
    """Looks once a minute. The looks count, not the clock: a host that stood still itself blames no program for it."""

    _looked_at: float = float("-inf")
    _signs: Hashable = None
    _in_vain: int = 0

    def hangs(self, now: float, signs: Callable[[], Hashable]) -> bool:
        """Whether nothing of what `signs` answers has changed for so long; it changes while the program goes on."""
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            before, self._signs = self._signs, signs()
            self._in_vain = self._in_vain + 1 if self._signs == before else 0
        return self._in_vain * LOOK_SECONDS >= SILENT_SECONDS
