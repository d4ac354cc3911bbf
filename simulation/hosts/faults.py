"""Faults of a host: at a signal that it sends, or at a stage before it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

When = Literal["before", "after"]


@dataclass(frozen=True)
class Dies:
    """The machine fails at once, and EC2 notices."""


@dataclass(frozen=True)
class Hangs:
    """The host freezes: no signals, no orders, no progress. EC2 still shows it as running."""

    seconds: float | None = None
    """None: for ever."""


@dataclass(frozen=True)
class IsCutOff:
    """The host continues without a network."""

    seconds: float | None = None
    """None: for ever."""


@dataclass(frozen=True)
class ProgramEnds:
    """The program ends by itself with these last lines. Before its start: the program turns out to be invalid."""

    code: int = 1
    lines: tuple[str, ...] = ("Traceback (most recent call last):", "ValueError: a fault of the program")


@dataclass(frozen=True)
class DiskFull:
    """The disk is full from now on. A running program ends because of it."""

    line: str = "OSError: [Errno 28] No space left on device"


@dataclass(frozen=True)
class MountEnds:
    """The mount of a data entry ends while the program runs. Before its start: the mount is refused."""

    line: str = "OSError: [Errno 107] Transport endpoint is not connected"
    reason: str = "the mount of data.train (s3://bucket/data/train/) has ended on this host"


@dataclass(frozen=True)
class Xid:
    """The driver reports a fatal error of a GPU in the kernel's log. The program itself notices nothing."""

    message: str = (
        "NVRM: Xid (PCI:0000:00:1e): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    )


@dataclass(frozen=True)
class NeverRegisters:
    """The host never registers with Systems Manager. Applies at `boot` or `register`."""


@dataclass(frozen=True)
class RegistersLate:
    """The host registers with Systems Manager late. Applies at `boot` or `register`."""

    seconds: float = 360.0
    """The delay."""


@dataclass(frozen=True)
class ClockOff:
    """The clock of the host is wrong."""

    seconds: float = 60.0
    """Ahead of the real time; behind if negative."""


@dataclass(frozen=True)
class SendsTwice:
    """The signal is sent twice."""


@dataclass(frozen=True)
class Late:
    """A signal or stage is late. At `boot`, the host boots late."""

    seconds: float = 60.0
    """The delay."""


@dataclass(frozen=True)
class GangHangs:
    """All programs of the gang hang; the hosts are healthy."""


@dataclass(frozen=True)
class OthersHang:
    """The other programs do not end after the chief's has finished. Best injected at `started` of the chief."""


@dataclass(frozen=True)
class GoesDown:
    """A user shuts the host down."""


NEVER_BOOTS = Hangs()
"""Injected at `boot`."""

Fault = (
    Dies
    | Hangs
    | IsCutOff
    | ProgramEnds
    | DiskFull
    | MountEnds
    | Xid
    | NeverRegisters
    | RegistersLate
    | ClockOff
    | SendsTwice
    | Late
    | GangHangs
    | OthersHang
    | GoesDown
)


Trouble = ProgramEnds | DiskFull | MountEnds | Xid
"""Faults that the agent finds before the program runs."""


class AffectedHost(Protocol):
    """The host that a fault hits, as a plan identifies it."""

    @property
    def instance(self) -> str: ...

    @property
    def number(self) -> int:
        """The number of the host, from 0, in the order of first boots."""
        ...

    @property
    def role(self) -> str:
        """The role in the current or last attempt, e.g. `worker-1`; empty before the first."""
        ...

    @property
    def attempt(self) -> int: ...


OnStage = Callable[[AffectedHost, str, When], Fault | None]


@dataclass
class Injection:
    """A fault that will be injected."""

    stage: str
    who: int | str
    fault: Fault
    when: When = "after"
    attempt: int | None = None
    left: int = 1

    def fits(self, host: AffectedHost, stage: str, when: When) -> bool:
        return (
            self.left > 0
            and (stage, when) == (self.stage, self.when)
            and (self.attempt is None or self.attempt == host.attempt)
            and is_target(host, self.who)
        )


def is_target(host: AffectedHost, who: int | str) -> bool:
    """Return True if the host matches: by number, instance id, role (`worker`), role and index (`worker-1`), or `*`
    for any."""
    if isinstance(who, int):
        return host.number == who
    return who in ("*", host.instance, host.role, host.role.partition("-")[0])
