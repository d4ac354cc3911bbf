"""Upload a host's outputs from the working folder to the bucket, while the program runs and once at its end.

The bucket mirrors the folder: a changed file is sent again, a removed file is deleted. A restart finds the snapshot:
the last state without a file being written."""

import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from training.host.account import Account
from training.host.bucket import Bucket
from training.host.checkpoints.on_disk import written_by
from training.host.disk import EVENT_FILE
from training.host.errors import HostTrouble
from training.host.keys import show_name
from training.host.outputs import index
from training.host.outputs.index import Index, Sent
from training.host.outputs.restore import Sources
from training.host.outputs.scan import (
    MOST_FILES,
    Omission,
    Scan,
    Seen,
    ends_with_a_line,
    over_the_limit,
    scan,
)
from training.host.reporting.results import due_after
from trainyard.values.quantities import format_bytes, format_count

LOOK_SECONDS = 1.0
LOOKS_SHARE = 50
"""The pause between two looks is at least this many times as long as a look, so looks use 2 % of a processor."""
STILL_SECONDS = 0.25
SETTLED_SECONDS = 0.5
"""A closed file that has not changed for this long is whole."""
RESTLESS_SECONDS = 20.0
"""A file that has changed all the time for this long is sent in its present state."""
LOG_SECONDS = 5.0
LOG_BYTES_PER_SECOND = 1 << 20
"""A file is a log if it has been open for longer than LOG_SECONDS plus the time to write it at this rate."""
MERGE_SECONDS = 10.0
"""If a file is always being written for this long, each unchanged file joins the snapshot separately."""
AT_ONCE = 4
BATCH = 1_000
"""Most files in the queue of uploads. Each takes a kilobyte of the agent's memory."""
WHOLE_BYTES = 4 << 20
"""Files up to this size are read into memory before they are sent."""
NICE = 19
NAMED_AT_MOST = 20


class _OutOfTime(Exception):  # noqa: N818 - never leaves this module
    """The host has no time left to send more."""


