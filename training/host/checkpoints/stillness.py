"""Which files of a folder are whole, judged by how they change from one look to the next.

A program that waits for a processor in the middle of a file leaves it unchanged, too. So a file that some process has
open for writing is not whole, unless it has been open for many looks and hardly grows: then it is a log, or a file that
is kept open for as long as the program runs. A text that ends with a whole line is a log at the first look.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from training.host.checkpoints.on_disk import FileFacts, is_no_state

LOG_LOOKS = 10
"""A file that is open for more looks than this is kept open: no restart depends on its being closed."""
IDLE_LOOKS = 3
"""A file that is open for this many looks and hardly grows is probably kept open, too."""
BUSY_LOOKS = 4
"""A file that changed at this many looks in a row never lies still."""
APPENDS = 2
"""A file that has grown at its end this often, and changed in no other way, is a log."""
SLOW_BYTES = 1024 * 1024
"""A file that grows by more than this from look to look is being written, and is no log."""
END_BYTES = 4096
TEXT = bytes({*range(0x20, 0x7F), *range(0x80, 0x100), *b"\t\n\f\r\x1b"})
"""The bytes of text in UTF-8: 4 KiB of any other format nearly always contain one that is missing here."""


@dataclass(frozen=True, slots=True)
class Look:
    """The files that are not simply still.

    - `fresh`: they have just changed, or are being written: a checkpoint waits for them.
    - `logs`: they only grow at their end: the bytes so far are whole at any moment.
    - `busy`: they change at every look, and no look will find them still.
    - `unsafe`: if the program were killed now, these might be half written.
    - `held`: a process keeps them open for as long as it runs.
    - `idle`: a process has kept them open for a few looks and has hardly written into them: probably `held` soon.
    """

    fresh: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    unsafe: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Track:
    """One file over the last looks: how many looks in a row it was still, changed and open, how often it has grown at
    its end, how much in the last look, and a sum of the last bytes that it then had. A file that has never changed
    since it was first seen has no such sum."""

    facts: FileFacts
    still: int = 0
    changed: int = 0
    opened: int = 0
    appends: int = 0
    growth: int = 0
    end: bytes = b""
    is_text: bool = False
    """The file ended with a whole line of text while it was open."""

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
    """`read_end(name, end, size)` returns up to `size` bytes of a file before the offset `end`. `files` are those of
    the last look."""

    read_end: Callable[[str, int, int], bytes]
    still_seconds: float
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    _tracks: dict[str, _Track] = field(default_factory=dict)

    def look(self, files: Mapping[str, FileFacts], being_written: Collection[str], now: float) -> Look:
        """Compare the files with those of the look before. `now` in seconds since 1970."""
        changed = {name for name, facts in files.items() if self.files.get(name) != facts}
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

    def _track(self, name: str, facts: FileFacts, is_open: bool) -> _Track:
        before = self._tracks.get(name)
        is_text = is_open and ends_a_line(self.read_end(name, facts.size, END_BYTES))
        if before is None:
            known = self.files.get(name)
            before = _Track(known) if known else None
        if before is None:
            return _Track(facts, opened=int(is_open), is_text=is_text)
        opened = before.opened + 1 if is_open else 0
        if before.facts == facts:
            return replace(
                before, still=before.still + 1, changed=0, opened=opened, growth=0, is_text=is_text
            )
        growth = facts.size - before.facts.size
        appended = (
            growth > 0
            and facts.inode == before.facts.inode
            and bool(before.end)
            and self._end(name, before.facts.size) == before.end
        )
        return _Track(
            facts,
            changed=before.changed + 1,
            opened=opened,
            appends=before.appends + 1 if appended and growth <= SLOW_BYTES else 0,
            growth=growth,
            end=self._end(name, facts.size),
            is_text=is_text,
        )

    def _end(self, name: str, size: int) -> bytes:
        """Return a sum of the last bytes that the file had while it was `size` bytes long."""
        return hashlib.blake2b(self.read_end(name, size, END_BYTES), digest_size=16).digest()


def _is_log(name: str, track: _Track) -> bool:
    """TensorFlow's event files are logs from the beginning, and so is a text that is written line by line."""
    if is_no_state(name) or (track.is_text and track.growth <= SLOW_BYTES):
        return True
    return track.appends >= APPENDS and not track.is_written


def ends_a_line(end: bytes) -> bool:
    """Return True if the last bytes of a file are text and a whole line. No other format is whole at such a place."""
    return end.endswith((b"\n", b"\r")) and not end.translate(None, TEXT)
