"""Find the last exception in a program's output, and the lines after it. Pure.

A line counts as an exception if a traceback stands above it, or if it has the name of one of Python's own exceptions or
a dotted name. `MeanAbsoluteError: 0.31` is a metric.
"""

import builtins
import re
from dataclasses import dataclass

from training.host.disk import SHARED_MEMORY

AGENTS_OWN = "[trainyard] "
"""Prefix of the agent's own lines in the program's log."""
MOST_CHARACTERS = 400
MARGIN = re.compile(r"^(?:\[[A-Za-z]+\d+\]: ?)?(?: *[|+] ?(?:[+|-]+ ?)*)?")
"""Text that torch prints before a rank's lines, and Python before the lines of a group of exceptions."""
HEADER = re.compile(r"Traceback \(most recent call last\):$")
FRAME = re.compile(r'\s+File "[^"]+", line \d+')
NAMED = re.compile(r"([A-Za-z_][\w.]*)(?::(?: (.*)|$)|$)")
"""A line that may name an exception: its class, and its message."""
NUMBER = re.compile(r"[-+]?(\d|nan\b|inf\b)", re.IGNORECASE)
ENDS_LIKE_ONE = re.compile(r"(Error|Exception|Interrupt|Exit|Iteration)$")
GROUP = re.compile(r"\(\d+ sub-exceptions?\)$")
OF_PYTHON = frozenset(
    name
    for name, each in vars(builtins).items()
    if isinstance(each, type) and issubclass(each, BaseException)
)
OF_NCCL = re.compile(r"nccl\w+Error$")
NAMES_NODE = re.compile(r"^[ \t]*\[\[\{\{node ", re.MULTILINE)
"""TensorFlow's line about the operation that failed, which follows the reason."""
LOCATION = re.compile(
    r"File \"|Detected at node|node |Stack trace|\d+ (successful|root|derived) |<stack traces"
)
"""Lines between an exception and its reason."""
ROOT_ERROR = re.compile(r"^\(\d+\) [A-Z_]+: +")
NO_REASON = re.compile(r"(Graph execution error|Exception encountered when calling .*)[:.]*\s*$|:\s*$")
"""Ends of an exception's line without a reason, which then stands below."""
NOISE = re.compile(
    r"this program ended with |cell \[\d+\] of .* ended with exit code |wandb: |Exception ignored in|sys:\d+: "
    r"|Set the environment variable HYDRA_FULL_ERROR|"
    r"\S*resource_tracker|(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: )?[IWEF]\d{0,4} |\[W\d"
    r"|frame #\d+: |#\d+ |Exception raised from |C\+\+ CapturedTraceback"
    r"|During handling of the above|The above exception was the direct cause"
    r"|For debugging consider passing CUDA_LAUNCH_BLOCKING|Compile with `TORCH_USE"
)
"""Lines that follow an uncaught exception as Python and frameworks end."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An exception in a program's output."""

    exception: str
    """Its line, shortened. If the line has no reason, the reason from below follows."""
    block: str
    """The text from that line to the last line of its message."""
    after: tuple[str, ...] = ()
    """The program's own lines after it, without the noise of its end."""

    @property
    def is_last(self) -> bool:
        """Return True if the program printed nothing of its own afterwards."""
        return not self.after


def last_shown(text: str) -> Shown | None:
    """Return the last exception that the text shows; None if it shows none."""
    lines = text.splitlines()
    for index in range(len(lines) - 1, -1, -1):
        if _names_one(lines, index):
            return _parse_exception(lines, index)
    return None


def last_exception(text: str) -> str:
    """Return the line of the last exception; empty if the text shows none."""
    found = last_shown(text)
    return found.exception if found else ""


def last_line(text: str) -> str:
    """Return the program's last line, shortened: the message of a SystemExit or of a command line parser."""
    return next(reversed(own_lines(text.splitlines())), "")[:MOST_CHARACTERS]


def own_lines(lines: list[str]) -> list[str]:
    """Return the program's own lines that are not empty."""
    return [line.strip() for line in lines if line.strip() and not line.startswith(AGENTS_OWN)]


def _bare(line: str) -> str:
    return MARGIN.sub("", line, count=1)


