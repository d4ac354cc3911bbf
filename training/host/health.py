"""Faults of a host's hardware, from the kernel's own messages and from what samples of the GPUs report.

NVIDIA's driver writes each error of a GPU into the kernel's log, as `NVRM: Xid (PCI:0000:00:1e): 79, ...`. FATAL and
NOTED follow NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors): an Xid is fatal here if its resolution there is
to reset or replace the GPU. Errors of programs, such as 13, 31, 43 and 45, say nothing about the hardware.
"""

import logging
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from training.host.errors import HostTrouble
from trainyard.protocol.signals import FailureKind
from trainyard.values.text import printable

KERNEL = Path("/dev/kmsg")
"""The kernel's log. Each read returns one record: `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT`."""
RECORD_BYTES = 8192
MOST_RECORDS = 4096
"""The most records that one look reads."""
MOST_SHOWN = 160
FATAL = {
    46: "the GPU has stopped processing",
    48: "an uncorrectable memory error (double-bit ECC)",
    62: "the GPU's internal controller has halted",
    64: "a damaged row of memory could not be remapped",
    74: "an error of NVLink",
    79: "the GPU has fallen off the bus",
    94: "a contained, uncorrectable memory error (ECC)",
    95: "an uncontained, uncorrectable memory error (ECC)",
    119: "the GPU's system processor does not answer",
    120: "the GPU's system processor has failed",
    140: "unrecovered memory errors (ECC)",
}
NOTED = {
    63: "a damaged row of memory will be remapped at the GPU's next reset",
    92: "many corrected memory errors (ECC)",
}
"""Errors with which a program continues. They are written into its log."""
XID = re.compile(r"NVRM: Xid \((?P<device>[^)]*)\): (?P<number>\d+)\b")
DEAD_DISK = "a disk of this host has failed"
OTHERS = (
    (
        re.compile(r"nvme (?P<part>nvme\d+): (?:Disabling device after reset|Removing after probe) failure"),
        DEAD_DISK,
    ),
    (re.compile(r"(?P<part>\S+): rejecting I/O to (?:dead|offline) device"), DEAD_DISK),
    (re.compile(r"EXT4-fs \((?P<part>(?!loop)[^)]+)\): Remounting filesystem read-only"), DEAD_DISK),
    (re.compile(r"XFS \((?P<part>(?!loop)[^)]+)\): .*(?:[Ss]hutting down|has been shut down)"), DEAD_DISK),
    (re.compile(r"nvme (?P<part>nvme\d+): controller is down"), "a disk does not answer and is reset"),
    (re.compile(r"(?:I/O|critical (?:medium|target)) error, dev (?P<part>[^\s,]+)"), "a disk fails"),
    (re.compile(r"mce: \[Hardware Error\].*Uncorrected|EDAC .*\bUE\b"), "the host's memory fails (ECC)"),
    (re.compile(r"NVRM: .*GPU has fallen off the bus"), FATAL[79]),
    (re.compile(r"ena \S+ \S+: .*[Rr]eset|Link is Down"), "the link of a network card is down or was reset"),
)
"""Messages of other parts, with what they mean. Only FATAL_WORDS end an attempt."""
FATAL_WORDS = (FATAL[79], DEAD_DISK, "the host's memory fails (ECC)")

logger = logging.getLogger(__name__)


class BrokenHardware(HostTrouble):
    """The hardware of the host has failed. The yard terminates the host and does not use it again."""

    kind = FailureKind.HARDWARE


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the hardware, as a sentence without a period."""

    reason: str
    is_fatal: bool
    subject: str = ""
    """The part and its fault, if the reason differs each time. Each subject is reported once."""


def judge(message: str) -> Fault | None:
    """Return the fault that a message of the kernel reports, or None."""
    if found := XID.search(message):
        number = int(found["number"])
        meaning = FATAL.get(number) or NOTED.get(number)
        if meaning is None:
            return None
        where = printable(found["device"], 40)
        return Fault(f"a GPU of this host ({where}) reports Xid {number}: {meaning}", number in FATAL)
    for pattern, meaning in OTHERS:
        if found := pattern.search(message):
            words = printable(message.strip(), MOST_SHOWN)
            part = found.groupdict().get("part")
            subject = f"{meaning}: {part}" if part else ""
            return Fault(f"{meaning}; the kernel reports: {words}", meaning in FATAL_WORDS, subject)
    return None


@dataclass(slots=True)
class Health:
    """The faults in the kernel's log since the machine booted, and reported ones. A look reads only new messages, and
    never waits."""

    path: Path = KERNEL
    fatal: str = ""
    """The first fatal fault; empty if there is none."""
    _log: int | None = None
    _is_silent: bool = False
    _rest: str = ""
    _noted: set[str] = field(default_factory=set)
    _reported: deque[Fault] = field(default_factory=deque)

    def report(self, fault: Fault) -> None:
        """Add a fault that the kernel's log does not have. Other threads may call this."""
        self._reported.append(fault)

    def look(self) -> tuple[str, ...]:
        """Read new messages. Return the faults that were not returned before."""
        found = [*filter(None, map(judge, self._messages()))]
        while self._reported:
            found.append(self._reported.popleft())
        new = []
        for fault in found:
            if fault.is_fatal and not self.fatal:
                self.fatal = fault.reason
            subject = fault.subject or fault.reason
            if subject not in self._noted:
                self._noted.add(subject)
                new.append(fault.reason)
        return tuple(new)

    def check(self) -> None:
        """Raise BrokenHardware if the kernel has reported a fatal fault."""
        self.look()
        if self.fatal:
            raise BrokenHardware(self.fatal)

    def _messages(self) -> Iterable[str]:
        if self._log is None and not self._is_silent:
            try:
                self._log = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                self._is_silent = True
                logger.warning("faults of the hardware are not detected: %s: %s", self.path, error.strerror)
        return () if self._log is None else self._read(self._log)

    def _read(self, log: int) -> Iterator[str]:
        for _ in range(MOST_RECORDS):
            try:
                text = os.read(log, RECORD_BYTES).decode(errors="replace")
            except BrokenPipeError:  # the kernel has overwritten the next records
                continue
            except OSError:  # no new record
                return
            if not text:
                return
            *lines, self._rest = (self._rest + text).split("\n")
            yield from (line.partition(";")[2] for line in lines if not line.startswith(" "))
