"""Which of several hosts' failures is the reason of a run's end. Pure.

The first word ends an attempt. Where all run one program, that is chance: one host's trouble is the cause of another's.
"""

from collections.abc import Sequence
from dataclasses import replace

from lambdas.core.run.recovery import Trouble
from trainyard.values.lazy import dataclass


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Of one host's program. `host` is its name (`worker-1`); `advised`: what to do about it is known."""

    host: str
    reason: str
    tail: str = ""
    exit_code: int | None = None
    advised: bool = False

    @property
    def is_chief(self) -> bool:
        return self.host.startswith("chief")


def retell(trouble: Trouble, failures: Sequence[Failure]) -> Trouble:
    """The trouble of the attempt with the failure that tells most: one about which advice is known, else the chief's,
    else the first; and a line for each. `failures` are in the order in which they were said."""
    if len(failures) < 2:
        return trouble
    first, *others = sorted(failures, key=lambda each: (not each.advised, not each.is_chief))
    told = "\n".join(f"{each.host}: {each.reason}" for each in (first, *others))
    return replace(trouble, reason=told, tail=first.tail, exit_code=first.exit_code)
