"""Upload a log in chunks of whole lines, so that only new lines are sent and fetched.

S3 cannot append. A full chunk never changes. The last chunk is written again while it grows, less often the larger it
is. The starts of chunks depend only on the lines, so a restarted agent sends the same chunks as its predecessor. Beyond
`MOST_BYTES`, only the last lines of each minute are kept.
"""

from dataclasses import dataclass
from mmap import ACCESS_READ, mmap

from training.host.bucket import Bucket
from training.host.program.tracebacks import AGENTS_OWN
from training.host.reporting.logs import StampedLog

CHUNK_BYTES = 4 * 1024 * 1024
EVERY_SECONDS = 2.0
BYTES_PER_SECOND = 512 * 1024
MOST_BYTES = 2 * 1024**3
THIN_BYTES = 64 * 1024
THIN_SECONDS = 60.0
THINNED = (
    f"{AGENTS_OWN}this log is longer than {MOST_BYTES // 1024**3} GiB: from here on, only the last lines of each "
    "minute are kept"
)


def chunk_key(prefix: str, number: int) -> str:
    """Return the key of a log's chunk. Numbers begin at 1. `prefix` is the log's folder, with its slash."""
    return f"{prefix}{number:08d}.log"


def due_after(size: int) -> float:
    """Return the seconds until a chunk of this size is sent again."""
    return max(EVERY_SECONDS, size / BYTES_PER_SECOND)


@dataclass(slots=True)
class LogUpload:
    """The upload of one log to its folder, for one thread."""

    bucket: Bucket
    log: StampedLog
    prefix: str
    chunk: int = CHUNK_BYTES
    most: int = MOST_BYTES
    _number: int = 0
    _begins: int = 0
    _sent: tuple[int, str] = (0, "")
    _next_at: float = 0.0

    def send(self, now: float, *, last: bool = False) -> None:
        """Send new lines if they are due, or if `last`. After a HostTrouble, the next call continues at that point."""
        size, under_way = state = (self.log.size, self.log.open)
        if state == self._sent or (now < self._next_at and not last):
            return
        if not self._number:
            self._continue_earlier()
        while self._is_kept and size - self._begins > self.chunk:
            self._write(full := self._whole_lines(self._begins))
            self._number, self._begins = self._number + 1, self._begins + len(full)
        if self._is_kept:
            growing = self._read(self._begins, size - self._begins)
            self._write(growing + under_way.encode())
            self._next_at = now + due_after(len(growing))
        elif size > self._begins:
            self._write(self._last_lines(size))
            self._number, self._begins = self._number + 1, size
            self._next_at = now + THIN_SECONDS
        self._sent = state

    @property
    def _is_kept(self) -> bool:
        """True while all lines are kept."""
        return self._begins < self.most

    def _continue_earlier(self) -> None:
        """Continue with the last chunk that an earlier agent sent. The chunks before it are full."""
        names = [
            each.key.removeprefix(self.prefix).removesuffix(".log") for each in self.bucket.list(self.prefix)
        ]
        newest = max((int(name) for name in names if name.isdigit()), default=1)
        number, begins = 1, 0
        while number < newest and begins < self.most and self.log.size - begins > self.chunk:
            number, begins = number + 1, begins + len(self._whole_lines(begins))
        if begins >= self.most:
            number, begins = newest + 1, self._end_of_chunk(newest)
        self._number, self._begins = number, begins

    def _end_of_chunk(self, number: int) -> int:
        """Return the offset in the stamped log at which the chunk's last line ends."""
        line = self.bucket.read(chunk_key(self.prefix, number)).rstrip(b"\n").rpartition(b"\n")[2] + b"\n"
        with self.log.path.open("rb") as stamped, mmap(stamped.fileno(), 0, access=ACCESS_READ) as text:
            return text.rfind(line) + len(line)

    def _write(self, text: bytes) -> None:
        self.bucket.write(chunk_key(self.prefix, self._number), text)

    def _last_lines(self, size: int) -> bytes:
        """Return the last lines since the last chunk, after a line of the agent with the time of the first of them."""
        text = self._read(max(self._begins, size - THIN_BYTES), THIN_BYTES)
        if size - self._begins > THIN_BYTES:
            text = text.partition(b"\n")[2]
        stamp, bar, _ = text.partition(b" | ")
        return stamp + bar + f"{THINNED}\n".encode() + text

    def _whole_lines(self, begins: int) -> bytes:
        """Return the lines from that offset on that fit into a chunk."""
        text = self._read(begins, self.chunk)
        return text[: text.rfind(b"\n") + 1]

    def _read(self, start: int, most: int) -> bytes:
        with self.log.path.open("rb") as stamped:
            stamped.seek(start)
            return stamped.read(most)