def _names_one(lines: list[str], index: int) -> bool:
    line = _bare(lines[index]).rstrip()
    found = NAMED.match(line)
    if found is None or line.startswith(("During handling", "The above exception")):
        return False
    if _has_frames_above(lines, index):
        return True
    name, message = found[1], found[2] or ""
    if "." in name:
        return bool(ENDS_LIKE_ONE.search(name)) and not NUMBER.match(message)
    return name in OF_PYTHON or bool(OF_NCCL.match(name))


def _has_frames_above(lines: list[str], index: int) -> bool:
    """Return True if the lines right above belong to a traceback: indented, with a frame among them."""
    for above in range(index - 1, -1, -1):
        line = _bare(lines[above])
        if FRAME.match(line):
            return True
        if HEADER.search(line):
            return True
        if line.strip() and not line.startswith((" ", "\t")):
            return False
    return False


def _parse_exception(lines: list[str], index: int) -> Shown:
    """Parse the lines from the exception on: a group's exceptions, TensorFlow's lines, then the program's own."""
    line, rest = _bare(lines[index]).strip(), lines[index + 1 :]
    index, line = _whole_group(lines, index, line)
    text = "\n".join(map(_bare, rest))
    has_more = bool(NO_REASON.search(line)) or bool(NAMES_NODE.search(text))
    behind = () if has_more else own_lines(_without_message(rest))
    after = tuple(each for each in behind if not _is_noise(each))
    return Shown(add_reason(line, text), f"{line}\n{text}", after)


def format_as_printed(exception: str) -> Shown:
    """Return the exception that Python has printed as this text. A SyntaxError begins with its indented location."""
    lines = exception.splitlines()
    first = next((index for index, line in enumerate(lines) if not line.startswith(" ")), 0)
    below = "\n".join(lines[first + 1 :])
    return Shown(add_reason(lines[first], below), f"{lines[first]}\n{below}")


def add_reason(line: str, below: str) -> str:
    """Return the exception's line, shortened. If it has no reason, add the reason from the lines below."""
    reason = reason_below(below) if NO_REASON.search(line) else ""
    return (f"{line.rstrip(':. ')}: {reason}" if reason else line)[:MOST_CHARACTERS]


def _whole_group(lines: list[str], index: int, line: str) -> tuple[int, str]:
    """Return the line of a group with all its exceptions. The last line of its output is its last exception."""
    if not re.match(r" *[|+]", lines[index]) or GROUP.search(line):
        return index, line
    inside = [line]
    for above in range(index - 1, -1, -1):
        if not re.match(r" *[|+]", lines[above]):
            break
        bare = _bare(lines[above]).rstrip()
        if GROUP.search(bare):
            return index, f"{bare.strip()}: {'; '.join(reversed(inside))}"
        if NAMED.match(bare) and _names_one(lines, above):
            inside.append(bare.strip())
    return index, line


def _without_message(rest: list[str]) -> list[str]:
    """Remove the indented lines right below an exception, which belong to a message with several lines."""
    first = next((index for index, line in enumerate(rest) if not line.startswith((" ", "\t"))), len(rest))
    return rest[first:]


def _is_noise(line: str) -> bool:
    return bool(NOISE.match(line)) or not line.strip(" |+-=*#")


def reason_below(text: str) -> str:
    """Return TensorFlow's reason for a failed operation: the line before the node's name, or the first line that is not
    a location."""
    node = NAMES_NODE.search(text)
    lines = [line.strip() for line in text[: node.start() if node else None].splitlines()]
    reasons = [
        line for line in lines if line and not LOCATION.match(line) and not line.startswith(AGENTS_OWN)
    ]
    return ROOT_ERROR.sub("", reasons[-1] if node else reasons[0]) if reasons else ""


IN_SHARED_MEMORY = re.compile(r"</torch_\w+>|shared memory (object|limit)|\bshm_open\b|psm_[0-9a-f]{8}")
QUOTED_PATH = re.compile(r"""['"<(](/[^'"<>()]+)['">)]""")


def full_path(shown: Shown | None) -> str | None:
    """Return the path that was full according to the exception; "" if it names no path; None if it is another error."""
    text = shown.block if shown else ""
    if IN_SHARED_MEMORY.search(text) and (
        "No space left" in text or "Bus error" in text or "out of shared" in text
    ):
        return str(SHARED_MEMORY)
    if shown is None or "No space left on device" not in text:
        return None
    found = QUOTED_PATH.search(text)
    return found[1] if found else ""
