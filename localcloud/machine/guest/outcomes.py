"""Results of a service's exit: success or failure, and whether systemd restarts it."""

from __future__ import annotations

import signal

from localcloud.machine.guest.processes import signal_number
from localcloud.machine.guest.units import UnitFile

OUT_OF_MEMORY = "oom-kill"
"""Result of a unit that systemd ended because of OOMPolicy=."""


def kill_signal(unit: UnitFile) -> int:
    return signal_number(unit.get("Service", "KillSignal", "SIGTERM"))


def is_clean(unit: UnitFile, code: int, *, stop_requested: bool) -> bool:
    """Return True if the main process's exit code counts as success."""
    clean = {0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM, -signal.SIGPIPE}
    for word in unit.words("Service", "SuccessExitStatus"):
        clean.add(int(word) if word.isdigit() else -signal_number(word))
    return code in clean or (stop_requested and code == -kill_signal(unit))


def wants_restart(unit: UnitFile, result: str, exit_status: int) -> bool:
    """Return True if Restart= asks for another start after this result."""
    if str(exit_status) in unit.words("Service", "RestartPreventExitStatus"):
        return False
    match unit.get("Service", "Restart", "no"):
        case "always":
            return True
        case "on-success":
            return result == "success"
        case "on-failure":
            return result != "success"
        case "on-abnormal":
            return result in ("signal", "timeout", OUT_OF_MEMORY)
        case "on-abort":
            return result == "signal"
    return False
