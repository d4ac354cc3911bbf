"""Upload the chief's checkpoints from disk to bucket while the program runs.

A checkpoint is the folder at one moment, as a crash would leave it. The agent waits for files that have just changed.
It does not wait for logs and for files that change all the time, but copies them. Only changed files are sent.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from training.host.account import Account, remove_tree
from training.host.bucket import Bucket
from training.host.checkpoints import catalogue, in_bucket, on_disk
from training.host.checkpoints.catalogue import (
    FOLDER,
    NOTHING,
    STEP,
    Catalogue,
    Manifest,
    Stored,
    Version,
    name_of,
)
from training.host.checkpoints.choice import Choice, LastCheckpoint
from training.host.checkpoints.on_disk import FileState, Listing
from training.host.checkpoints.stillness import END_BYTES, Look, Stillness, ends_a_line
from training.host.keys import LeftOut
from training.host.paths import Paths
from trainyard.protocol import keys

RESTLESS_LOOKS = 4
TEMPORARY_LOOKS = 8
"""If this many consecutive looks waited for files that the next look no longer found, such files are temporary."""
STILL_SECONDS = 0.25
COPIED_BYTES = 1 << 28
LOG_SECONDS = 30.0
"""A checkpoint is updated at this interval if only logs next to it grow."""
LOG_BYTES_PER_SECOND = 1 << 20
"""A large log waits longer: S3 cannot append, so it is sent whole."""
HALF_SECONDS = 60.0
"""Parts of a TensorFlow checkpoint that have not changed for longer are leftovers, or files of other kinds."""
COPY_TRIES = 5
COPY_PAUSE_SECONDS = 0.05
PAUSE_PER_LISTING = 10.0
LONGEST_PAUSE_SECONDS = 10.0
"""Listing a folder with very many files takes long. A pause follows that is ten times as long."""


@dataclass(slots=True)
class CheckpointUpload:
    """The upload of one run's checkpoints."""

    bucket: Bucket
    run: str
    paths: Paths
    account: Account
    _: KW_ONLY
    keep: int
    last: LastCheckpoint
    reported: Callable[[], int | None]
    """Returns the last step that the program has reported."""
    uploaded: Callable[[LastCheckpoint, Version], None]
    """Called for every checkpoint that is whole in the bucket."""
    note: Callable[[str], None]
    """Writes a line into the program's log."""
    runs: Callable[[], bool] = lambda: True
    """Returns True while the program runs."""
    ends_well: bool = True
    """False if the program was killed. Files that it was just writing are then not part of a checkpoint."""
    has_finished: bool = True
    """True if the program ended with 0."""
    _noted: bool = False
    _has_looked: bool = False
    _newest: Version | None = None
    _manifests: dict[str, Manifest] = field(default_factory=dict)
    _sent: dict[str, FileState] = field(default_factory=dict)
    _is_tidy: bool = False
    _look: Look = field(default_factory=Look)
    _restless: int = 0
    _waited: frozenset[str] = frozenset()
    _vanished: int = 0
    _taken_at: float = 0.0
    _next_look: float = 0.0
    _stillness: Stillness = field(init=False)
    _left_out: LeftOut = field(init=False)

    def __post_init__(self) -> None:
        folder = self.paths.checkpoints
        self._stillness = Stillness(
            lambda name, end, size: on_disk.read_end(folder / name, end, size), STILL_SECONDS
        )
        self._left_out = LeftOut(self.note, "${checkpoints}")

    def update(self, at_the_end: bool) -> None:
        """Upload the newest checkpoint if the bucket does not have it yet."""
        if time.monotonic() < self._next_look and not at_the_end:
            return
        with self.account.act():
            brought = self._upload_new(at_the_end)
        if brought:
            self._conclude(*brought)
            with self.account.act():
                on_disk.keep_newest(self.paths.checkpoints, self.keep)

    def _upload_new(self, at_the_end: bool) -> tuple[Choice, Version, Manifest] | None:
        """Upload the files of a new checkpoint and return it, or None."""
        choice = self._choose(self._see(at_the_end), at_the_end)
        return self._send(choice) if choice else None

    def _see(self, at_the_end: bool) -> Listing:
        """Return the folder's content that the bucket can store, and find out which files are whole."""
        folder, began = self.paths.checkpoints, time.monotonic()
        seen = on_disk.listing_of(folder)
        ended = time.monotonic()
        self._next_look = ended + min(LONGEST_PAUSE_SECONDS, PAUSE_PER_LISTING * (ended - began))
        self._left_out.report(seen.left_out)
        prefix = catalogue.key_of(self.run, self.last.step + 1)
        seen = seen.without(seen.files.keys() - self._left_out.keep(seen.files, prefix))
        if self.runs() and not at_the_end:
            self._look = self._stillness.look(seen.files, on_disk.open_to_write(folder), time.time())
        return seen

    def _choose(self, seen: Listing, at_the_end: bool) -> Choice | None:
        """Return the checkpoint to send now; None if nothing is new, or nothing is whole."""
        newest = on_disk.step_in(seen)
        seen = seen.without(self._halves(seen, newest, at_the_end) | self._find_removed(seen))
        before, look = self._read_newest(), self._look
        changed = frozenset(name for name in seen.files if not self._has(before, name, seen.files[name]))
        torn = self._torn(seen, changed) if at_the_end and not self.ends_well else frozenset()
        choose = partial(self._choice, seen, changed, torn=torn, alive=not at_the_end)
        if newest is not None and newest > self.last.step:
            return choose(step=newest, kind=STEP)
        is_same = not changed and self._only_logs_grew(seen, before, changed)
        if is_same and seen.files.keys() == before.files.keys():
            return None
        if not (at_the_end or self.runs()):
            return None
        if newest is not None or self._only_logs_grew(seen, before, changed):
            is_due = at_the_end or time.monotonic() >= self._taken_at + _log_seconds(seen, changed)
            if self._newest is None or not is_due:
                return None
            return choose(step=self.last.step, kind=self._newest.kind, revision=True)
        if not on_disk.hold_something(seen.without(torn).files) or self._is_half_saved(seen, before, torn):
            return None
        waits = frozenset() if at_the_end else changed & look.fresh
        self._count_waits(seen, waits)
        if waits and not self._has_a_quiet_moment(seen, changed, waits):
            if self._vanished < TEMPORARY_LOOKS:
                return None
            waits = frozenset()  # they are copied if possible
        waits -= self._find_removed(seen)
        lacks = on_disk.missing(self.paths.checkpoints, seen)
        if lacks:
            self._note_missing_files(lacks)
            return None
        return choose(step=self._step(seen), kind=FOLDER, needed=waits)

    def _choice(
        self,
        seen: Listing,
        changed: frozenset[str],
        *,
        torn: frozenset[str],
        alive: bool,
        step: int,
        kind: str,
        needed: frozenset[str] = frozenset(),
        revision: bool = False,
    ) -> Choice:
        """Choose how each file is sent. While the program is `alive`, it may write into files that change. The
        runtime's checkpoint appears by one rename, so it is whole at once."""
        kept = self._find_reusable(seen, changed)
        beside = {name for name in seen.files if kind != STEP or not name.startswith(f"{name_of(step)}/")}
        to_send = frozenset(seen.files.keys() - kept.keys() - (torn & beside))
        logs = to_send & self._logs(changed) & beside if alive else frozenset()
        moving = to_send & (self._look.fresh | self._look.busy) & beside - logs if alive else frozenset()
        return Choice(seen, kept, to_send - logs - moving, logs, moving, needed, step, kind, revision)

    def _logs(self, changed: frozenset[str]) -> frozenset[str]:
        return self._look.logs | frozenset(filter(on_disk.is_no_state, changed))

    def _halves(self, seen: Listing, newest: int | None, at_the_end: bool) -> set[str]:
        """Return the files that TensorFlow is probably still merging. Any program may use such names, so after a while,
        and after the program has finished, they count like other files. The runtime's checkpoint is whole at once."""
        if at_the_end and self.ends_well and self.has_finished:
            return set()
        young = time.time() - HALF_SECONDS
        halves = {name for name in on_disk.halves_in(seen.files) if seen.files[name].mtime / 1e9 > young}
        return {name for name in halves if newest is None or not name.startswith(f"{name_of(newest)}/")}

    def _find_removed(self, seen: Listing) -> frozenset[str]:
        """Return the files that were removed after the listing. A checkpoint need not wait for these."""
        folder = self.paths.checkpoints
        fresh = self._look.fresh & seen.files.keys()
        return frozenset(name for name in fresh if on_disk.state_at(folder / name) is None)

    def _count_waits(self, seen: Listing, waits: frozenset[str]) -> None:
        """Count the consecutive looks that had to wait, and those that waited for files that vanished."""
        self._restless = self._restless + 1 if waits else 0
        vanished = bool(self._waited) and not self._waited & seen.files.keys()
        self._vanished = self._vanished + 1 if vanished and waits else 0
        self._waited = waits

    def _is_half_saved(self, seen: Listing, before: Manifest, torn: frozenset[str]) -> bool:
        """Return True if a killed program was in the middle of a save, so that the checkpoint before is better. A new
        file that is still empty is not a save yet. Without a checkpoint before, files that the program kept open and
        hardly wrote into do not count, either."""
        idle = self._look.idle if before is NOTHING else frozenset()
        return any(name in before.files or seen.files[name].size for name in torn - self._look.busy - idle)

    def _torn(self, seen: Listing, changed: frozenset[str]) -> frozenset[str]:
        """Return the files that a killed program may have left half written: files that were not whole while it ran,
        unless their text ends with a whole line."""
        known, folder = self._stillness.files, self.paths.checkpoints
        return frozenset(
            name
            for name in changed - self._look.logs
            if (name in self._look.unsafe or known.get(name) != seen.files[name])
            and not ends_a_line(on_disk.read_end(folder / name, seen.files[name].size, END_BYTES))
        )

    def _has_a_quiet_moment(self, seen: Listing, changed: frozenset[str], waits: frozenset[str]) -> bool:
        """Return True if a folder that changes at every look stays unchanged long enough for a copy."""
        size = sum(seen.files[name].size for name in changed)
        if self._restless < RESTLESS_LOOKS or size > COPIED_BYTES:
            return False
        time.sleep(STILL_SECONDS)
        folder, waits = self.paths.checkpoints, waits - self._find_removed(seen)
        if waits & on_disk.open_to_write(folder):
            return False
        return all(on_disk.state_at(folder / name) == seen.files[name] for name in waits)

    def _only_logs_grew(self, seen: Listing, before: Manifest, changed: frozenset[str]) -> bool:
        """Return True if the folder differs from the newest checkpoint only by longer logs."""
        return (
            bool(before.files)
            and changed <= self._logs(changed)
            and seen.files.keys() >= before.files.keys()
            and seen.folders.keys() == before.folders.keys()
            and {name: link.target for name, link in seen.links.items()}
            == {name: link.target for name, link in before.links.items()}
        )

    def _read_newest(self) -> Manifest:
        """Return the manifest of the newest checkpoint; NOTHING if there is none."""
        if not self._has_looked and self.last.step >= 0:
            self._has_looked = True
            known = in_bucket.catalogue_of(self.bucket, self.run)
            if known and known.newest.step == self.last.step:
                self._newest = known.newest
                self._manifests[known.newest.key] = in_bucket.manifest_if_there(self.bucket, known.newest)
        return self._manifests[self._newest.key] if self._newest else NOTHING

    def _has(self, before: Manifest, name: str, state: FileState) -> bool:
        """Return True if the newest checkpoint has the file as it is now."""
        stored, sent = before.files.get(name), self._sent.get(name)
        return (
            stored is not None
            and (stored.size, stored.mtime) == (state.size, state.mtime)
            and (sent is None or sent.inode == state.inode)
        )

    def _find_reusable(self, seen: Listing, changed: frozenset[str]) -> dict[str, Stored]:
        """Return the files that this run's newest checkpoint already has, even under another name."""
        before, own = self._read_newest(), keys.checkpoints(self.run)
        renamed = {
            (state.inode, state.size, state.mtime): before.files[name]
            for name, state in self._sent.items()
            if self._has(before, name, state)
        }
        kept = {}
        for name, state in seen.files.items():
            stored = (
                renamed.get((state.inode, state.size, state.mtime)) if name in changed else before.files[name]
            )
            if stored and stored.key.startswith(own):
                kept[name] = stored
        return kept

    def _send(self, choice: Choice) -> tuple[Choice, Version, Manifest] | None:
        """Upload the files. Return None if the program has changed one of them meanwhile."""
        folder, staging = self.paths.checkpoints, self.paths.staging
        files = choice.listing.files
        key = catalogue.key_of(self.run, choice.step, self._newest)
        try:
            on_disk.stage(folder, staging, choice.linked, {name: files[name].size for name in choice.logs})
            copied = self._copy(choice.moving)
            if choice.needed - choice.reused.keys() - copied.keys() or not _are(files, choice.linked, folder):
                return None
            self._is_tidy = False
            staged = {name: files[name] for name in choice.linked | choice.logs} | copied
            sent = in_bucket.upload_files(self.bucket, staging, staged, key)
            if not _are(files, choice.linked, staging):
                return None
        except FileNotFoundError:
            return None  # the program has replaced a file meanwhile
        finally:
            remove_tree(staging)
        manifest = self._manifest(
            choice, {name: state for name, state in staged.items() if name in sent}, key
        )
        if not on_disk.hold_something(manifest.files):
            return None  # it has no whole copy of a file that a program resumes from
        at_step = choice.step if choice.kind == STEP else self.reported()
        version = in_bucket.new_version(
            key, choice.step, manifest, kind=choice.kind, at=datetime.now(UTC), at_step=at_step
        )
        return choice, version, manifest

    def _copy(self, names: frozenset[str]) -> dict[str, FileState]:
        """Copy files that change all the time into the staging folder: all of them at one moment if possible, else each
        by itself. Return the files with a whole copy."""
        folder, staging = self.paths.checkpoints, self.paths.staging
        whole: dict[str, FileState] = {}
        for _ in range(COPY_TRIES if names else 0):
            before = {name: state for name in names if (state := on_disk.state_at(folder / name))}
            for name, state in before.items():
                with suppress(FileNotFoundError):  # it has just become shorter, so it differs from `before`
                    on_disk.copy_start(folder / name, staging / name, state.size)
            written = on_disk.open_to_write(folder) - self._look.held
            same = {
                name: state
                for name, state in before.items()
                if name not in written and on_disk.state_at(folder / name) == state
            }
            if same.keys() == before.keys():
                return same
            whole = same
            time.sleep(COPY_PAUSE_SECONDS)
        return whole

    def _manifest(self, choice: Choice, staged: Mapping[str, FileState], key: str) -> Manifest:
        before, own = self._read_newest(), keys.checkpoints(self.run)
        files = {}
        for name, state in choice.listing.files.items():
            older = before.files.get(name)
            if name in choice.reused:
                files[name] = Stored(state.size, state.mtime, state.mode, choice.reused[name].key)
            elif name in staged:
                files[name] = Stored(staged[name].size, staged[name].mtime, staged[name].mode, key + name)
            elif older and older.key.startswith(own):
                files[name] = older
        return Manifest(files, choice.listing.links, choice.listing.folders)

    def _note_missing_files(self, name: str) -> None:
        if not self._noted:
            self.note(
                f"the checkpoint {name} is not uploaded: its files are not on the chief's disk, so a restart would "
                "begin from step 0. TensorFlow 1's sharded saver writes to the parameter servers' disks; make a saver "
                "on the worker's device (docs/programs.md)"
            )
            self._noted = True

    def _step(self, seen: Listing) -> int:
        """Return the checkpoint's number: the step that TensorFlow or the program names, but always more than the last
        one, because each key in the bucket is used only once."""
        named = on_disk.step_of(self.paths.checkpoints, seen)
        step = self.reported() if named is None else named
        return max(step or 0, self.last.step + 1, 1)

    def _conclude(self, choice: Choice, version: Version, manifest: Manifest) -> None:
        catalogue = in_bucket.make_newest(self.bucket, self.run, version, manifest, keep=self.keep)
        self._newest, self._manifests[version.key] = version, manifest
        self._sent = {name: state for name, state in choice.listing.files.items() if name in manifest.files}
        self._taken_at = time.monotonic()
        if not choice.revision:
            self.last = LastCheckpoint(version.step, self._print(choice))
            self.uploaded(self.last, version)
        self._prune(catalogue)

    def _print(self, choice: Choice) -> str:
        files = choice.listing.files
        still = {name: state for name, state in files.items() if name not in self._look.logs}
        return "" if choice.kind == STEP else on_disk.fingerprint(still or files)

    def _prune(self, catalogue: Catalogue) -> None:
        """Delete objects that no checkpoint needs. The first call, and a call after a failed upload, list the
        bucket."""
        in_bucket.prune(self.bucket, self.run, catalogue, self._manifests, thorough=not self._is_tidy)
        named = {version.key for version in catalogue.all}
        self._manifests = {key: manifest for key, manifest in self._manifests.items() if key in named}
        self._is_tidy = True


def _log_seconds(seen: Listing, changed: frozenset[str]) -> float:
    """Return the seconds until grown logs are sent again."""
    size = sum(seen.files[name].size for name in changed)
    return max(LOG_SECONDS, size / LOG_BYTES_PER_SECOND)


def _are(files: Mapping[str, FileState], names: Iterable[str], folder: Path) -> bool:
    """Return True if the files below `folder` have not changed since the look."""
    found = {name: on_disk.state_at(folder / name) for name in names}
    return all(state and state[:2] == files[name][:2] for name, state in found.items())
