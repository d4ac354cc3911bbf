"""How much of a host was in use, minute by minute, as its metrics show."""

from trainyard.values.lazy import dataclass

KERNELS, TERMINALS = 1, 2
"""What the metric InUse of a dev host is the sum of, minute by minute (training/host/dev/idle/decision.py)."""


@dataclass(frozen=True)
class Window:
    """The share of its busiest GPU, or of all its processors, in percent, or what of it was in use, minute by minute
    (five by five), the oldest first; None: nobody knows."""

    minutes: tuple[float | None, ...]

    @property
    def is_empty(self) -> bool:
        return all(each is None for each in self.minutes)

    @property
    def is_whole(self) -> bool:
        """Whether every minute is known. An agent that sends once in 60 seconds now and then leaves one minute out,
        between two that it tells of; two in a row, or one at either end, are missing."""
        return bool(self.minutes) and all(
            each is not None or (0 < n < len(self.minutes) - 1 and self._known(n - 1) and self._known(n + 1))
            for n, each in enumerate(self.minutes)
        )

    @property
    def peak(self) -> float:
        return max((each for each in self.minutes if each is not None), default=0.0)

    @property
    def missing(self) -> int:
        return sum(each is None for each in self.minutes)

    def used(self, what: int) -> bool:
        """Whether that, KERNELS or TERMINALS, was in use in any minute."""
        return any(int(each) & what for each in self.minutes if each is not None)

    def _known(self, n: int) -> bool:
        return self.minutes[n] is not None
