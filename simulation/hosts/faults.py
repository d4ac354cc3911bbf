"""What can go wrong on a host, by name, and where: at a word that it says, or at a stage on its way there."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

When = Literal["before", "after"]


@dataclass(frozen=True)
class Dies:
    """The machine is gone at once; EC2 learns it."""


@dataclass(frozen=True)
class Hangs:
    """Says nothing more, takes no order, its program stands still; EC2 calls it running. None: for ever."""

    seconds: float | None = None


@dataclass(frozen=True)
class IsCutOff:
    """Runs on, and nothing gets out or in. None: for ever."""

    seconds: float | None = None


@dataclass(frozen=True)
class ProgramEnds:
    """The program ends by itself, with these last lines; before it runs, it turns out that it cannot be run."""

    code: int = 1
    lines: tuple[str, ...] = ("Traceback (most recent call last):", "ValueError: a fault of the program")


@dataclass(frozen=True)
class DiskFull:
    """From now on; a program that runs ends with it."""


@dataclass(frozen=True)
class NeverRegisters:
    """Systems Manager never knows this host: at `boot` or `register`."""


@dataclass(frozen=True)
class RegistersLate:
    """Systems Manager comes to know this host so much later: at `boot` or `register`."""

    seconds: float = 360.0


@dataclass(frozen=True)
class ClockOff:
    """The host's clock is ahead by so much (behind, if negative)."""

    seconds: float = 60.0


@dataclass(frozen=True)
class SaysTwice:
    """The word is put on the bus twice."""


@dataclass(frozen=True)
class Late:
    """A word is said so much later, a stage takes so much longer. `Late` at `boot` is a host that boots very late."""

    seconds: float = 60.0


@dataclass(frozen=True)
class GangHangs:
    """All programs of the gang stand still; the hosts are well."""


@dataclass(frozen=True)
class OthersHang:
    """When the chief's program ends well the others' do not end. Strikes best at `started` of the chief."""


@dataclass(frozen=True)
class GoesDown:
    """Somebody on the host shuts it down in good order."""


NEVER_BOOTS = Hangs()
"""At `boot`."""

Fault = (
    Dies
    | Hangs
    | IsCutOff
    | ProgramEnds
    | DiskFull
    | NeverRegisters
    | RegistersLate
    | ClockOff
    | SaysTwice
    | Late
    | GangHangs
    | OthersHang
    | GoesDown
)


class Struck(Protocol):
    """Whom a fault strikes: what a plan may go by."""

    @property
    def instance(self) -> str: ...

    @property
    def number(self) -> int:
        """Which of all hosts it is, from 0, in the order of their first boot."""
        ...

    @property
    def role(self) -> str:
        """`worker-1` in the attempt that it is or was in last; empty before the first."""
        ...

    @property
    def attempt(self) -> int: ...


OnWord = Callable[[Struck, str, When], Fault | None]


@dataclass
class Strike:
    """A fault that is to come."""

    word: str
    who: int | str
    do: Fault
    when: When = "after"
    attempt: int | None = None
    left: int = 1

    def fits(self, host: Struck, word: str, when: When) -> bool:
        return (
            self.left > 0
            and (word, when) == (self.word, self.when)
            and (self.attempt is None or self.attempt == host.attempt)
            and is_meant(host, self.who)
        )


def is_meant(host: Struck, who: int | str) -> bool:
    """By number, instance id, role (`worker`), role and index (`worker-1`); `*` is anybody."""
    if isinstance(who, int):
        return host.number == who
    return who in ("*", host.instance, host.role, host.role.partition("-")[0])
