"""The exit codes of `trainyard`."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes, which docs/cli.md explains. Each class of error has one (trainyard.client.errors)."""

    DONE = 0
    RUN_FAILED = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    DENIED = 5
    NO_ANSWER = 69
    """Neither AWS nor the local cloud answered (sysexits' EX_UNAVAILABLE)."""
    BUG = 70
    """A fault of the command itself (EX_SOFTWARE)."""
    INTERRUPTED = 130