@dataclass(slots=True)
class OutputsUpload:
    """The upload of one host's outputs."""

    bucket: Bucket
    run: str
    host: str
    folder: Path
    account: Account
    _: KW_ONLY
    sources: Sources
    """The files from before the program."""
    index: Index
    """The files that the bucket has."""
    max_bytes: int
    attempt: int
    note: Callable[[str], None]
    """Writes a line into the program's log."""
    keeps: bool = True
    """If False, this only looks for event files."""
    runs: Callable[[], bool] = lambda: True
    """Returns True while the program runs."""
    ends_well: bool = True
    """False if the program was killed. A file that it was just writing is then not part of the snapshot."""
    until: float | None = None
    """When the last upload must end, in the seconds of time.monotonic()."""
    event_files: tuple[Path, ...] = ()
    """TensorBoard's files in the folder at the last look."""
    left_out: dict[str, Omission] = field(default_factory=dict)
    _attempt_before: int = field(init=False)
    _given_up: bool = False
    _next_look: float = 0.0
    _before: dict[str, Seen] = field(default_factory=dict)
    _closed: dict[str, Seen] = field(default_factory=dict)
    _open_since: dict[str, float] = field(default_factory=dict)
    _changed_since: dict[str, float] = field(default_factory=dict)
    _due: dict[str, float] = field(default_factory=dict)
    _grown: frozenset[str] = frozenset()
    """The changed files that are longer than at the last look, or than their uploaded version."""
    _missing: set[str] = field(default_factory=set)
    _whole_at: float = field(default_factory=time.monotonic)
    _unwritten: bool = False
    _index_due: float = 0.0
    _unreadable: dict[str, Omission] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._attempt_before, self.index.attempt = self.index.attempt, self.attempt

    def update(self, at_the_end: bool) -> None:
        """Send the files that are ready, or all changed files at the end. Raises HostTrouble if the bucket cannot be
        reached. While the program runs, a final trouble is only noted, because outputs never end a run."""
        if self._given_up or (not at_the_end and time.monotonic() < self._next_look):
            return
        if not at_the_end:
            os.setpriority(
                os.PRIO_PROCESS, threading.get_native_id(), NICE
            )  # this thread, and those it starts
        try:
            with self.account.act():
                self._turn(at_the_end)
        except HostTrouble as trouble:
            if at_the_end or not trouble.final:
                raise
            self._given_up = True
            self.note(f"the outputs of this program are not kept: {trouble.reason}")

    def _turn(self, at_the_end: bool) -> None:
        began = time.monotonic()
        found = scan(self.folder, index.prefix_of(self.run, self.host))
        self.event_files = tuple(self.folder / path for path in found.files if EVENT_FILE in path)
        if not self.keeps:
            self._next_look = time.monotonic() + max(LOOK_SECONDS, LOOKS_SHARE * (time.monotonic() - began))
            return
        changed = {path: seen for path, seen in found.files.items() if self._is_new(path, seen)}
        opened = self._open(changed, began) if changed and not at_the_end else frozenset()
        self._next_look = time.monotonic() + max(LOOK_SECONDS, LOOKS_SHARE * (time.monotonic() - began))
        still = self._find_whole(changed, opened, at_the_end)
        kept = {path: sent.seen for path, sent in self.index.files.items()}
        over = over_the_limit(found, changed, kept, max_bytes=self.max_bytes)
        self.left_out = found.left_out | over | self._unreadable
        if found.beyond:
            reason = f"more than {MOST_FILES} files: {found.beyond} further files are not kept"
            self.left_out["..."] = Omission(0, reason)
        wanted = [
            path for path in changed if path not in over and self._is_due(path, still, opened, at_the_end)
        ]
        if self.index.snapshot is None and (wanted or self._find_removed(found)):
            self.index.snapshot, self.index.snapshot_links = dict(self.index.files), self.index.links
        try:
            self._send_all(sorted(wanted, key=lambda path: changed[path].size), changed)
            self._remove(found, at_the_end)
            self._take_snapshot(found, changed, still, over, at_the_end)
        finally:
            self._write_index(found, at_the_end)
        if at_the_end:
            self._report()

    # --------------------------------------------------------------------------------------------- files to be sent
    def _is_new(self, path: str, seen: Seen) -> bool:
        sent = self.index.files.get(path)
        return self.sources.files.get(path) != seen and (sent is None or sent.seen != seen)

    def _open(self, changed: Mapping[str, Seen], now: float) -> frozenset[str]:
        """Return the changed files that a process has open for writing."""
        root = self.folder.resolve()
        processes = (each for each in Path("/proc").iterdir() if each.name.isdigit())
        written = (file for process in processes for file in written_by(process))
        inside = (file.relative_to(root).as_posix() for file in written if file.is_relative_to(root))
        opened = frozenset(path for path in inside if path in changed)
        closed = changed.keys() - opened
        for path in closed & self._open_since.keys():
            del self._open_since[path]
        self._open_since |= {path: now for path in opened if path not in self._open_since}
        return opened

    def _find_whole(
        self, changed: Mapping[str, Seen], opened: frozenset[str], at_the_end: bool
    ) -> frozenset[str]:
        """Return the changed files that are whole: closed, and unchanged for a moment or between two looks. After a
        program was killed, return the files that were closed while it ran."""
        self._grown = frozenset(path for path, seen in changed.items() if self._has_grown(path, seen))
        if at_the_end:
            still = {
                path for path, seen in changed.items() if self.ends_well or self._closed.get(path) == seen
            }
            return frozenset(still)
        now, recently = time.monotonic(), time.time_ns() - int(STILL_SECONDS * 1e9)
        closed = {path: seen for path, seen in changed.items() if path not in opened}
        if self.runs():
            self._closed = {path: seen for path, seen in closed.items() if seen.mtime_ns <= recently}
        old = time.time_ns() - int(SETTLED_SECONDS * 1e9)
        still = {
            path for path, seen in closed.items() if seen.mtime_ns <= old or self._before.get(path) == seen
        }
        self._changed_since = {
            path: self._changed_since.get(path, now) for path in changed if path not in still
        }
        restless = [
            path
            for path, since in self._changed_since.items()
            if path in closed and now - since > RESTLESS_SECONDS
        ]
        if restless:
            time.sleep(STILL_SECONDS)
            still |= {path for path in restless if self._now(path) == closed[path]}
        self._before = dict(changed)
        return frozenset(still)

    def _has_grown(self, path: str, seen: Seen) -> bool:
        sent = self.index.files.get(path)
        known = (self._before.get(path), sent.seen if sent else None)
        return any(each is not None and each.size < seen.size for each in known)

    def _now(self, path: str) -> Seen | None:
        try:
            return Seen.of((self.folder / path).lstat())
        except OSError:
            return None

    def _is_due(self, path: str, still: frozenset[str], opened: frozenset[str], at_the_end: bool) -> bool:
        if at_the_end:
            return True
        now = time.monotonic()
        if now < self._due.get(path, now):
            return False
        if path in still or now - self._changed_since.get(path, now) > RESTLESS_SECONDS:
            return True
        return self._grows_by_lines(path)

    def _is_log(self, path: str, seen: Seen) -> bool:
        """Return True for a file that stays open while the program runs, and for a text that grows by lines. The
        snapshot does not wait for these."""
        if EVENT_FILE in path or self._grows_by_lines(path):
            return True
        since = self._open_since.get(path)
        patience = LOG_SECONDS + seen.size / LOG_BYTES_PER_SECOND
        return since is not None and time.monotonic() - since > patience

    def _grows_by_lines(self, path: str) -> bool:
        return path in self._grown and ends_with_a_line(self.folder / path)

    def _send_all(self, paths: list[str], changed: Mapping[str, Seen]) -> None:
        """Send the files in parallel. Stop at the first trouble with the bucket and raise it."""
        if not paths:
            return
        stop = threading.Event()
        troubles: list[BaseException] = []
        with ThreadPoolExecutor(AT_ONCE, "outputs") as pool:
            for start in range(0, len(paths), BATCH):
                batch = paths[start : start + BATCH]
                waits = [pool.submit(self._send, path, changed[path], stop) for path in batch]
                troubles += [trouble for wait in waits if (trouble := wait.exception())]
                if troubles:
                    break
        for trouble in troubles:
            if isinstance(trouble, _OutOfTime):
                break
            raise trouble
        self._unwritten = True

    def _send(self, path: str, seen: Seen, stop: threading.Event) -> None:
        if stop.is_set():
            return
        key = index.prefix_of(self.run, self.host) + path
        try:
            self._check_time(path, seen)
            if path in self.index.earlier:
                self._keep_earlier(path, key)
            sent = self._put(path, key, seen)
        except (HostTrouble, _OutOfTime):
            stop.set()
            raise
        except FileNotFoundError:  # the program has just removed it
            return
        except OSError as error:
            self._unreadable[path] = Omission(seen.size, f"it cannot be read: {error.strerror}")
            return
        self._unreadable.pop(path, None)
        self.index.files[path] = sent
        self._due[path] = time.monotonic() + due_after(seen.size)

    def _keep_earlier(self, path: str, key: str) -> None:
        """Keep an earlier attempt's file of this name under another key. This attempt did not find it on its disk."""
        kept = f"@attempt-{self._attempt_before}/{path}"
        self.bucket.copy(key, index.prefix_of(self.run, self.host) + kept)
        self.index.earlier[kept] = self.index.earlier.pop(path)

    def _put(self, path: str, key: str, seen: Seen) -> Sent:
        """Send the file with its state before the upload, so that a file that changes meanwhile is sent again."""
        descriptor = os.open(self.folder / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileNotFoundError(path)
            if status.st_size <= WHOLE_BYTES:
                version = self.bucket.put(key, os.pread(descriptor, status.st_size, 0))
            else:
                same = Path(
                    f"/proc/self/fd/{descriptor}"
                )  # the same file even if the program replaces it meanwhile
                version = self.bucket.send(same, key, lambda: self._check_time(path, seen))
            return Sent(Seen.of(status), version)
        finally:
            os.close(descriptor)

    def _check_time(self, path: str, seen: Seen) -> None:
        if self.until is not None and time.monotonic() > self.until:
            self._unreadable[path] = Omission(seen.size, "this host had no time left to send it")
            raise _OutOfTime

    def _find_removed(self, found: Scan) -> set[str]:
        """Return the files of the bucket that the disk no longer has."""
        return self.index.files.keys() - found.files.keys() if found.is_complete else set()

    def _remove(self, found: Scan, at_the_end: bool) -> None:
        """Delete files from the bucket that the program has removed. They must be missing in two looks, because a file
        that is being replaced may be missing in one."""
        gone = self._find_removed(found)
        sure = gone if at_the_end else gone & self._missing
        self._missing = gone - sure
        if sure:
            prefix = index.prefix_of(self.run, self.host)
            self.bucket.delete([prefix + path for path in sorted(sure)])
            for path in sure:
                del self.index.files[path]
            self._unwritten = True

    # ----------------------------------------------------------------------------------------------------- the snapshot
    def _take_snapshot(
        self,
        found: Scan,
        changed: Mapping[str, Seen],
        still: frozenset[str],
        over: Mapping[str, Omission],
        at_the_end: bool,
    ) -> None:
        """Make the present files the snapshot if none is being written. If that never happens, each unchanged file
        joins the snapshot separately, at the latest at the program's end."""
        files, now = self.index.files, time.monotonic()
        moving = [
            path
            for path, seen in changed.items()
            if path not in over
            and path not in self._unreadable
            and not (path in still and path in files and files[path].seen == seen)
            and not self._is_log(path, seen)
        ]
        if not moving:
            self._whole_at = now
            if self.index.snapshot is not None:
                self.index.snapshot, self.index.inherits, self._unwritten = None, False, True
        elif self.index.snapshot is None:
            self.index.snapshot, self.index.snapshot_links = dict(files), self.index.links
        elif now - self._whole_at > MERGE_SECONDS or (at_the_end and not self.index.snapshot):
            self._whole_at = now
            away = set(moving)
            self.index.snapshot |= {path: sent for path, sent in files.items() if path not in away}
            before = self.index.snapshot_links
            links = {
                path: before.get(path) if _leads_to(away, path, to) else to
                for path, to in found.links.items()
            }
            self.index.snapshot_links = {path: to for path, to in links.items() if to is not None}
            self._unwritten = True

    def _write_index(self, found: Scan, at_the_end: bool) -> None:
        """Write the list of the bucket's files, a long list less often."""
        links = {path: to for path, to in found.links.items() if self.sources.links.get(path) != to}
        folders = [path for path in found.folders if path not in self.sources.folders]
        if (links, folders) != (self.index.links, self.index.folders):
            self.index.links, self.index.folders, self._unwritten = links, folders, True
        if not self._unwritten or (not at_the_end and time.monotonic() < self._index_due):
            return
        size = index.write(self.bucket, self.run, self.host, self.index)
        index.write_report(self.bucket, self.run, self.host, self.index, self.left_out)
        self._index_due = time.monotonic() + due_after(size)
        self._unwritten = False

    def _report(self) -> None:
        """Log the number of files, and the names of the files that were left out, the largest first."""
        if self.index.count:
            self.note(f"outputs: {format_count(self.index.count, 'file')}, {format_bytes(self.index.size)}")
        ordered = sorted(self.left_out.items(), key=lambda each: (-each[1].size, each[0]))
        for path, each in ordered[:NAMED_AT_MOST]:
            size = f" ({format_bytes(each.size)})" if each.size else ""
            self.note(f"outputs: {show_name(path)}{size} is left out: {each.reason}")
        if len(ordered) > NAMED_AT_MOST:
            self.note(f"outputs: {len(ordered) - NAMED_AT_MOST} more are left out")


def _leads_to(paths: Collection[str], link: str, target: str) -> bool:
    return os.path.normpath(f"{link}/../{target}") in paths
