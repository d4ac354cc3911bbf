"""What a program's end means. Pure: exit code, who asked it to leave, and its last lines in; the signal out."""

import re
import signal
from dataclasses import dataclass

RESTART = 75
"""EX_TEMPFAIL: restart me, I have checkpointed or a peer is gone."""

TAIL_BYTES = 4096
"""What of a log goes into a signal."""

PEER_ERRORS = re.compile(
    r"^(tensorflow\.python\.framework\.errors_impl\.)?(UnavailableError|AbortedError|CancelledError)\b",
    re.MULTILINE,
)
"""How a program that does not use our runtime dies when a peer of its cluster is gone."""
LAST_EXCEPTION = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Iteration)\b.*)$", re.MULTILINE
)
REASON_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Finished:
    pass


@dataclass(frozen=True, slots=True)
class Stopped:
    """`why`: interrupted (this host is going away), asked (told to) or peer (another host left or failed)."""

    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    kind: str
    reason: str
    exit_code: int | None
    final: bool = False


def judge(code: int, *, asked: str | None, killed: bool, tail: str, gang: int) -> Finished | Stopped | Failed:
    """`asked`: interrupted or asked, if this host told the program to leave; `killed`: it had to be killed for it."""
    if code == 0:
        return Finished()
    if asked and (code in (RESTART, 128 + signal.SIGTERM) or killed):
        return Stopped(asked)
    if code in (RESTART, 128 + signal.SIGALRM):  # the alarm: a peer vanished while the cluster formed
        return Stopped("peer")
    if gang > 1 and PEER_ERRORS.search(last_exception(tail)):
        return Stopped("peer")
    return Failed("program", why(code, tail), code)


def why(code: int, tail: str) -> str:
    """One sentence: the exception if the program showed one, else what the exit code says."""
    if code == 128 + signal.SIGKILL:
        return (
            "the program was killed (SIGKILL), most likely for memory: use a larger type or a smaller batch"
        )
    said = last_exception(tail)
    if "No space left on device" in said:
        return f"the host's disk is full: {said}"
    if code > 128 and code - 128 in {number.value for number in signal.Signals}:
        return f"the program was ended by {signal.Signals(code - 128).name}" + (
            f" after: {said}" if said else ""
        )
    return f"the program ended with exit code {code}" + (f": {said}" if said else " and showed no exception")


def last_exception(tail: str) -> str:
    """The last line that names an exception, shortened; empty when there is none."""
    found = LAST_EXCEPTION.findall(tail)
    return found[-1].strip()[:REASON_CHARACTERS] if found else ""


def last_lines(text: bytes, most: int = TAIL_BYTES) -> str:
    """The last whole lines of a log that fit into `most` bytes of UTF-8; of one huge line, its end."""
    if len(text) > most:
        cut = text[-most:]
        _, newline, rest = cut.partition(b"\n")
        text = rest if newline and rest else cut
    said = text.decode("utf-8", errors="replace")
    while len(said.encode()) > most:  # replacement characters are longer than the bytes they stand for
        said = said[len(said) // 16 + 1 :]
    return said
