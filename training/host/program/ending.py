"""Decide how a program ended, from its exit code, the reason to leave, and its last lines. Pure."""

import re
import signal
from dataclasses import dataclass

from training.host.container import enter
from training.host.disk import Room
from training.host.program import tracebacks
from training.host.program.advice import IN_ITS_IMAGE, TOO_MANY_TASKS, advice_on
from training.host.program.exits import Exit
from training.host.program.tracebacks import AGENTS_OWN, Shown, last_line, last_shown
from trainyard.protocol.processes import FORMING, RESTART
from trainyard.protocol.signals import FailureKind, StopReason

PREEMPTED = 42
"""The exit code of TensorFlow's PreemptionCheckpointHandler after it has saved."""
KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)
LEFT_CODES = (0, RESTART, PREEMPTED, 128 + signal.SIGTERM)
"""Exit codes of programs that leave on request, whatever they print."""
PREEMPTION_MESSAGE = re.compile(r"PreemptionCheckpointHandler|received termination notice")

TAIL_BYTES = 4096
"""The end of a log that a signal contains."""

PEER_ERRORS = re.compile(
    r"^(tensorflow\.python\.framework\.errors_impl\.)?(UnavailableError|AbortedError|CancelledError)\b"
    r"|stopped sending heartbeats"
    r"|.*\bgloo\b.*(closed by peer|reset by peer|Broken pipe|timed out|Timed out)"
    r"|(torch\.distributed\.)?Dist(Backend|Network|Store)Error: .*(remote process|peer|connection|Connection|imed out)"
    r"|ncclRemoteError\b"
    r"|torch\.distributed\.elastic\.rendezvous\.api\.Rendezvous(Connection|Closed|Timeout|Graceful)\w*\b"
    r"|([\w.]*\.)?(Jax|Xla)RuntimeError: ((UNAVAILABLE|ABORTED|CANCELLED|DEADLINE_EXCEEDED)\b|.*\bGloo\b.*peer)"
)
"""Errors of TensorFlow, PyTorch, and JAX in a program without our runtime that has lost a peer of its cluster."""
DTENSOR_ERROR = re.compile(
    r"^(tensorflow\.python\.framework\.errors_impl\.)?InternalError\b.*Unable to copy tensor value for broadcast"
)
GRPC_UNAVAILABLE = re.compile(r"\bgrpc_status: ?14\b")
"""A line of TensorFlow's log about a lost connection. It precedes DTensor's error if that has lost a client."""
NCCL_LOST_CONNECTION = re.compile(
    r"^(?:\[rank\d+\]: ?)?nccl(?:System|Internal)Error: .*\n.*Last error:\s*\n.*(?:[Ss]ocket|[Cc]onnect|peer)",
    re.MULTILINE,
)
"""Errors of NCCL that may also mean a lost peer (github.com/NVIDIA/nccl/issues/795). The lines below them decide."""
ABORTS = re.compile(
    r"the JAX distributed service detected fatal errors|Watchdog caught collective operation timeout"
)
"""Messages of JAX's client and PyTorch's NCCL watchdog before they abort their process (SIGABRT), because another
process has ended or has not answered for ten minutes."""
LEAVE_REQUEST = "asking the program to leave"
"""The agent's line in the log when it sends SIGTERM. Later lines are the program's answer to that."""
CELL = re.compile(r"^(cell \[\d+\] of .+) ended with exit code \d+$", re.MULTILINE)
"""The line of a notebook's program (trainyard/notebook) that names the cell that failed."""
INTERRUPTS = re.compile(
    r"[\w.]*(Interrupt|Interrupted\w*|Exit|Terminat\w+)\b|.*\b(SIGTERM|signal:? 15)\b", re.IGNORECASE
)
"""Exceptions of programs that leave on request."""
NO_SPACE = "No space left on device"
NO_MEMORY_LEFT = "because the host had no memory left: use a larger type or a smaller batch"
MOST_AFTER = 20
"""Most of the program's own lines that may follow an exception that ended it. After more, it had been handled."""
MOST_AFTER_IN_DOUBT = 3
"""Most lines after a handled exception with which the reason still names that exception."""
SHELLS_LAST = re.compile(
    r"\S*(sh|program\.shell): (line )?\d+: .*(not found|No such file|Permission denied|cannot execute|Killed|Aborted"
    r"|Segmentation fault|Bus error)|\S*python[\d.]*: (can't open file|No module named|Error while finding)"
    r"|[\w./-]+: error: "
)
"""The last line of a shell, of Python, or of a command line parser about a command that failed."""
KILLED_CHILD = re.compile(
    r"killed by signal: Killed|terminated abruptly|BrokenProcessPool|SIGKILL|exitcode:? -9|signal 9\b",
    re.IGNORECASE,
)
"""Exceptions of torch's data loader, concurrent.futures, and joblib after a process of the program was killed."""
CHIEF_FIRST_SECONDS = 5.0
"""Time that a host other than the chief's delays a failure without advice. The first signal ends the attempt, and if
all programs failed, the chief's reason is the better one."""
FOLDERS_OF_RESULTS = {
    "model": "the folder that TRAINYARD_MODEL names",
    "metrics": "the file that TRAINYARD_METRICS names",
    "checkpoint": "the folder that TRAINYARD_CHECKPOINTS names",
}


