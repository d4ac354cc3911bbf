"""What a program's end means. Pure: exit code, who asked it to leave, and its last lines in; the signal out."""

import re
import signal
from dataclasses import dataclass

from training.host.disk import Room
from training.host.program import tracebacks
from training.host.program.advice import TOO_MANY_TASKS, advice_on
from training.host.program.exits import Exit
from training.host.program.tracebacks import AGENTS_OWN, Shown, last_line, last_shown
from trainyard.protocol.processes import FORMING, RESTART
from trainyard.protocol.signals import FailureKind, StopReason

PREEMPTED = 42
"""How TensorFlow's PreemptionCheckpointHandler leaves once it has saved."""
KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)
LEFT = (0, RESTART, PREEMPTED, 128 + signal.SIGTERM)
"""How a program ends that does as it is told, whatever it says meanwhile."""
PREEMPTION_NEWS = re.compile(r"PreemptionCheckpointHandler|received termination notice")

TAIL_BYTES = 4096
"""What of a log goes into a signal."""

PEER_ERRORS = re.compile(
    r"^(tensorflow\.python\.framework\.errors_impl\.)?(UnavailableError|AbortedError|CancelledError)\b"
    r"|stopped sending heartbeats"
    r"|.*\bgloo\b.*(closed by peer|reset by peer|Broken pipe|timed out|Timed out)"
    r"|(torch\.distributed\.)?Dist(Backend|Network|Store)Error: .*(remote process|peer|connection|Connection|imed out)"
    r"|ncclRemoteError\b"
    r"|torch\.distributed\.elastic\.rendezvous\.api\.Rendezvous(Connection|Closed|Timeout|Graceful)\w*\b"
    r"|([\w.]*\.)?(Jax|Xla)RuntimeError: ((UNAVAILABLE|ABORTED|CANCELLED|DEADLINE_EXCEEDED)\b|.*\bGloo\b.*peer)"
)
"""How a program that does not use our runtime dies when a peer of its cluster is gone: TensorFlow, PyTorch, JAX."""
NCCL_LOST_CONNECTION = re.compile(
    r"^(?:\[rank\d+\]: ?)?nccl(?:System|Internal)Error: .*\n.*Last error:\s*\n.*(?:[Ss]ocket|[Cc]onnect|peer)",
    re.MULTILINE,
)
"""What NCCL may call the loss of a peer, too (github.com/NVIDIA/nccl/issues/795): only what stands below tells."""
ABORTS = re.compile(
    r"the JAX distributed service detected fatal errors|Watchdog caught collective operation timeout"
)
"""What JAX's client and PyTorch's watchdog of NCCL say before they end their process (SIGABRT) because another one is
gone, or has not answered for ten minutes."""
ASKING = "asking the program to leave"
"""The agent's line in the log after which all that the program says is its answer."""
CELL = re.compile(r"^(cell \[\d+\] of .+) ended with exit code \d+$", re.MULTILINE)
"""A line of a notebook's program (trainyard/notebook): which cell it did not come past."""
INTERRUPTS = re.compile(
    r"[\w.]*(Interrupt|Interrupted\w*|Exit|Terminat\w+)\b|.*\b(SIGTERM|signal:? 15)\b", re.IGNORECASE
)
"""The exceptions by which programs leave when they are told to."""
NO_SPACE = "No space left on device"
MOST_AFTER = 20
"""Lines of the program's own that may follow an exception as it ends; after more, the exception had been handled."""
MOST_AFTER_IN_DOUBT = 3
"""Lines behind an exception that was handled, for it to be named beside the last line."""
SHELLS_LAST = re.compile(
    r"\S*(sh|program\.shell): (line )?\d+: .*(not found|No such file|Permission denied|cannot execute|Killed|Aborted"
    r"|Segmentation fault|Bus error)|\S*python[\d.]*: (can't open file|No module named|Error while finding)"
    r"|[\w./-]+: error: "
)
"""A shell's, Python's or a command line parser's last line about a command that failed."""
KILLED_CHILD = re.compile(
    r"killed by signal: Killed|terminated abruptly|BrokenProcessPool|SIGKILL|exitcode:? -9|signal 9\b",
    re.IGNORECASE,
)
"""How exceptions tell that a process of the program was killed: torch's data loader, concurrent.futures, joblib."""
CHIEF_FIRST_SECONDS = 5.0
"""How long another host than the chief's waits with a failure of its program that nobody knows advice about: the first
word ends the attempt, and where all failed the chief's is to be heard."""
LEAVE_IT_IN = {
    "model": "the folder that TRAINYARD_MODEL names",
    "metrics": "the file that TRAINYARD_METRICS names",
    "checkpoint": "the folder that TRAINYARD_CHECKPOINTS names",
}


