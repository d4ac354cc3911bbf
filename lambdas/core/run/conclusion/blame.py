"""Choose among several hosts' failures the reason of a run's end. Pure.

The first failure ends an attempt. If all hosts run one program, the first is chance, because one host's trouble causes
another's.
"""

from collections.abc import Sequence
from dataclasses import replace

from lambdas.core.run.recovery import Trouble
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The failure of one host's program."""

    host: str
    """The host's name, e.g. `worker-1`."""
    reason: str
    tail: str = ""
    exit_code: int | None = None
    advised: bool = False
    """True if the reason contains advice."""

    @property
    def is_chief(self) -> bool:
        return self.host.startswith("chief")


def choose_reason(trouble: Trouble, failures: Sequence[Failure]) -> Trouble:
    """Return the trouble with the most useful failure (one with advice, else the chief's, else the first), and a line
    for each. `failures` are in the order of their reports."""
    if len(failures) < 2:
        return trouble
    first, *others = sorted(failures, key=lambda each: (not each.advised, not each.is_chief))
    told = "\n".join(f"{each.host}: {each.reason}" for each in (first, *others))
    return replace(trouble, reason=told, tail=first.tail, exit_code=first.exit_code)
