"""Find out which files of a folder are whole, from their changes between looks.

An unchanged file may still be incomplete, because its program may wait for a processor. Therefore a file that a process
has open for writing is not whole, unless it has been open for many looks and hardly grows. Such a file is a log, or is
kept open as long as the program runs. A text that ends with a whole line is a log at the first look.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from training.host.checkpoints.on_disk import FileState, is_no_state

LOG_LOOKS = 10
"""A file that is open for more looks counts as kept open. No restart waits for such a file to be closed."""
IDLE_LOOKS = 3
"""A file that is open for this many looks and hardly grows is probably kept open, too."""
BUSY_LOOKS = 4
"""A file that changed at this many consecutive looks never stays unchanged."""
APPENDS = 2
"""A file that has grown at its end this often, without any other change, is a log."""
SLOW_BYTES = 1024 * 1024
"""A file that grows by more than this between looks is being written, and is not a log."""
END_BYTES = 4096
TEXT = bytes({*range(0x20, 0x7F), *range(0x80, 0x100), *b"\t\n\f\r\x1b"})
"""The bytes of text in UTF-8. In 4 KiB of any other format, there is nearly always another byte."""


@dataclass(frozen=True, slots=True)
class Look:
    """The files that have changed recently, or may change."""

    fresh: frozenset[str] = frozenset()
    """Files that have just changed, or are being written. A checkpoint waits for these."""
    logs: frozenset[str] = frozenset()
    """Files that only grow at their end. Their present bytes are whole at any moment."""
    busy: frozenset[str] = frozenset()
    """Files that change at every look. Waiting for these is useless."""
    unsafe: frozenset[str] = frozenset()
    """Files that might be half written if the program were killed now."""
    held: frozenset[str] = frozenset()
    """Files that a process keeps open as long as it runs."""
    idle: frozenset[str] = frozenset()
    """Files that a process has kept open for a few looks, nearly without writing. They will probably be `held` soon."""


@dataclass(frozen=True, slots=True)
class _Track:
    """One file over the last looks."""

    state: FileState
    still: int = 0
    """Consecutive looks without a change."""
    changed: int = 0
    """Consecutive looks with a change."""
    opened: int = 0
    """Consecutive looks at which it was open for writing."""
    appends: int = 0
    """Consecutive changes that only appended to it."""
    growth: int = 0
    """Its growth at the last look, in bytes."""
    end: bytes = b""
    """A checksum of its last bytes. Empty if it has never changed since the first look."""
    is_text: bool = False
    """True if the file ended with a whole line of text while it was open."""

    @property
    def is_held_open(self) -> bool:
        return self.opened > LOG_LOOKS and self.growth <= SLOW_BYTES

    @property
    def is_idle(self) -> bool:
        return self.opened >= IDLE_LOOKS and self.growth <= SLOW_BYTES

    @property
    def is_written(self) -> bool:
        return self.opened > 0 and not self.is_held_open


@dataclass(slots=True)
class Stillness:
    """Compares the files of a folder from look to look."""

    read_end: Callable[[str, int, int], bytes]
    """Called with a name, an offset, and a size. Returns up to `size` bytes of the file before that offset."""
    still_seconds: float
    files: Mapping[str, FileState] = field(default_factory=dict)
    """The files of the last look."""
    _tracks: dict[str, _Track] = field(default_factory=dict)

    def look(self, files: Mapping[str, FileState], being_written: Collection[str], now: float) -> Look:
        """Compare the files with the previous look. `now` is in seconds since 1970."""
        changed = {name for name, state in files.items() if self.files.get(name) != state}
        watched = changed | self._tracks.keys() | set(being_written)
        tracks = {
            name: self._track(name, files[name], name in being_written) for name in watched if name in files
        }
        self.files = files
        self._tracks = {
            name: track for name, track in tracks.items() if track.opened or not track.still or track.end
        }
        logs = {name for name, track in tracks.items() if _is_log(name, track)}
        busy = {
            name
            for name, track in tracks.items()
            if name not in logs and track.changed >= BUSY_LOOKS and not track.is_written
        }
        fresh = {
            name
            for name, track in tracks.items()
            if name not in logs and name not in busy and (not track.still or track.is_written)
        }
        young = now - self.still_seconds
        unsafe = {name for name in fresh | busy if tracks[name].is_written or files[name].mtime / 1e9 > young}
        held = {name for name, track in tracks.items() if track.is_held_open}
        idle = {name for name, track in tracks.items() if track.is_idle}
        return Look(*map(frozenset, (fresh, logs, busy, unsafe, held, idle)))

    def _track(self, name: str, state: FileState, is_open: bool) -> _Track:
        before = self._tracks.get(name)
        is_text = is_open and ends_a_line(self.read_end(name, state.size, END_BYTES))
        if before is None:
            known = self.files.get(name)
            before = _Track(known) if known else None
        if before is None:
            return _Track(state, opened=int(is_open), is_text=is_text)
        opened = before.opened + 1 if is_open else 0
        if before.state == state:
            return replace(
                before, still=before.still + 1, changed=0, opened=opened, growth=0, is_text=is_text
            )
        growth = state.size - before.state.size
        appended = (
            growth > 0
            and state.inode == before.state.inode
            and bool(before.end)
            and self._end(name, before.state.size) == before.end
        )
        return _Track(
            state,
            changed=before.changed + 1,
            opened=opened,
            appends=before.appends + 1 if appended and growth <= SLOW_BYTES else 0,
            growth=growth,
            end=self._end(name, state.size),
            is_text=is_text,
        )

    def _end(self, name: str, size: int) -> bytes:
        """Return a checksum of the last bytes of the file's first `size` bytes."""
        return hashlib.blake2b(self.read_end(name, size, END_BYTES), digest_size=16).digest()


def _is_log(name: str, track: _Track) -> bool:
    """Return True for a log. TensorFlow's event files, and texts that are written by lines, are logs from the start."""
    if is_no_state(name) or (track.is_text and track.growth <= SLOW_BYTES):
        return True
    return track.appends >= APPENDS and not track.is_written


def ends_a_line(end: bytes) -> bool:
    """Return True if the last bytes of a file are text and end with a whole line. Other formats cannot end like
    that."""
    return end.endswith((b"\n", b"\r")) and not end.translate(None, TEXT)