@dataclass(frozen=True, slots=True)
class Finished:
    """`but`: what speaks against it, a sentence each, though the exit code is 0."""

    but: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopped:
    """The program has left, and a retry may help."""

    why: StopReason
    said: str = ""
    """What is known about a program that was killed."""


@dataclass(frozen=True, slots=True)
class Failed:
    kind: FailureKind
    reason: str
    exit_code: int | None
    final: bool = False
    advised: bool = False
    """What to do about the program's error is known, and part of the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The facts of one end: the program's own, also where torchrun stands between (torchrun.py)."""

    code: int
    tail: str
    """The program's last lines."""
    asked: StopReason | None = None
    """Why this host has asked the program to leave, if it has."""
    handled_sigterm: bool = True
    """SIGTERM reached a handler: a program without one would have ended by it. False too if it was not sent."""
    at_end: bool = False
    """The program had come to its last step, or written the last of its results."""
    killed: bool = False
    """The agent had to kill it."""
    with_keeper: bool = False
    """The shell that watches the program was killed too: all processes were, or the host was without power."""
    gang: int = 1
    """How many hosts the attempt has."""
    serves: bool = False
    """This host only serves the chief."""
    missing: tuple[str, ...] = ()
    """Results that the job expects and the program has not left."""
    room: Room | None = None
    """On the disk of the program's home."""
    lacked: Room | None = None
    """On the file system of which the program's error says that it had no room."""
    starved: bool = False
    """The kernel killed for want of memory meanwhile, or does not say."""
    exited: Exit | None = None
    """How the program's Python process says that it ended."""
    background: tuple[str, ...] = ()
    """Processes that still ran, by their command lines."""
    at_task_limit: bool = False
    """The agent killed it because it stayed at the most processes and threads that a host lets a program run."""
    rights_taken: tuple[str, ...] = ()
    """Folders that a host gave the program, without their owner's rights (folders.py)."""
    strict: bool = False
    """The job wants what speaks against an end with 0 to be a failure."""

    @property
    def is_short(self) -> bool:
        """Whether the host had no room for it, on its disk or in its memory."""
        full = self.room is not None and self.room.is_full
        return full or (self.code == 128 + signal.SIGKILL and self.starved)

    @property
    def left_early(self) -> bool:
        """Return True for an exit code of 0 that is the answer to SIGTERM: the program saved, and is not at its end."""
        return self.code == 0 and bool(self.asked) and self.handled_sigterm and not self.at_end

    @property
    def from_outside(self) -> bool:
        """Return True if something else than the program ended it: it took the watching shell along, or several hosts
        train, where a signal may be another host's doing."""
        if self.code not in KILLED or self.is_short:
            return False
        return self.with_keeper or (self.gang > 1 and self.code == 128 + signal.SIGTERM)

    @property
    def lost_a_peer(self) -> bool:
        """Whether it ended because another host's part of it had gone."""
        if self.gang == 1:
            return False
        if self.code == 128 + signal.SIGABRT and ABORTS.search(self.tail):
            return True
        if self.code == 128 + signal.SIGALRM and FORMING in self.tail:
            return True
        block = self.shown.block if self.shown else self.tail
        return bool(NCCL_LOST_CONNECTION.search(block) or PEER_ERRORS.search(self.exception))

    @property
    def shown(self) -> Shown | None:
        """The exception that may have ended it."""
        return ended_by(self)

    @property
    def exception(self) -> str:
        """Its line; empty when there is none."""
        return self.shown.exception if self.shown else ""

    @property
    def answer(self) -> str:
        """The exception that it showed once it was asked to leave; empty when there is none."""
        return tracebacks.last_exception(self.tail.rpartition(f"{AGENTS_OWN}{ASKING}")[2])

    @property
    def left_as_told(self) -> bool:
        """Whether it left since it was told to, with whatever exit code: it shows no trouble of its own."""
        answer = self.answer
        return bool(self.asked) and not self.is_short and (not answer or bool(INTERRUPTS.match(answer)))

    @property
    def is_whole(self) -> bool:
        """Whether what it wrote last is whole: it went by itself, and through no exception."""
        by_itself = self.left_as_told and not self.killed and not self.answer and self.code < 128
        return by_itself or self.code in (0, RESTART, PREEMPTED)


