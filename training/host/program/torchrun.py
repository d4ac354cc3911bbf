"""Find the real end of a program behind torchrun, which always exits with 1. Below its own traceback, torchrun prints
how its processes ended. Pure."""

import re
import signal

from trainyard.protocol.processes import RESTART

TRACEBACK = "Traceback (most recent call last):"
CHILD_FAILED = re.compile(
    r"^torch\.distributed\.elastic\.multiprocessing\.errors\.ChildFailedError:.*?"
    r"^Root Cause \(first observed failure\):.*?^ *exitcode *: (-?\d+)",
    re.MULTILINE | re.DOTALL,
)
SIGNALLED = re.compile(
    rf"^torch\.distributed\.elastic\.multiprocessing\.api\.SignalException: .*: {signal.SIGTERM.value}$",
    re.MULTILINE,
)
HAD_TO_KILL = "forcefully exiting via"
"""Part of torchrun's warning about a process that had not left 30 s after the signal."""


def unwrap(code: int, tail: str) -> tuple[int, str]:
    """Return exit code and last lines of the program itself, or the given ones if the output has no end of torchrun.

    If several processes failed, the first one counts. If torchrun was asked to leave (it passes SIGTERM on), its
    processes have left by themselves (75) or were killed (137)."""
    if code != 1:
        return code, tail
    if failed := _last(CHILD_FAILED, tail):
        own = int(failed[1])
        return (own if own >= 0 else 128 - own), _before_traceback(tail, failed.start())
    if signalled := _last(SIGNALLED, tail):
        own = 128 + signal.SIGKILL if HAD_TO_KILL in tail else RESTART
        return own, _before_traceback(tail, signalled.start())
    return code, tail


def _last(pattern: re.Pattern[str], tail: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(tail))), None)


def _before_traceback(tail: str, at: int) -> str:
    begun = tail.rfind(f"\n{TRACEBACK}\n", 0, at)
    return tail[: begun + 1] if begun >= 0 else tail[:at]
