"""A log's way to the bucket: in chunks of whole lines, so that only what is new is sent, and fetched.

S3 cannot append. A chunk that is full never changes; the last one is written again while it grows, the larger it is the
more rarely. Where chunks begin follows from the lines alone, so an agent that was restarted sends those that its
predecessor would have sent. Beyond `MOST_BYTES` a log is thinned: of each further minute its last lines.
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
    f"{AGENTS_OWN}this log is longer than {MOST_BYTES // 1024**3} GiB: from here on only the last lines of each minute "
    "are kept"
)


def chunk_key(prefix: str, number: int) -> str:
    """The key of a log's chunk, from 1 on. `prefix` is the log's folder, with its slash."""
    return f"{prefix}{number:08d}.log"


def due_after(size: int) -> float:
    """Seconds to wait before a chunk of this size is sent again."""
    return max(EVERY_SECONDS, size / BYTES_PER_SECOND)


@dataclass(slots=True)
class LogUpload:
    """One log's way to its folder, for one thread."""

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
        """Send what is new if it is due; with `last`, also before. After a HostTrouble the next call goes on there."""
        size, under_way = state = (self.log.size, self.log.open)
        if state == self._sent or (now < self._next_at and not last):
            return
        if not self._number:
            self._go_on_after_another()
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
        """Whether all that comes now is kept."""
        return self._begins < self.most

    def _go_on_after_another(self) -> None:
        """With the last chunk that an earlier agent sent: those before it are full."""
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
        """Where its last line ends in the stamped log."""
        line = self.bucket.read(chunk_key(self.prefix, number)).rstrip(b"\n").rpartition(b"\n")[2] + b"\n"
        with self.log.path.open("rb") as stamped, mmap(stamped.fileno(), 0, access=ACCESS_READ) as text:
            return text.rfind(line) + len(line)

    def _write(self, text: bytes) -> None:
        self.bucket.write(chunk_key(self.prefix, self._number), text)

    def _last_lines(self, size: int) -> bytes:
        """Of those since the last chunk, after a line of the agent's own with the time of the first of them."""
        text = self._read(max(self._begins, size - THIN_BYTES), THIN_BYTES)
        if size - self._begins > THIN_BYTES:
            text = text.partition(b"\n")[2]
        stamp, bar, _ = text.partition(b" | ")
        return stamp + bar + f"{THINNED}\n".encode() + text

    def _whole_lines(self, begins: int) -> bytes:
        """Those that fit into a chunk from there on."""
        text = self._read(begins, self.chunk)
        return text[: text.rfind(b"\n") + 1]

    def _read(self, start: int, most: int) -> bytes:
        with self.log.path.open("rb") as stamped:
            stamped.seek(start)
            return stamped.read(most)
