"""Decide if a dev host is in use, and when patrol will find it idle. Pure.

Unknown is never idle: if Jupyter runs but does not answer, nothing is published for that minute. Patrol reads the
published values (lambdas/core/patrol/judgement.py).
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

KERNELS, TERMINALS = 1, 2
"""The terms of the metric InUse."""
RECENT = timedelta(minutes=2)
"""Activity within this time counts as present use. It is twice the interval between two looks."""
ECHO = timedelta(seconds=10)
"""Output of a terminal this close to our own warning is that warning. The kernel's times have a precision of 8 s."""
LONGEST_WARNING, SHORTEST_WARNING = timedelta(minutes=5), timedelta(minutes=2)
"""The shortest is two looks, so that users see the warning for a minute even if one look was just too early."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of Jupyter."""

    name: str
    state: str
    """idle, busy, starting, restarting, dead, and others."""
    active: datetime
    """The time of its last message."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A pseudo-terminal."""

    name: str
    active: datetime
    """The time of its last output."""
    runs: str = ""
    """The command in its foreground, if that does not wait for keys."""
    session: bool = False
    """True if it belongs to a remote session, which patrol detects itself."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Kernels and terminals at one moment."""

    kernels: tuple[Kernel, ...] | None
    """None if Jupyter runs but does not answer."""
    terminals: tuple[Terminal, ...]
    warned: datetime | None = None
    """When the terminals were last warned."""


@dataclass(frozen=True, slots=True)
class Use:
    """The reasons why kernels and terminals are in use; empty if they are not."""

    kernels: str = ""
    terminals: str = ""

    @property
    def value(self) -> int:
        """The value of the metric InUse."""
        return KERNELS * bool(self.kernels) + TERMINALS * bool(self.terminals)

    @property
    def reason(self) -> str:
        return " and ".join(filter(None, (self.kernels, self.terminals)))


@dataclass(frozen=True, slots=True)
class Unknown:
    """It is unknown if the host is in use."""

    reason: str


def use_of(seen: Seen, now: datetime) -> Use | Unknown:
    """Return the use of the host. A busy terminal is in use even if Jupyter does not answer."""
    terminals = _terminals(seen, now)
    if seen.kernels is None:
        return (
            Use(terminals=terminals) if terminals else Unknown("Jupyter runs but does not list its kernels")
        )
    return Use(_kernels(seen.kernels, now), terminals)


def _kernels(kernels: Collection[Kernel], now: datetime) -> str:
    busy = next((each.name for each in kernels if each.state == "busy"), "")
    if busy:
        return f"the kernel {busy} runs a cell"
    recent = next((each.name for each in kernels if now - each.active <= RECENT), "")
    return f"the kernel {recent} was used just now" if recent else ""


def _terminals(seen: Seen, now: datetime) -> str:
    busy = next((each for each in seen.terminals if each.runs), None)
    if busy:
        return f"{busy.runs} runs in {busy.name}"
    recent = (
        each for each in seen.terminals if now - each.active <= RECENT and not is_echo(each, seen.warned)
    )
    found = next(recent, None)
    return f"{found.name} was used just now" if found else ""


def is_echo(terminal: Terminal, warned: datetime | None) -> bool:
    """Return True if the last output of the terminal was our warning."""
    return warned is not None and abs(terminal.active - warned) <= ECHO


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """Patrol's rules for this host, from its tag Tag.JUDGED_BY."""

    window: timedelta
    grace: timedelta
    idle_percent: float
    idle_cpu_percent: float

    @staticmethod
    def of_tag(text: str) -> "JudgedBy | None":
        """Parse the tag; None if it is missing or cannot be read."""
        settings = dict(setting.partition("=")[::2] for setting in text.split())
        try:
            return JudgedBy(
                window=timedelta(minutes=float(settings["window_minutes"])),
                grace=timedelta(minutes=float(settings["grace_minutes"])),
                idle_percent=float(settings["idle_percent"]),
                idle_cpu_percent=float(settings["idle_cpu_percent"]),
            )
        except (KeyError, ValueError):
            return None

    @property
    def warns_before(self) -> timedelta:
        """The time between the warning and the end: a third of the window, from 2 to 5 min."""
        return min(LONGEST_WARNING, max(SHORTEST_WARNING, self.window / 3))


@dataclass(frozen=True, slots=True)
class Outlook:
    """The future of the host if it stays unused."""

    ends: datetime
    """When patrol may find the host idle at the earliest."""
    warns: bool
    """True if it is time to warn users."""
    held: datetime | None = None
    """The end of the hold, if there is one."""


def outlook(
    judged_by: JudgedBy,
    *,
    used: datetime,
    born: datetime,
    held: datetime | None,
    in_session: bool,
    now: datetime,
) -> Outlook:
    """Return the outlook. `used` is when the host was last in use, or could first be used; `born` is its boot.
    `in_session` is True if a session is open, which keeps the host."""
    ends = max(used + judged_by.window, born + judged_by.grace, held or used)
    return Outlook(
        ends, not in_session and now >= ends - judged_by.warns_before, held if held and held > now else None
    )


def warning(ends: datetime, now: datetime) -> str:
    """Return the warning for a terminal."""
    minutes = max(0, round((ends - now).total_seconds() / 60))
    when = f"in about {minutes} min" if minutes else "within the next minutes"
    return (
        f"trainyard: this dev host is not in use, and will be stopped {when}. Its disk stays. "
        "To keep it, use it or type: trainyard hold 2h"
    )
