"""What can go wrong, by name and place; a plan says what does in one world.

A place is a text that the same seed makes again: `train-launch#1/3 ec2.create_fleet` (the third request of the first
invocation), `HostSignal ready host-1 #2` (an event), `host-1 after finished #1` (a word of a host), `train Launch #1`
(a state that is entered), `ask #1` (a fleet that is asked for).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a place is a place of."""

    REQUEST = "request"
    INVOCATION = "invocation"
    EVENT = "event"
    HOST = "host"
    STATE = "state"
    POOL = "pool"


class RequestFault(StrEnum):
    """What may become of one request; botocore tries again where it would on AWS."""

    THROTTLED = "throttled once"
    THROTTLED_FOR_LONG = "throttled until botocore gives up"
    SERVER_ERROR = "5xx once"
    SERVER_ERRORS = "5xx until botocore gives up"
    LOST_BEFORE = "connection lost before the effect"
    UNREACHABLE = "no connection until botocore gives up"
    LOST_AFTER = "connection lost after the effect"
    DENIED = "access denied"
    SLOW = "slow by 45 s"
    CONFLICT = "transaction conflict once"
    CONFLICTS = "transaction conflicts for 10 s"
    ROWS_DELETED = "the rows of all runs are deleted before the request"
    KILLED_BEFORE = "function killed before the request"
    KILLED_AFTER = "function killed after the request"


class InvocationFault(StrEnum):
    OUT_OF_MEMORY = "out of memory"
    TIMED_OUT = "timed out"
    TWICE = "run twice at the same time"
    REFUSED = "Lambda itself fails to start it"


class EventFault(StrEnum):
    LOST = "lost"
    TWICE = "twice"
    LATE = "late by 10 s"
    VERY_LATE = "late by 2 minutes"
    MUCH_TOO_LATE = "late by an hour"
    STORM = "ten times, in any order, up to 90 s late, as all events from it on"


class HostFault(StrEnum):
    """At a word of the contract, before it is said or after."""

    DIES = "dies"
    HANGS = "hangs"
    IS_CUT_OFF = "is cut off"
    WARNED_120 = "is interrupted with 120 s of notice"
    WARNED_30 = "is interrupted with 30 s of notice"
    WARNED_0 = "is interrupted without notice"
    PROGRAM_ERROR = "its program fails"
    DISK_FULL = "its disk is full"
    SAYS_TWICE = "says it twice"
    SAYS_LATE = "says it a minute late"
    GANG_HANGS = "the whole gang hangs"


class BootFault(StrEnum):
    """As a host is to boot."""

    NEVER_BOOTS = "never boots"
    NEVER_REGISTERS = "never registers with Systems Manager"
    REGISTERS_LATE = "registers with Systems Manager after six minutes"
    BOOTS_LATE = "boots after an hour"
    CLOCK_OFF = "has a clock that is a minute off"


class PoolFault(StrEnum):
    """Of the pool that is asked."""

    REFUSES = "refuses once"
    REFUSES_LONG = "refuses for ten minutes"
    TOO_FEW = "grants too few"
    QUOTA = "is beyond the quota"


class PersonFault(StrEnum):
    """As a state is entered."""

    STOPS_IT = "somebody stops the execution"
    ASKS_TO_STOP = "somebody asks for the run to save and stop"
    ASKS_TWICE = "somebody asks twice for the run to save and stop"
    UPLOADS_AGAIN = "the job is uploaded again"
    DELETES_JOB = "the job file is deleted"
    DELETES_CHECKPOINTS = "the checkpoints are deleted"
    DELETES_ROWS = "the run's rows are deleted"
    DELETES_IMAGE = "the image is deregistered"
    TERMINATES_HOST = "somebody terminates a host"


ASKS = (PersonFault.ASKS_TO_STOP, PersonFault.ASKS_TWICE)


