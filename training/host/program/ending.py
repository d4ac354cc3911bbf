"""What a program's end means. Pure: exit code, who asked it to leave, and its last lines in; the signal out."""

import re
import signal
from dataclasses import dataclass

from training.host.disk import Room
from training.host.program.advice import advice_on

RESTART = 75
"""EX_TEMPFAIL: restart me, I have checkpointed or a peer is gone."""
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
LAST_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]: ?)?([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Iteration)\b.*)$", re.MULTILINE
)
NAMES_NODE = re.compile(r"^[ \t]*\[\[\{\{node ", re.MULTILINE)
"""TensorFlow names the operation that failed, after what it has to say of it."""
PLACE = re.compile(r"File \"|Detected at node|node |Stack trace|\d+ (successful|root|derived) |<stack traces")
"""Lines between an exception and its reason."""
ROOT_ERROR = re.compile(r"^\(\d+\) [A-Z_]+: +")
SAYS_NOTHING = re.compile(r"(Graph execution error|Exception encountered when calling .*)[:.]*\s*$|:\s*$")
"""How an exception's line ends that tells no reason: it stands below."""
AGENTS_OWN = "[trainyard] "
"""How the agent's own lines in the program's log begin."""
ASKING = "asking the program to leave"
"""The agent's line in the log after which all that the program says is its answer."""
CELL = re.compile(r"^(cell \[\d+\] of .+) ended with exit code \d+$", re.MULTILINE)
"""A line of a notebook's program (trainyard/notebook): which cell it did not come past."""
INTERRUPTS = re.compile(
    r"[\w.]*(Interrupt|Interrupted\w*|Exit|Terminat\w+)\b|.*\b(SIGTERM|signal:? 15)\b", re.IGNORECASE
)
"""The exceptions by which programs leave when they are told to."""
REASON_CHARACTERS = 400
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
    pass


@dataclass(frozen=True, slots=True)
class Stopped:
    """`why`: interrupted (this host is going away), asked (told to), limit (the run's hours or dollars are used up),
    peer (another host left or failed), killed (somebody else than this agent ended the program with a signal) or hangs
    (the program showed no sign of life)."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    kind: str
    reason: str
    exit_code: int | None
    final: bool = False
    advised: bool = False
    """What to do about the program's error is known, and part of the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The facts of one end: the program's own, also where torchrun stands between (torchrun.py).

    `asked`: interrupted, asked, limit or hangs, if this host told the program to leave; `killed`: it had to be killed
    for it; `tail`: the program's last lines; `gang`: how many hosts the attempt has; `serves`: this one only serves the
    chief;
    `missing`: results that the job expects and the program has not left; `room`: on the host's disk; `starved`: the
    kernel killed for want of memory meanwhile, or does not say.
    """

    code: int
    tail: str
    asked: str | None = None
    killed: bool = False
    gang: int = 1
    serves: bool = False
    missing: tuple[str, ...] = ()
    room: Room | None = None
    starved: bool = False

    @property
    def is_short(self) -> bool:
        """Whether the host had no room for it, on its disk or in its memory."""
        full = self.room is not None and self.room.is_full
        return full or (self.code == 128 + signal.SIGKILL and self.starved)

    @property
    def from_outside(self) -> bool:
        """Whether somebody on the host ended the program, through no fault of its own."""
        return self.code in KILLED and not self.starved and not self.is_short

    @property
    def lost_a_peer(self) -> bool:
        """Whether it ended because another host's part of it had gone."""
        if self.gang == 1:
            return False
        if self.code == 128 + signal.SIGABRT and ABORTS.search(self.tail):
            return True
        below = NCCL_LOST_CONNECTION.search(since_last_exception(self.tail))
        return bool(below or PEER_ERRORS.search(last_exception(self.tail)))

    @property
    def answer(self) -> str:
        """The exception that it showed once it was asked to leave; empty when there is none."""
        return last_exception(self.tail.rpartition(f"{AGENTS_OWN}{ASKING}")[2])

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
    return ended.kind == "program" and not (is_chief or ended.advised)


