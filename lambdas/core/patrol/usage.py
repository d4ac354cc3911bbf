"""The use of a host, minute by minute, from its metrics."""

from trainyard.values.lazy import dataclass

KERNELS, TERMINALS = 1, 2
"""The parts of a dev host's metric InUse, which is their sum in each minute (training/host/dev/idle/decision.py)."""


@dataclass(frozen=True)
class Window:
    """A metric in periods of one minute, or five for processors, oldest first: percent of the busiest GPU or of all
    processors, or a sum of KERNELS and TERMINALS. None marks a period without a value."""

    minutes: tuple[float | None, ...]

    @property
    def is_empty(self) -> bool:
        return all(each is None for each in self.minutes)

    @property
    def is_whole(self) -> bool:
        """Return True if every minute has a value. A single gap between two values counts as a value, because an agent
        that sends every 60 seconds sometimes skips a minute."""
        return bool(self.minutes) and all(
            each is not None
            or (0 < n < len(self.minutes) - 1 and self._has_value(n - 1) and self._has_value(n + 1))
            for n, each in enumerate(self.minutes)
        )

    @property
    def peak(self) -> float:
        return max((each for each in self.minutes if each is not None), default=0.0)

    @property
    def missing(self) -> int:
        return sum(each is None for each in self.minutes)

    def was_used(self, what: int) -> bool:
        """Return True if KERNELS or TERMINALS were in use in any minute."""
        return any(int(each) & what for each in self.minutes if each is not None)

    def _has_value(self, n: int) -> bool:
        return self.minutes[n] is not None
