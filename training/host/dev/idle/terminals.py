"""This host's pseudo-terminals: their foreground commands, their last output, and a message to all of them."""

import logging
import os
import termios
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from training.host.dev.idle.decision import Terminal
from training.host.processes import Process, ancestors

SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ksh", "tcsh")
SSH = ("sshd", "sshd-session")
SESSIONS = ("ssm-session-wor", *SSH)
"""Processes of remote sessions: Systems Manager's (the kernel cuts names to 15 characters) and ssh's."""

logger = logging.getLogger(__name__)


def look(processes: Mapping[int, Process], pts: Path) -> tuple[Terminal, ...]:
    """Return the terminals in the folder `pts`, except those that are closed meanwhile."""
    return tuple(found for path in _of(pts) if (found := _terminal(path, processes)))


def has_session(terminals: Iterable[Terminal], processes: Mapping[int, Process]) -> bool:
    """Return True if a session with a terminal is open, or a session of ssh without one, as editors use."""
    by_ssh = (each for each in processes.values() if each.name in SSH)
    connected = any(above.name in SSH for each in by_ssh for above in ancestors(each, processes))
    return connected or any(each.session for each in terminals)


def write_to_all(text: str, pts: Path) -> None:
    """Write a message to every terminal, like the command wall. Skip terminals that cannot be written to."""
    for path in _of(pts):
        try:
            _write(path, f"\r\n\a*** {text} ***\r\n".encode())
        except OSError as error:
            logger.info("%s: the message could not be written: %s", path, error)


def _of(pts: Path) -> Iterable[Path]:
    return sorted((path for path in pts.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def _terminal(path: Path, processes: Mapping[int, Process]) -> Terminal | None:
    mine = [each for each in processes.values() if each.terminal == int(path.name)]
    leader = next((each for each in mine if each.pid == each.session), None)
    try:
        active = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        runs = _runs(mine, leader) if mine and not _waits_for_keys(path) else ""
    except OSError as error:
        logger.debug("%s is closed: %s", path, error)
        return None
    is_session = leader is not None and any(each.name in SESSIONS for each in ancestors(leader, processes))
    return Terminal(f"pts/{path.name}", active, runs, is_session)


def _runs(mine: list[Process], leader: Process | None) -> str:
    """Return the name of the foreground process; empty for a shell that waits for a command."""
    foreground = next(
        (each for each in mine if each.group == each.foreground and each.pid == each.group), None
    )
    if foreground is None or (foreground is leader and foreground.name.lstrip("-") in SHELLS):
        return ""
    return foreground.name


def _waits_for_keys(path: Path) -> bool:
    """Return True if the terminal is read key by key, as by a shell's prompt, an editor, a pager, or Python's prompt. A
    command that does not wait for keys leaves the terminal in the mode that the shell sets for commands: by lines."""
    file = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        return not termios.tcgetattr(file)[3] & termios.ICANON
    except termios.error as error:
        raise OSError(*error.args) from error
    finally:
        os.close(file)


def _write(path: Path, text: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        os.write(file, text)
    finally:
        os.close(file)
