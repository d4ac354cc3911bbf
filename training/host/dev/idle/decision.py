"""Is anybody at this dev host, and when will patrol take it for idle? Pure.

What is not known is never idle: a Jupyter that runs and does not answer makes the minute unknown, and nothing is
published of it. Patrol reads what is (lambdas/core/patrol/judgement.py).
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

KERNELS, TERMINALS = 1, 2
"""What the metric InUse is the sum of."""
RECENT = timedelta(minutes=2)
"""Who did something within that time is at it still: twice what lies between two looks."""
ECHO = timedelta(seconds=10)
"""Within that time what a terminal prints is our own warning: the kernel notes it by eight seconds."""
LONGEST_NOTICE, SHORTEST_NOTICE = timedelta(minutes=5), timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Kernel:
    """As Jupyter tells: `state` is idle, busy, starting, restarting, dead, ...; `active`: its last message."""

    name: str
    state: str
    active: datetime


@dataclass(frozen=True, slots=True)
class Terminal:
    """`runs`: the command in its foreground, if that works by itself and waits for no key. `active`: when something
    was printed there last. `session`: a person sits there by a session from elsewhere, which patrol sees itself."""

    name: str
    active: datetime
    runs: str = ""
    session: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """`kernels` is None where Jupyter runs and does not tell. `told`: when the terminals were warned last."""

    kernels: tuple[Kernel, ...] | None
    terminals: tuple[Terminal, ...]
    told: datetime | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """Why kernels, and terminals, are in use; empty where they are not."""

    kernels: str = ""
    terminals: str = ""

    @property
    def value(self) -> int:
        """Of the metric InUse."""
        return KERNELS * bool(self.kernels) + TERMINALS * bool(self.terminals)

    @property
    def reason(self) -> str:
        return " and ".join(filter(None, (self.kernels, self.terminals)))


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell."""

    reason: str


def use_of(seen: Seen, now: datetime) -> Use | Unknown:
    """A busy terminal is known to be busy, whatever Jupyter does not tell."""
    terminals = _terminals(seen, now)
    if seen.kernels is None:
        return (
            Use(terminals=terminals)
            if terminals
            else Unknown("Jupyter runs and does not tell of its kernels")
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
    recent = (each for each in seen.terminals if now - each.active <= RECENT and not is_echo(each, seen.told))
    found = next(recent, None)
    return f"{found.name} was used just now" if found else ""


def is_echo(terminal: Terminal, told: datetime | None) -> bool:
    """Whether what it printed last was our warning."""
    return told is not None and abs(terminal.active - told) <= ECHO


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """What patrol judges this host by, as its tag Tag.JUDGED_BY says."""

    window: timedelta
    grace: timedelta
    idle_percent: float
    idle_cpu_percent: float

    @staticmethod
    def of_tag(text: str) -> "JudgedBy | None":
        """None for a tag that is not there yet, or that cannot be read."""
        words = dict(word.partition("=")[::2] for word in text.split())
        try:
            return JudgedBy(
                window=timedelta(minutes=float(words["window_minutes"])),
                grace=timedelta(minutes=float(words["grace_minutes"])),
                idle_percent=float(words["idle_percent"]),
                idle_cpu_percent=float(words["idle_cpu_percent"]),
            )
        except (KeyError, ValueError):
            return None

    @property
    def notice(self) -> timedelta:
        """How long before the end somebody is told: five minutes, or a third of a short window."""
        return min(LONGEST_NOTICE, max(SHORTEST_NOTICE, self.window / 3))


@dataclass(frozen=True, slots=True)
class Outlook:
    """`ends`: when patrol may take the host for idle at the earliest, if nobody uses it until then. `warns`: whether it
    is time to say so. `held`: until when somebody holds it."""

    ends: datetime
    warns: bool
    held: datetime | None = None


def outlook(
    judged_by: JudgedBy,
    *,
    used: datetime,
    born: datetime,
    held: datetime | None,
    in_session: bool,
    now: datetime,
) -> Outlook:
    """`used`: when the host was in use last, as far as it can see itself, or could be used first; `born`: when it
    booted; `in_session`: somebody has a session on it, which keeps it."""
    ends = max(used + judged_by.window, born + judged_by.grace, held or used)
    return Outlook(
        ends, not in_session and now >= ends - judged_by.notice, held if held and held > now else None
    )


def warning(ends: datetime, now: datetime) -> str:
    """For a terminal."""
    minutes = max(0, round((ends - now).total_seconds() / 60))
    when = f"in about {minutes} min" if minutes else "within the next minutes"
    return (
        f"trainyard: nobody uses this dev host, and it is stopped {when}. Its disk stays. "
        "Use it, or keep it: trainyard hold 2h"
    )
