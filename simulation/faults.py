"""The faults of the simulator, and the plan that says which of them happen in one world.

A fault point is a text that is the same in every world with the same seed: `train-launch#1/3 ec2.create_fleet` (the
third request of the first invocation), `HostSignal ready host-1 #2` (an event), `host-1 after finished #1` (a
signal of a host), `train Launch #1` (a state is entered), `fleet request #1` (a request for a fleet).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    REQUEST = "request"
    INVOCATION = "invocation"
    EVENT = "event"
    HOST = "host"
    STATE = "state"
    POOL = "pool"


class RequestFault(StrEnum):
    """Faults of one AWS request. Retries of botocore happen as on AWS."""

    THROTTLED = "throttled once"
    THROTTLED_FOR_LONG = "throttled until botocore gives up"
    SERVER_ERROR = "5xx once"
    SERVER_ERRORS = "5xx until botocore gives up"
    LOST_BEFORE = "connection lost before the effect"
    UNREACHABLE = "no connection until botocore gives up"
    LOST_AFTER = "connection lost after the effect"
    DENIED = "access denied"
    DENIED_BRIEFLY = "access denied for 10 s, because IAM has not spread a new policy yet"
    REMOVED = "its permission was removed, and works for 10 s more"
    THROTTLED_IN_BURSTS = "all requests to its service are throttled for a minute"
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
    STORM = "ten times, in any order, up to 90 s late, like all later events"


class HostFault(StrEnum):
    """Faults of a host before or after it sends a signal."""

    DIES = "dies"
    HANGS = "hangs"
    IS_CUT_OFF = "is cut off"
    WARNED_120 = "is interrupted with 120 s of notice"
    WARNED_30 = "is interrupted with 30 s of notice"
    WARNED_0 = "is interrupted without notice"
    PROGRAM_ERROR = "its program fails"
    DISK_FULL = "its disk is full"
    MOUNT_ENDS = "the mount of its data ends"
    XID = "its GPU has a fatal error (Xid 79)"
    SENDS_TWICE = "sends it twice"
    SENDS_LATE = "sends it a minute late"
    GANG_HANGS = "the whole gang hangs"


class BootFault(StrEnum):
    """Faults of a host at its boot."""

    NEVER_BOOTS = "never boots"
    NEVER_REGISTERS = "never registers with Systems Manager"
    REGISTERS_LATE = "registers with Systems Manager after six minutes"
    BOOTS_LATE = "boots after an hour"
    CLOCK_OFF = "has a clock that is a minute off"
    ROLE_LATE = "has no credentials for its first 150 s, because EC2 cannot assume its new role yet"
    CLOCK_FAR_OFF = "has a clock that is 20 minutes off, so AWS refuses its signatures"


class PoolFault(StrEnum):
    """Faults of the capacity pool that a fleet is requested from."""

    REFUSES = "refuses once"
    REFUSES_LONG = "refuses for ten minutes"
    TOO_FEW = "grants too few"
    QUOTA = "is beyond the quota"
    GRANTS_WITH_ERRORS = "grants all hosts, and answers with an error"
    PROFILE_UNKNOWN = "does not know the new instance profile for 10 s"


class PersonFault(StrEnum):
    """Actions of users when a state is entered."""

    STOPS_IT = "a user stops the execution"
    ASKS_TO_STOP = "a user asks the run to save and stop"
    ASKS_TWICE = "a user asks the run twice to save and stop"
    UPLOADS_AGAIN = "the job is uploaded again"
    DELETES_JOB = "the job file is deleted"
    DELETES_CHECKPOINTS = "the checkpoints are deleted"
    DELETES_ROWS = "the run's rows are deleted"
    DELETES_IMAGE = "the image is deregistered"
    TERMINATES_HOST = "a user terminates a host"


STOP_REQUESTS = (PersonFault.ASKS_TO_STOP, PersonFault.ASKS_TWICE)


FAULTS_BY_KIND: dict[Kind, tuple[type[StrEnum], ...]] = {
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
"""Events at which a storm may begin. Later events would give the same world until then."""
PERSON = "alice"
"""The user who asks runs to stop."""
READS = ("get_", "describe_", "list_", "query", "batch_get", "head_")
DENIALS = (RequestFault.DENIED, RequestFault.DENIED_BRIEFLY)
MISSING = (*DENIALS, RequestFault.REMOVED)
KILLS = (RequestFault.KILLED_BEFORE, RequestFault.KILLED_AFTER)
RETRIED = (RequestFault.THROTTLED, RequestFault.SERVER_ERROR, RequestFault.LOST_BEFORE)
"""Faults after which botocore retries once, after the same wait, and succeeds. All three give the same world."""
ONE_AFTER_ANOTHER = 3
"""The number of fault points among repeated signals, requests and events. Later repetitions (progress, passes of
patrol, retries of a state that waits for a host) meet nothing new."""
BOOTS = "boots"
"""The first fault point of every host, where a BootFault applies."""


@dataclass(frozen=True, order=True)
class Fault:
    """One fault at one fault point."""

    kind: Kind
    point: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind} {self.point}: {self.what}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Parse the result of str(). Raises ValueError if the text is not a fault."""
        kind, _, rest = text.strip().partition(" ")
        point, _, what = rest.rpartition(": ")
        if (
            kind not in set(Kind)
            or not point
            or not any(what in set(names) for names in FAULTS_BY_KIND[Kind(kind)])
        ):
            raise ValueError(f"{text!r} is not a fault: write it as in the tables, `request POINT: FAULT`")
        return cls(Kind(kind), point, what)