@dataclass(frozen=True, slots=True)
class Finished:
    """The program has ended with 0."""

    but: tuple[str, ...] = ()
    """Doubts about its success, one sentence each."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The program has left, and a retry may help."""

    why: StopReason
    reason: str = ""
    """The reason if the program was killed."""


@dataclass(frozen=True, slots=True)
class Failed:
    kind: FailureKind
    reason: str
    exit_code: int | None
    final: bool = False
    advised: bool = False
    """True if the reason contains advice on the program's error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Everything that is known about a program's end. If torchrun started it, the processes below count
    (torchrun.py)."""

    code: int
    tail: str
    """The program's last lines."""
    asked: StopReason | None = None
    """Why this host has asked the program to leave; None if it has not."""
    handled_sigterm: bool = True
    """True if SIGTERM reached a handler. False if the program had none, or SIGTERM was not sent."""
    at_end: bool = False
    """True if the program had reached its last step, or written its last results."""
    killed: bool = False
    """True if the agent had to kill the program."""
    with_keeper: bool = False
    """True if the shell that watches the program was killed, too: all processes were killed, or the power failed."""
    gang: int = 1
    """The number of hosts of the attempt."""
    serves: bool = False
    """True if this host only serves the chief."""
    missing: tuple[str, ...] = ()
    """Expected results that the program has not written."""
    room: Room | None = None
    """The room on the disk of the program's home."""
    lacked: Room | None = None
    """The room on the file system that was full according to the program's error."""
    starved: bool = False
    """True if the kernel has killed processes for lack of memory meanwhile, or does not report this."""
    exited: Exit | None = None
    """The end that the program's Python process has noted."""
    background: tuple[str, ...] = ()
    """The command lines of processes that still ran."""
    at_task_limit: bool = False
    """True if the agent killed the program because it stayed at the limit of processes and threads."""
    folders_without_rights: tuple[str, ...] = ()
    """The program's folders without their owner's rights, which it has removed (folders.py)."""
    broken_hardware: str = ""
    """The fatal fault of the host's hardware; empty if there is none."""
    lost_mount: str = ""
    """Why a mounted file system with data does not answer any more; empty if all of them do."""
    changed_object: str = ""
    """The object of S3 that changed while the program read it, as a sentence; empty if there is none."""
    strict: bool = False
    """True if doubts about an end with 0 make it a failure (program.strict)."""

    @property
    def is_short(self) -> bool:
        """True if the host's disk or memory was full."""
        full = self.room is not None and self.room.is_full
        return full or (self.code == 128 + signal.SIGKILL and self.starved)

    @property
    def left_early(self) -> bool:
        """True if the program answered SIGTERM with exit code 0: it has saved, but has not finished."""
        return self.code == 0 and bool(self.asked) and self.handled_sigterm and not self.at_end

    @property
    def from_outside(self) -> bool:
        """True if the program did not end itself: the watching shell was killed, too, or several hosts train and
        another host may have caused the signal."""
        if self.code not in KILLED or self.is_short:
            return False
        return self.with_keeper or (self.gang > 1 and self.code == 128 + signal.SIGTERM)

    @property
    def lost_a_peer(self) -> bool:
        """True if the program ended because it had lost a peer on another host."""
        if self.gang == 1:
            return False
        if self.code == 128 + signal.SIGABRT and ABORTS.search(self.tail):
            return True
        if self.code == 128 + signal.SIGALRM and FORMING in self.tail:
            return True
        if DTENSOR_ERROR.search(self.exception) and GRPC_UNAVAILABLE.search(self.tail):
            return True
        block = self.shown.block if self.shown else self.tail
        return bool(NCCL_LOST_CONNECTION.search(block) or PEER_ERRORS.search(self.exception))

    @property
    def shown(self) -> Shown | None:
        """The exception that may have ended the program."""
        return ended_by(self)

    @property
    def exception(self) -> str:
        """The line of that exception; empty if there is none."""
        return self.shown.exception if self.shown else ""

    @property
    def answer(self) -> str:
        """The exception that the program printed after it was asked to leave; empty if there is none."""
        return tracebacks.last_exception(self.tail.rpartition(f"{AGENTS_OWN}{LEAVE_REQUEST}")[2])

    @property
    def left_on_request(self) -> bool:
        """True if the program left because it was asked to, with any exit code, and shows no error of its own."""
        answer = self.answer
        return bool(self.asked) and not self.is_short and (not answer or bool(INTERRUPTS.match(answer)))

    @property
    def is_whole(self) -> bool:
        """True if the program's last files are whole: it ended by itself and without an exception."""
        by_itself = self.left_on_request and not self.killed and not self.answer and self.code < 128
        return by_itself or self.code in (0, RESTART, PREEMPTED)


