"""The chief's checkpoints on their way from disk to bucket while the program runs."""

import shutil
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime

from training.host.account import Account
from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket, on_disk
from training.host.checkpoints.in_bucket import FOLDER, STEP, Manifest, name_of
from training.host.places import Places

RESTLESS_LOOKS = 4
LOG_LOOKS = 10
STILL_SECONDS = 0.25
COPIED_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The last checkpoint that is whole in the bucket, or was restored from it. Where the program keeps its folder in
    its own way, `folder` is the folder's print."""

    step: int = -1
    folder: str = ""

    @property
    def tells_step(self) -> bool:
        """Whether `step` is how far the program was: what others call their checkpoints is mostly a count of these."""
        return self.step >= 0 and not self.folder


@dataclass(slots=True)
class CheckpointUpload:
    """`reported` answers the step the program reported last, `uploaded` is called for every checkpoint that is whole.

    `note` writes a line into the program's log. `runs` says whether the program runs. `ends_well` turns false when the
    program was killed: what it was just writing is then no checkpoint.
    """

    bucket: Bucket
    run: str
    places: Places
    account: Account
    _: KW_ONLY
    keep: int
    last: LastCheckpoint
    reported: Callable[[], int | None]
    uploaded: Callable[[LastCheckpoint, Manifest], None]
    note: Callable[[str], None]
    runs: Callable[[], bool] = lambda: True
    ends_well: bool = True
    _noted: bool = False
    _seen: on_disk.Listing = field(default_factory=dict)
    _written: on_disk.Listing = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)
    _restless: int = 0

    def update(self, at_the_end: bool) -> None:
        """Bring the newest checkpoint away if it is not in the bucket yet."""
        with self.account.acting():
            brought = self._bring(at_the_end)
        if brought:
            self._conclude(*brought)
            with self.account.acting():
                on_disk.keep_newest(self.places.checkpoints, self.keep)

    def _bring(self, at_the_end: bool) -> tuple[Manifest, str] | None:
        """What was brought into the bucket, with the folder's print where the program keeps it in its own way."""
        steps = on_disk.steps_in(self.places.checkpoints)
        if not steps:
            return self._bring_folder(at_the_end)
        if steps[-1] <= self.last.step:
            return None
        source = self.places.checkpoints / name_of(steps[-1])
        at = datetime.now(UTC)
        return in_bucket.upload_files(self.bucket, self.run, source, steps[-1], kind=STEP, at=at), ""

    def _bring_folder(self, at_the_end: bool) -> tuple[Manifest, str] | None:
        """The whole folder, once it has changed and been still: for two looks in which no file of it was being written,
        or where it never is, for a moment. Of a program that was killed, as it was in its lifetime."""
        folder, staging = self.places.checkpoints, self.places.staging
        seen, before = on_disk.listing_of(folder), self._seen
        self._seen = seen
        if not on_disk.holds_something(seen) or on_disk.fingerprint(seen) == self.last.folder:
            return None
        if at_the_end:
            is_whole = is_still = self.ends_well or seen == self._written
        else:
            is_whole = self._is_written(seen)
            is_still = is_whole and seen == before
        self._restless = 0 if is_still else self._restless + 1
        if not is_whole or not (is_still or self._has_a_quiet_moment(seen)):
            return None
        try:
            on_disk.stage(seen, folder, staging, as_copies=not is_still)
        except FileNotFoundError:
            return None  # the program replaced a file meanwhile: not still after all
        try:
            return self._bring_staged(seen)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _bring_staged(self, seen: on_disk.Listing) -> tuple[Manifest, str] | None:
        """Unless the program has written to a file meanwhile."""
        folder, staging = self.places.checkpoints, self.places.staging
        lacks = on_disk.missing(staging)
        if lacks:
            self._note_missing_files(lacks)
            return None
        if on_disk.listing_of(folder) != seen:
            return None
        manifest = in_bucket.upload_files(
            self.bucket, self.run, staging, self._step(), kind=FOLDER, at=datetime.now(UTC)
        )
        return (manifest, on_disk.fingerprint(seen)) if on_disk.listing_of(staging) == seen else None

    def _is_written(self, seen: on_disk.Listing) -> bool:
        """Whether no file of it is on its way: a program that waits for a processor in the middle of a file leaves it
        unchanged, too. One that is open for many looks is a log, which no restart goes on from."""
        now, being_written = time.time(), on_disk.open_to_write(self.places.checkpoints) & seen.keys()
        self._open = {name: self._open.get(name, 0) + 1 for name in being_written}
        if not self.runs() or any(looks <= LOG_LOOKS for looks in self._open.values()):
            return False
        if on_disk.newest_in(seen) <= now - STILL_SECONDS:
            self._written = seen
        return True

    def _has_a_quiet_moment(self, seen: on_disk.Listing) -> bool:
        """Whether a folder that is saved into at every look stays as it was `seen` for long enough to copy it."""
        if self._restless < RESTLESS_LOOKS or on_disk.size_of(seen) > COPIED_BYTES:
            return False
        time.sleep(STILL_SECONDS)
        return on_disk.listing_of(self.places.checkpoints) == seen

    def _note_missing_files(self, name: str) -> None:
        if not self._noted:
            self.note(
                f"the checkpoint {name} is not taken: its files are not on the chief's disk, so a restart would begin "
                "anew. TensorFlow 1's sharded saver writes on the parameter servers' disks; make a saver on the "
                "worker's device (docs/programs.md)"
            )
            self._noted = True

    def _step(self) -> int:
        """What the program calls this step, but always more than before: a key in the bucket is used once."""
        named = on_disk.step_of(self.places.staging)
        step = self.reported() if named is None else named
        return max(step or 0, self.last.step + 1, 1)

    def _conclude(self, manifest: Manifest, fingerprint: str) -> None:
        catalogue = in_bucket.make_newest(self.bucket, self.run, manifest, keep=self.keep)
        self.last = LastCheckpoint(manifest.step, fingerprint)
        self.uploaded(self.last, manifest)
        in_bucket.prune(self.bucket, self.run, catalogue)
