"""This host's pseudo-terminals, whoever opened them: what runs there, when something was printed, a word to all."""

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
"""Whose terminals are at the other end of a session: Systems Manager's (a process has a name of 15 letters), ssh's."""

logger = logging.getLogger(__name__)


def look(processes: Mapping[int, Process], pts: Path) -> tuple[Terminal, ...]:
    """Those in that folder. One that is closed meanwhile is not there."""
    return tuple(found for path in _of(pts) if (found := _terminal(path, processes)))


def somebody_is_in(terminals: Iterable[Terminal], processes: Mapping[int, Process]) -> bool:
    """Whether a session is open, as far as this host can see: one with a terminal, or by ssh, as editors have."""
    by_ssh = (each for each in processes.values() if each.name in SSH)
    connected = any(above.name in SSH for each in by_ssh for above in ancestors(each, processes))
    return connected or any(each.session for each in terminals)


def tell(text: str, pts: Path) -> None:
    """Write it to every terminal, as wall does to those that have a login. Who does not take it is left out."""
    for path in _of(pts):
        try:
            _write(path, f"\r\n\a*** {text} ***\r\n".encode())
        except OSError as error:
            logger.info("%s was not told: %s", path, error)


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
    """What is in the foreground, but for the shell that waits for a line."""
    foreground = next(
        (each for each in mine if each.group == each.foreground and each.pid == each.group), None
    )
    if foreground is None or (foreground is leader and foreground.name.lstrip("-") in SHELLS):
        return ""
    return foreground.name


def _waits_for_keys(path: Path) -> bool:
    """Whether its program reads key by key, as shells at their prompt, editors, pagers and Python's own prompt do. A
    command that works by itself leaves the terminal as the shell sets it for commands: line by line."""
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