def waits_for_the_chief(ended: Failed, *, is_chief: bool) -> bool:
    """Return True if another host may have a better reason for the failure."""
    return ended.kind is FailureKind.PROGRAM and not (is_chief or ended.advised)


def decide(end: End) -> Finished | Stopped | Failed:
    if end.at_task_limit:
        return Failed(FailureKind.PROGRAM, TOO_MANY_TASKS, end.code, final=True, advised=True)
    if end.code == enter.FAILED and last_line(end.tail).startswith(enter.CANNOT):
        return Failed(FailureKind.HOST, last_line(end.tail).removeprefix(enter.MARK), None)
    if end.code == 0 and not end.missing and not end.left_early:
        return _describe_finish(end)
    if end.broken_hardware:
        return Failed(FailureKind.HARDWARE, end.broken_hardware, None)
    if end.changed_object and end.asked is None:
        return Failed(FailureKind.PROGRAM, end.changed_object, end.code, final=True, advised=True)
    if end.lost_mount and end.asked in (None, StopReason.HANGS):
        return Stopped(StopReason.HANGS, end.lost_mount)
    if end.asked and (end.serves or end.killed or end.code in LEFT_CODES or end.left_on_request):
        return Stopped(end.asked)
    if end.code == 0:
        return Failed(FailureKind.PROGRAM, missing_results_reason(end.missing), 0)
    if end.code == RESTART:
        return Stopped(StopReason.PEER)
    if end.from_outside:
        return Stopped(StopReason.KILLED, why(end))
    if end.lost_a_peer:
        return Stopped(end.asked or StopReason.PEER)
    if end.gang > 1 and end.code == PREEMPTED and PREEMPTION_MESSAGE.search(end.tail):
        return Stopped(StopReason.PEER)
    return Failed(FailureKind.PROGRAM, why(end), end.code, advised=_advice(end) is not None)


def _describe_finish(end: End) -> Finished | Failed:
    but = doubts(end)
    if but and end.strict:
        return Failed(
            FailureKind.PROGRAM, f"the program ended with 0, but {'; '.join(but)} (program.strict)", 0
        )
    return Finished(but)


def doubts(end: End) -> tuple[str, ...]:
    """Return doubts about an end with 0, each as the end of a sentence `succeeded, but ...`."""
    found = []
    shown, caught = end.shown, end.exited is not None and end.exited.exception is None
    if shown and shown.is_last and caught:
        found.append(f"its last lines are an exception that the program itself caught ({shown.exception})")
    elif shown and shown.is_last:
        found.append(
            f"its last lines are an uncaught exception ({shown.exception}), whose exit code was hidden: run the lines "
            "with program.shell, which ends with the first command that fails, even inside a pipe"
        )
    elif SHELLS_LAST.match(last_line(end.tail)):
        found.append(
            f"its last line is an error ({last_line(end.tail)}), whose exit code was hidden: run the lines with "
            "program.shell, which ends with the first command that fails, even inside a pipe"
        )
    if end.background:
        count = len(end.background)
        still = (
            "1 of its processes still ran and was"
            if count == 1
            else f"{count} of its processes still ran and were"
        )
        found.append(
            f"{still} killed ({end.background[0]}): run the program in the foreground, without & and nohup"
        )
    return tuple(found)