FaultPoint = tuple[Kind, str]


@dataclass
class Visit:
    """The circumstances under which a world reached a fault point."""

    during: str
    """The states of all executions at that moment."""
    about: str
    """The signal or request, and the role of the host; without the number of the host and the count."""
    operations: Sequence[str] = ()
    """The AWS operations of the invocation, from its start to its end."""


@dataclass
class Plan:
    """The faults of one world. The plan also records every fault point that the world reaches."""

    faults: Sequence[Fault] = ()
    points: dict[FaultPoint, Visit | None] = field(default_factory=dict)
    injected: list[Fault] = field(default_factory=list)
    draw: Callable[[Kind, str], Fault | None] | None = None
    """Draws faults in addition to `faults`, for scenarios with many of them."""

    def __post_init__(self) -> None:
        self.take(self.faults)

    def take(self, faults: Sequence[Fault]) -> None:
        """Replace the faults of the plan."""
        self.faults = faults
        self._by_point: dict[tuple[Kind, str], list[Fault]] = {}
        for fault in faults:
            self._by_point.setdefault((fault.kind, fault.point), []).append(fault)

    @property
    def all_faults(self) -> Sequence[Fault]:
        """Return the faults of the world, with the drawn ones so far."""
        return self.injected if self.draw else self.faults

    def at(self, kind: Kind, point: str, visit: Visit | None = None) -> list[Fault]:
        """Record the fault point, and return its faults."""
        self.points.setdefault((kind, point), visit)
        found = self._by_point.get((kind, point), [])
        if self.draw and (drawn := self.draw(kind, point)):
            found = [*found, drawn]
        self.injected += [fault for fault in found if fault not in self.injected]
        return found


def find_equivalent(points: Mapping[FaultPoint, Visit | None]) -> frozenset[FaultPoint]:
    """Return the fault points that are equivalent to others and need no test of their own.

    Two fault points are equivalent if the same thing happens there, in the same states, and the function sends the
    same requests to AWS in the same order. They differ only in the host of a role, or in the count. Only
    the last of equivalent requests is tried, and the first and the last of other equivalent fault points.
    """
    alike: dict[tuple[object, ...], list[FaultPoint]] = {}
    for (kind, point), visit in points.items():
        if visit:
            key = (kind, visit.during, visit.about, *visit.operations)
            alike.setdefault(key, []).append((kind, point))
    return frozenset(
        each
        for group in alike.values()
        for each in (group[:-1] if group[0][0] is Kind.REQUEST else group[1:-1])
    )


def is_chosen_retry(fault: Fault) -> bool:
    """Return False if the fault is in RETRIED and another one of RETRIED is tried at its fault point."""
    turn = zlib.crc32(fault.point.encode()) % len(RETRIED)
    return fault.what not in RETRIED or fault.what == RETRIED[turn]


def singles(points: Mapping[FaultPoint, Visit | None]) -> Iterator[Fault]:
    """Yield every fault at every fault point. Yield only the first of kills with the same effect."""
    ends: set[tuple[str, int]] = set()
    for (kind, point), visit in points.items():
        faults = (
            Fault(kind, point, str(what)) for what in itertools.chain.from_iterable(FAULTS_BY_KIND[kind])
        )
        for fault in filter(is_distinct, faults):
            end = last_write_before(fault, visit.operations) if visit and fault.what in KILLS else None
            if end not in ends:
                yield fault
            if end:
                ends.add(end)


def last_write_before(kill: Fault, operations: Sequence[str]) -> tuple[str, int]:
    """Return the invocation, and the number of the last request before the kill that changes anything; 0 if none."""
    invocation, _, number = kill.point.partition(" ")[0].rpartition("/")
    made = int(number) - (kill.what == RequestFault.KILLED_BEFORE)
    writes = (
        each for each in range(made, 0, -1) if not operations[each - 1].partition(".")[2].startswith(READS)
    )
    return invocation, next(writes, 0)


def is_distinct(fault: Fault) -> bool:
    """Return True if the fault gives another world than no fault or than another fault."""
    if fault.kind is Kind.REQUEST:
        service, _, operation = fault.point.rpartition(" ")[2].partition(".")
        if fault.what in DENIALS and "conclude#" in fault.point:
            return (
                False  # the rule calls Conclude again, and a real role would still lack the permission then
            )
        if fault.what == RequestFault.REMOVED:
            return (
                fault.point.startswith("train-") and "#1/" in fault.point and "conclude#" not in fault.point
            )
        if fault.what == RequestFault.THROTTLED_IN_BURSTS:
            return service == "ssm"
        if fault.what in (RequestFault.CONFLICT, RequestFault.CONFLICTS, RequestFault.ROWS_DELETED):
            return operation == "transact_write_items"
        if fault.what in (RequestFault.LOST_AFTER, RequestFault.KILLED_AFTER):
            return not operation.startswith(READS)
        return True
    if fault.what == EventFault.STORM:
        return fault.point.endswith(" #1") and fault.point.startswith(STORMS)
    if fault.kind is Kind.HOST:
        boots = fault.point.endswith(BOOTS)
        return boots == (fault.what in set(BootFault))
    return True