def waits_for_the_chief(ended: Failed, *, is_chief: bool) -> bool:
    """Whether others than this host may know more of what went wrong."""
    return ended.kind is FailureKind.PROGRAM and not (is_chief or ended.advised)


def decide(end: End) -> Finished | Stopped | Failed:
    if end.at_task_limit:
        return Failed(FailureKind.PROGRAM, TOO_MANY_TASKS, end.code, final=True, advised=True)
    if end.code == 0 and not end.missing and not end.left_early:
        return _finished(end)
    if end.asked and (end.serves or end.killed or end.code in LEFT or end.left_as_told):
        return Stopped(end.asked)
    if end.code == 0:
        return Failed(FailureKind.PROGRAM, nothing_left(end.missing), 0)
    if end.code == RESTART:
        return Stopped(StopReason.PEER)
    if end.from_outside:
        return Stopped(StopReason.KILLED, why(end))
    if end.lost_a_peer:
        return Stopped(end.asked or StopReason.PEER)
    if end.gang > 1 and end.code == PREEMPTED and PREEMPTION_NEWS.search(end.tail):
        return Stopped(StopReason.PEER)
    return Failed(FailureKind.PROGRAM, why(end), end.code, advised=_advice(end) is not None)


def _finished(end: End) -> Finished | Failed:
    but = doubts(end)
    if but and end.strict:
        return Failed(
            FailureKind.PROGRAM, f"the program ended with 0, but {'; '.join(but)} (program.strict)", 0
        )
    return Finished(but)


def doubts(end: End) -> tuple[str, ...]:
    """Return what speaks against an end with 0, each as the end of `succeeded, but ...`."""
    found = []
    shown, caught = end.shown, end.exited is not None and end.exited.exception is None
    if shown and shown.is_last and caught:
        found.append(f"its last lines are an exception that the program itself caught ({shown.exception})")
    elif shown and shown.is_last:
        found.append(
            f"its last lines are an uncaught exception ({shown.exception}), whose exit code was hidden: run the lines "
            "by program.shell, which ends with the first command that fails, also inside a pipe"
        )
    elif SHELLS_LAST.match(last_line(end.tail)):
        found.append(
            f"its last line is an error ({last_line(end.tail)}), whose exit code was hidden: run the lines by "
            "program.shell, which ends with the first command that fails, also inside a pipe"
        )
    if end.background:
        count = len(end.background)
        still = (
            "1 process of it still ran and was"
            if count == 1
            else f"{count} processes of it still ran and were"
        )
        found.append(
            f"{still} killed ({end.background[0]}): run the program in the foreground, without & and nohup"
        )
    return tuple(found)