def ended_by(end: End) -> Shown | None:
    """Return the exception that may have ended the program: the one that its Python process noted, otherwise the last
    one in its output. An exception that many lines follow had been handled."""
    if end.exited and end.exited.exception:
        return tracebacks.format_as_printed(end.exited.exception)
    shown = last_shown(end.tail)
    if shown is None or end.code > 128:  # libraries in C++ print a stack before they abort
        return shown
    most_after = 0 if end.exited and not _cell(end.tail) else MOST_AFTER
    return shown if len(shown.after) <= most_after else None


def up_to_its_cell(tail: str) -> str:
    """Cut the last lines of a notebook's program after the line that names the failed cell. The kernel's later output
    is not the reason. Return other last lines unchanged."""
    found = _cell(tail)
    return tail[: found.end()] if found else tail


def missing_results_reason(missing: tuple[str, ...]) -> str:
    """Return the reason for a program that ended with 0 but lacks expected results."""
    where = "; ".join(f"write {word} into {FOLDERS_OF_RESULTS[word]}" for word in missing)
    return f"the program ended with 0, but left no {' and no '.join(missing)}, which program.expect requires: {where}"


def why(end: End) -> str:
    """Return one sentence with the reason of the end (the exception, or the exit code) and advice."""
    if end.lacked:
        return f"{end.lacked.advice_on_error}; {describe_end(end)}"
    if end.room and end.room.is_full:
        return f"{end.room.advice}; {describe_end(end)}"
    if end.code == 128 + signal.SIGKILL and end.starved:
        return f"the program was killed (SIGKILL) {NO_MEMORY_LEFT}"
    advice = _advice(end)
    return f"{describe_end(end)}; {advice}" if advice else describe_end(end)


def _advice(end: End) -> str | None:
    """Return advice on an exception that certainly ended the program, or on one that could not start in its image."""
    if end.code in (enter.NOT_EXECUTABLE, enter.NOT_FOUND) and last_line(end.tail).startswith(enter.MARK):
        return IN_ITS_IMAGE
    shown = end.shown
    if shown is None or not shown.is_last or NO_SPACE in shown.exception:
        return None
    if end.starved and KILLED_CHILD.search(shown.block):
        return f"the kernel killed that process {NO_MEMORY_LEFT}"
    return advice_on(shown.block)


def in_cell(tail: str, exception: str) -> str:
    """Return the exception, preceded by the notebook's cell if there is one."""
    found = _cell(tail)
    return f"{found[1]}: {exception}" if found and exception else exception


def _cell(tail: str) -> re.Match[str] | None:
    """Find the last line about a failed cell, because cells may print such lines, too."""
    return next(reversed(list(CELL.finditer(tail))), None)


def describe_end(end: End) -> str:
    """Describe the end by its exit code and last lines."""
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
        shown += f" (before that, the program printed {before.exception})"
    return f"the program ended with exit code {end.code} and printed no exception{shown}"


def _sender(end: End) -> str:
    """Return the possible sender of the signal that ended the program, as the end of a sentence."""
    number = end.code - 128
    if number == signal.SIGALRM:
        return ", an alarm that it had set itself"
    if number not in (signal.SIGKILL, signal.SIGTERM):
        return ""
    if end.with_keeper:
        return " together with all its processes, but not by this host's agent"
    return ", which neither this host's agent nor the kernel (for lack of memory) sent: the program or a user sent it"


def last_lines(text: bytes, most: int = TAIL_BYTES) -> str:
    """Return the last whole lines of a log that fit into `most` bytes of UTF-8, or the end of one huge line."""
    if len(text) > most:
        cut = text[-most:]
        _, newline, rest = cut.partition(b"\n")
        text = rest if newline and rest else cut
    tail = text.decode("utf-8", errors="replace")
    while len(tail.encode()) > most:  # replacement characters are longer than the bytes they stand for
        tail = tail[len(tail) // 16 + 1 :]
    return tail
