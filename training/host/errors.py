"""The one error tree of the host.

HostTrouble            something on this host keeps the attempt from going on
├── Unreachable        a service does not answer, or refuses for now
├── AccessDenied       a permission is missing (final)
├── Missing            an object is not there (final)
├── Damaged            what came from the bucket is not what was put there
├── OtherVersion       a file of the yard is of another version (final)
├── Replaced           a newer checkpoint has taken the place of the one that is asked for
├── GivenUp            the hosts of a cluster must restore an earlier checkpoint, all of them (the host is well)
└── ProgramFault       what the user handed in cannot be run (reported as the program's, final)
"""

from trainyard.command_line import command_line
from trainyard.protocol.signals import FailureKind


class HostTrouble(Exception):  # noqa: N818 - the word fits the tree, its children are no Error either
    """What happened, what it means, what to do: one sentence for people. `final`: a retry cannot help; `passes`: one on
    this host may help soon."""

    kind = FailureKind.HOST

    def __init__(self, reason: str, *, final: bool = False, passes: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final
        self.passes = passes and not final


class Unreachable(HostTrouble):
    """A service does not answer, or refuses for now: the same call may succeed minutes later. The host is well."""

    kind = FailureKind.SERVICE


class AccessDenied(HostTrouble):
    """`role`: whose permission it would be."""

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
    """`file` of the yard does not have the form that this host's software reads."""

    def __init__(self, file: str, faults: ValueError) -> None:
        super().__init__(
            f"{file} is not what this host's software reads ({faults}). The run cannot train on this image. "
            f"Bake an image of the yard's version: {command_line('image', 'bake', 'RECIPE')}",
            final=True,
        )


class Damaged(HostTrouble):
    """Raised once it was fetched a second time and came no better."""


class Replaced(HostTrouble):
    """latest.json names a newer checkpoint, and not the one that is asked for."""


class GivenUp(HostTrouble):
    """The checkpoint is damaged, and latest.json names the one before it."""

    kind = FailureKind.CHECKPOINT


class ProgramFault(HostTrouble):
    kind = FailureKind.PROGRAM

    def __init__(self, reason: str, *, final: bool = True) -> None:
        super().__init__(reason, final=final)