def ended_by(end: End) -> Shown | None:
    """Return the exception that may have ended the program: the one that its Python process noted, else the last that
    its output shows, unless so much follows that it had been handled."""
    if end.exited and end.exited.exception:
        return tracebacks.as_printed(end.exited.exception)
    shown = last_shown(end.tail)
    if shown is None or end.code > 128:  # libraries in C++ print a stack before they abort
        return shown
    most_after = 0 if end.exited and not _cell(end.tail) else MOST_AFTER
    return shown if len(shown.after) <= most_after else None


def up_to_its_cell(tail: str) -> str:
    """The last lines of a notebook's program until it says which cell has failed; any other's as they are. What a
    kernel shows as it leaves is not why."""
    found = _cell(tail)
    return tail[: found.end()] if found else tail


def nothing_left(missing: tuple[str, ...]) -> str:
    """For an end with 0 that is none."""
    where = "; ".join(f"a {word} belongs into {LEAVE_IT_IN[word]}" for word in missing)
    return f"the program ended with 0 but left no {' and no '.join(missing)}, which program.expect asks for: {where}"


def why(end: End) -> str:
    """Say in one sentence why the program ended: the exception if one ended it, else what the exit code says; then what
    to do."""
    if end.lacked:
        return f"{end.lacked.advice_on_error}; {ended(end)}"
    if end.room and end.room.is_full:
        return f"{end.room.advice}; {ended(end)}"
    if end.code == 128 + signal.SIGKILL and end.starved:
        return "the program was killed (SIGKILL) when the host had no memory left: use a larger type or a smaller batch"
    advice = _advice(end)
    return f"{ended(end)}; {advice}" if advice else ended(end)


def _advice(end: End) -> str | None:
    """What to do about the exception that has certainly ended the program."""
    shown = end.shown
    if shown is None or not shown.is_last or NO_SPACE in shown.exception:
        return None
    if end.starved and KILLED_CHILD.search(shown.block):
        return "the kernel killed that process when the host had no memory left: use a larger type or a smaller batch"
    return advice_on(shown.block)


def in_cell(tail: str, exception: str) -> str:
    """The exception with the cell of a notebook that showed it, before it."""
    found = _cell(tail)
    return f"{found[1]}: {exception}" if found and exception else exception


def _cell(tail: str) -> re.Match[str] | None:
    """The last, since cells may print such lines too."""
    return next(reversed(list(CELL.finditer(tail))), None)


def ended(end: End) -> str:
    """Say what the exit code and the last lines show."""
    exception = in_cell(end.tail, end.exception)
    line = last_line(end.tail)
    shown = f"; its last line: {line}" if line else ""
    if end.code > 128 and end.code - 128 in {number.value for number in signal.Signals}:
        by = f"the program was ended by {signal.Signals(end.code - 128).name}{_sender(end)}"
        return f"{by} after: {exception}" if exception else f"{by}{shown}"
    if exception:
        return f"the program ended with exit code {end.code}: {exception}"
    before = last_shown(end.tail)
    if before and len(before.after) <= MOST_AFTER_IN_DOUBT:
        shown += f" (before it, the program showed {before.exception})"
    return f"the program ended with exit code {end.code} and showed no exception{shown}"


def _sender(end: End) -> str:
    """Who may have sent the signal that ended the program."""
    number = end.code - 128
    if number == signal.SIGALRM:
        return ", which is an alarm that it had set itself"
    if number not in (signal.SIGKILL, signal.SIGTERM):
        return ""
    if end.with_keeper:
        return " together with all its processes, by something else than this host's agent"
    return ", which neither this host's agent sent nor the kernel for want of memory: it did so itself, or a person"


def last_lines(text: bytes, most: int = TAIL_BYTES) -> str:
    """The last whole lines of a log that fit into `most` bytes of UTF-8; of one huge line, its end."""
    if len(text) > most:
        cut = text[-most:]
        _, newline, rest = cut.partition(b"\n")
        text = rest if newline and rest else cut
    tail = text.decode("utf-8", errors="replace")
    while len(tail.encode()) > most:  # replacement characters are longer than the bytes they stand for
        tail = tail[len(tail) // 16 + 1 :]
    return tail
