"""The error tree of the host.

HostTrouble            the attempt cannot continue on this host
├── Unreachable        a service does not answer, or refuses for now
├── AccessDenied       a permission is missing (final)
├── Missing            an object is missing (final)
├── Damaged            an object from the bucket has arrived changed
├── OtherVersion       a file of the yard is of another version (final)
├── Replaced           a newer checkpoint has replaced the requested one
├── BrokenHardware     the hardware has failed (health.py); the host is not used again
├── GivenUp            all hosts of a cluster must restore an earlier checkpoint (the host is healthy)
└── ProgramFault       the user's program cannot be run (reported as the program's failure, final)
"""

from trainyard.command_line import command_line
from trainyard.protocol.signals import FailureKind


class HostTrouble(Exception):  # noqa: N818 - names a condition, as its subclasses do
    """A trouble of this host. `reason` tells users what happened, what it means, and what to do. `final` is True if no
    retry can help, `passes` if a retry on this host may help soon."""

    kind = FailureKind.HOST

    def __init__(self, reason: str, *, final: bool = False, passes: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final
        self.passes = passes and not final


class Unreachable(HostTrouble):
    """A service does not answer, or refuses for now. The host is healthy, and the call may succeed minutes later."""

    kind = FailureKind.SERVICE


class AccessDenied(HostTrouble):
    """A permission that `role` lacks."""

    def __init__(self, action: str, resource: str, *, role: str = "host role") -> None:
        super().__init__(
            f"access denied: the {role} lacks {action} on {resource}; allow it in the {role} and start again",
            final=True,
        )
        self.action = action


class Missing(HostTrouble):
    def __init__(self, reason: str) -> None:
        super().__init__(reason, final=True)


class OtherVersion(HostTrouble):
    """A file of the yard that this host's software cannot read."""

    def __init__(self, file: str, faults: ValueError) -> None:
        super().__init__(
            f"this host's software cannot read {file} ({faults}). The run cannot train on this image. "
            f"Bake an image of the yard's version: {command_line('image', 'bake', 'RECIPE')}",
            final=True,
        )


class Damaged(HostTrouble):
    """An object that arrived damaged twice."""


class Replaced(HostTrouble):
    """A checkpoint that latest.json no longer names, because a newer one has replaced it."""


class GivenUp(HostTrouble):
    """A damaged checkpoint; latest.json now names the one before it."""

    kind = FailureKind.CHECKPOINT


class ProgramFault(HostTrouble):
    kind = FailureKind.PROGRAM

    def __init__(self, reason: str, *, final: bool = True) -> None:
        super().__init__(reason, final=final)