WHATS: dict[Kind, tuple[type[StrEnum], ...]] = {
    Kind.REQUEST: (RequestFault,),
    Kind.INVOCATION: (InvocationFault,),
    Kind.EVENT: (EventFault,),
    Kind.HOST: (HostFault, BootFault),
    Kind.STATE: (PersonFault,),
    Kind.POOL: (PoolFault,),
}
STORMS = (
    "HostSignal ready",
    "HostSignal progress",
    "HostSignal stopped",
    "HostSignal finished",
    "HostSignal wiped",
)
"""Events with which a storm begins: worlds whose storms begin later are the same until then."""
PERSON = "alice"
"""Who asks for runs to be stopped."""
READS = ("get_", "describe_", "list_", "query", "batch_get", "head_")
KILLS = (RequestFault.KILLED_BEFORE, RequestFault.KILLED_AFTER)
RETRIED = (RequestFault.THROTTLED, RequestFault.SERVER_ERROR, RequestFault.LOST_BEFORE)
"""botocore tries once more after each of them, after the same wait, and has its answer: the same world."""
ONE_AFTER_ANOTHER = 3
"""Of what is said, asked or tried again and again only the first few are places: what the tenth one meets, the third
has met. That is progress, the passes of patrol, and the tries of a state that waits for a host."""
BOOTS = "boots"
"""The first word of every host: what BootFault is about."""


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that goes wrong at one place."""

    kind: Kind
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.place}: {self.what}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """The reverse of str(). Raises ValueError for a text that names no fault."""
        kind, _, rest = text.strip().partition(" ")
        place, _, what = rest.rpartition(": ")
        if kind not in set(Kind) or not place or not any(what in set(names) for names in WHATS[Kind(kind)]):
            raise ValueError(f"{text!r} names no fault: write it as the table does, `request PLACE: WHAT`")
        return cls(Kind(kind), place, what)


Place = tuple[Kind, str]


@dataclass
class Passed:
    """As what a world has passed a place."""

    during: str
    """The states in which its executions were."""
    about: str
    """What is said or asked there, and in which role; not by which host or for which time."""
    asks: Sequence[str] = ()
    """What the invocation asks AWS for, from its begin to its end."""


@dataclass
class Plan:
    """The faults of one world. It also records every place that the world passes: the space of the next worlds."""

    faults: Sequence[Fault] = ()
    places: dict[Place, Passed | None] = field(default_factory=dict)
    struck: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.take(self.faults)

    def take(self, faults: Sequence[Fault]) -> None:
        """From now on these are its faults."""
        self.faults = faults
        self._by_place: dict[tuple[Kind, str], list[Fault]] = {}
        for fault in faults:
            self._by_place.setdefault((fault.kind, fault.place), []).append(fault)

    def at(self, kind: Kind, place: str, passed: Passed | None = None) -> list[Fault]:
        """What goes wrong there."""
        self.places.setdefault((kind, place), passed)
        found = self._by_place.get((kind, place), [])
        self.struck += [fault for fault in found if fault not in self.struck]
        return found


def like_others(places: Mapping[Place, Passed | None]) -> frozenset[Place]:
    """Places like others, which are tried in their stead. Alike are places that are about the same, in the same states,
    and at which functions ask AWS for the same things in the same order: they differ only in which host of a role it
    is, or in how often it was said or asked. Of requests the last one is tried, of all else the first and the last."""
    alike: dict[tuple[object, ...], list[Place]] = {}
    for (kind, place), passed in places.items():
        if passed:
            key = (kind, passed.during, passed.about, *passed.asks)
            alike.setdefault(key, []).append((kind, place))
    return frozenset(
        each
        for group in alike.values()
        for each in (group[:-1] if group[0][0] is Kind.REQUEST else group[1:-1])
    )


def has_its_turn(fault: Fault) -> bool:
    """Whether it is the one of RETRIED that is tried at its place; at others it is another, so that all of them are."""
    turn = zlib.crc32(fault.place.encode()) % len(RETRIED)
    return fault.what not in RETRIED or fault.what == RETRIED[turn]


def singles(places: Mapping[Place, Passed | None]) -> Iterator[Fault]:
    """Every fault at every place; of kills that nobody can tell apart the first."""
    ends: set[tuple[str, int]] = set()
    for (kind, place), passed in places.items():
        faults = (Fault(kind, place, str(what)) for what in itertools.chain.from_iterable(WHATS[kind]))
        for fault in filter(makes_sense, faults):
            end = end_of_killed(fault, passed.asks) if passed and fault.what in KILLS else None
            if end not in ends:
                yield fault
            if end:
                ends.add(end)


def end_of_killed(kill: Fault, asks: Sequence[str]) -> tuple[str, int]:
    """The invocation, and which of its requests was the last to change anything before it is killed; 0: none."""
    invocation, _, number = kill.place.partition(" ")[0].rpartition("/")
    made = int(number) - (kill.what == RequestFault.KILLED_BEFORE)
    writes = (each for each in range(made, 0, -1) if not asks[each - 1].partition(".")[2].startswith(READS))
    return invocation, next(writes, 0)


def makes_sense(fault: Fault) -> bool:
    """Whether it is another world than without it, or than with another of these faults."""
    if fault.kind is Kind.REQUEST:
        operation = fault.place.rpartition(" ")[2].partition(".")[2]
        if fault.what == RequestFault.DENIED and "conclude#" in fault.place:
            return False  # no role lacks a permission for one request and has it for the next, which a rule makes there
        if fault.what in (RequestFault.CONFLICT, RequestFault.CONFLICTS, RequestFault.ROWS_DELETED):
            return operation == "transact_write_items"
        if fault.what in (RequestFault.LOST_AFTER, RequestFault.KILLED_AFTER):
            return not operation.startswith(READS)
        return True
    if fault.what == EventFault.STORM:
        return fault.place.endswith(" #1") and fault.place.startswith(STORMS)
    if fault.kind is Kind.HOST:
        boots = fault.place.endswith(BOOTS)
        return boots == (fault.what in set(BootFault))
    return True