def decide(end: End) -> Finished | Stopped | Failed:
    if end.code == 0 and not end.missing:
        return Finished()
    if end.asked and (end.serves or end.killed or end.code in LEFT or end.left_as_told):
        return Stopped(end.asked)
    if end.code == 0:
        return Failed("program", nothing_left(end.missing), 0)
    if end.code in (RESTART, 128 + signal.SIGALRM):  # the alarm: a peer vanished while the cluster formed
        return Stopped("peer")
    if end.from_outside:
        return Stopped("killed")
    if end.lost_a_peer:
        return Stopped(end.asked or "peer")
    if end.gang > 1 and end.code == PREEMPTED and PREEMPTION_NEWS.search(end.tail):
        return Stopped("peer")
    advised = advice_on(since_last_exception(end.tail)) is not None
    return Failed("program", why(end), end.code, advised=advised)


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
    """One sentence: the exception if the program showed one, else what the exit code says; then what to do."""
    exception = last_exception(end.tail)
    if "No space left on device" in exception or (end.room and end.room.is_full):
        full = end.room.advice if end.room else "the host's disk is full"
        return f"{full}; {ended(end.code, exception, '')}"
    if end.code == 128 + signal.SIGKILL:
        return "the program was killed (SIGKILL) when the host had no memory left: use a larger type or a smaller batch"
    reason = ended(end.code, in_cell(end.tail, exception), last_line(end.tail))
    advice = advice_on(since_last_exception(end.tail))
    return f"{reason}; {advice}" if advice else reason


def in_cell(tail: str, exception: str) -> str:
    """The exception with the cell of a notebook that showed it, before it."""
    found = _cell(tail)
    return f"{found[1]}: {exception}" if found and exception else exception


def _cell(tail: str) -> re.Match[str] | None:
    """The last, since cells may print such lines too."""
    return next(reversed(list(CELL.finditer(tail))), None)


def ended(code: int, exception: str, line: str) -> str:
    if code > 128 and code - 128 in {number.value for number in signal.Signals}:
        by = f"the program was ended by {signal.Signals(code - 128).name}"
        return f"{by} after: {exception}" if exception else by
    if exception:
        return f"the program ended with exit code {code}: {exception}"
    shown = f"; its last line: {line}" if line else ""
    return f"the program ended with exit code {code} and showed no exception{shown}"


def last_exception(tail: str) -> str:
    """The last line that names an exception, shortened, with the reason from below where it tells none itself; empty
    when there is none."""
    found = list(LAST_EXCEPTION.finditer(tail))
    if not found:
        return ""
    line = found[-1][1].strip()
    below = said_below(tail[found[-1].end() :]) if SAYS_NOTHING.search(line) else ""
    return (f"{line.rstrip(':. ')}: {below}" if below else line)[:REASON_CHARACTERS]


def said_below(text: str) -> str:
    """What TensorFlow says of an operation that failed: the lines before that which names its node, else the first line
    that is no place in a file."""
    node = NAMES_NODE.search(text)
    lines = [line.strip() for line in text[: node.start() if node else None].splitlines()]
    told = [line for line in lines if line and not PLACE.match(line) and not line.startswith(AGENTS_OWN)]
    return ROOT_ERROR.sub("", told[-1] if node else told[0]) if told else ""


def since_last_exception(tail: str) -> str:
    """From the line that names it on: TensorFlow says the cause below. Everything when there is none."""
    found = list(LAST_EXCEPTION.finditer(tail))
    return tail[found[-1].start() :] if found else tail


def last_line(tail: str) -> str:
    """The program's last words where it named no exception: what a SystemExit or a command line parser says."""
    lines = (line.strip() for line in reversed(tail.splitlines()))
    own = (line for line in lines if line and not line.startswith(AGENTS_OWN))
    return next(own, "")[:REASON_CHARACTERS]


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
