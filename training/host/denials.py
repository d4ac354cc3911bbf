"""How long a denial of AWS is doubted: IAM applies a change within seconds, so a permission may be missing briefly."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from training.host.errors import AccessDenied, HostTrouble

GRACE_SECONDS = 45.0
"""Time for which a call must be denied before the permission counts as missing."""


@dataclass(slots=True)
class Denials:
    """The denials of one call that is retried."""

    grace_seconds: float | None = None
    """GRACE_SECONDS if it is None."""
    clock: Callable[[], float] = time.monotonic
    _since: float | None = None

    def ends_tries(self, trouble: HostTrouble) -> bool:
        """Return True if a retry cannot help: for a final trouble, and for a denial after the grace."""
        if not isinstance(trouble, AccessDenied):
            self._since = None
            return trouble.final
        if self._since is None:
            self._since = self.clock()
        return self.clock() - self._since >= self.grace

    @property
    def grace(self) -> float:
        """The seconds for which a denial is doubted."""
        return GRACE_SECONDS if self.grace_seconds is None else self.grace_seconds

    def clear(self) -> None:
        """Forget earlier denials: the call has succeeded."""
        self._since = None
