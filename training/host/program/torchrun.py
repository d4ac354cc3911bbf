"""torchrun's end, seen through: it leaves with 1 whatever the processes did that it has started, and says below a
traceback of its own how these ended. Pure."""

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
"""In its warning about a process that had not left 30 seconds after the signal."""


def seen_through(code: int, tail: str) -> tuple[int, str]:
    """Exit code and last lines of the program itself; the same as given where it was not torchrun that ended.

    Of several processes the first that failed counts. Where torchrun was told to leave (SIGTERM, which it passes on)
    they have left by themselves, which is 75, or were killed, which is 137."""
    if code != 1:
        return code, tail
    if failed := _last(CHILD_FAILED, tail):
        own = int(failed[1])
        return (own if own >= 0 else 128 - own), _before_its_traceback(tail, failed.start())
    if signalled := _last(SIGNALLED, tail):
        own = 128 + signal.SIGKILL if HAD_TO_KILL in tail else RESTART
        return own, _before_its_traceback(tail, signalled.start())
    return code, tail


def _last(pattern: re.Pattern[str], tail: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(tail))), None)


def _before_its_traceback(tail: str, at: int) -> str:
    begun = tail.rfind(f"\n{TRACEBACK}\n", 0, at)
    return tail[: begun + 1] if begun >= 0 else tail[:at]
