"""Restore the checkpoint with which an attempt begins, as cluster.json names it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from training.host.account import remove_tree
from training.host.bucket import Bucket
from training.host.checkpoints import catalogue, fetching, in_bucket, on_disk
from training.host.checkpoints.catalogue import FOLDER, STEP, Version, name_of
from training.host.checkpoints.choice import LastCheckpoint
from training.host.checkpoints.placing import move_into, remove
from training.host.errors import Damaged, GivenUp, HostTrouble, Missing, Replaced
from training.host.paths import Paths
from trainyard.command_line import command_line
from trainyard.protocol.cluster import Checkpoint

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Restored:
    """The checkpoint on the disk."""

    checkpoint: LastCheckpoint
    called: str = ""
    """Its name in sentences."""
    instead: str | None = None
    """Why it is not the checkpoint in cluster.json."""


def fetch_ahead(bucket: Bucket, run: str, paths: Paths) -> None:
    """Fetch the newest checkpoint before an attempt needs it. The attempt itself handles a damaged one."""
    known = in_bucket.catalogue_of(bucket, run)
    if known is None or (paths.checkpoints / name_of(known.newest.step)).is_dir():
        return
    try:
        fetched = fetching.fetch(bucket, known.newest, paths.restores)
    except Damaged as damaged:
        logger.warning("%s", damaged.reason)
        return
    for older in paths.restores.iterdir():
        if older != fetched.folder:
            remove_tree(older)


def restore(
    bucket: Bucket, run: str, checkpoint: Checkpoint | None, paths: Paths, *, alone: bool
) -> Restored:
    """Leave only that checkpoint in the program's folder, or nothing for a fresh start."""
    if checkpoint is None:
        _empty(paths.checkpoints)
        remove_tree(paths.restores)
        return Restored(LastCheckpoint())
    brought = restore_with(bucket, run, checkpoint, lambda version: _put(bucket, version, paths), alone=alone)
    return Restored(brought.result, brought.version.called, brought.instead)


@dataclass(frozen=True, slots=True)
class Brought(Generic[Result]):
    """The checkpoint that a host has now, with the result of `put`."""

    result: Result
    version: Version
    instead: str | None = None
    """Why it is not the checkpoint in cluster.json."""


def restore_with(
    bucket: Bucket, run: str, checkpoint: Checkpoint, put: Callable[[Version], Result], *, alone: bool
) -> Brought[Result]:
    """Restore the checkpoint with `put`, which raises Damaged if it cannot.

    If the checkpoint is damaged, the one before it becomes the run's newest. If a newer one has replaced it, that one
    counts. A host that restores `alone` continues with that other checkpoint. The hosts of a cluster must restore the
    same checkpoint, so they fail this attempt and restore the other one in the next. A later host finds that another
    host has given the checkpoint up, and does the same."""
    try:
        version = find_version(bucket, run, checkpoint)
        return Brought(put(version), version)
    except (Damaged, Replaced) as wrong:
        other, instead = _other(bucket, run, checkpoint, wrong)
        if not alone:
            raise GivenUp(f"{instead}, in the next attempt, by all hosts") from wrong
        logger.warning("%s", instead)
    again = restore_with(bucket, run, Checkpoint(other.step, other.key), put, alone=True)
    return replace(again, instead=again.instead or instead)


def _other(
    bucket: Bucket, run: str, checkpoint: Checkpoint, wrong: Damaged | Replaced
) -> tuple[Version, str]:
    """Return the checkpoint to restore instead, and why. Raises HostTrouble, which is final, if there is none."""
    owner = catalogue.run_of(checkpoint.key)
    newer = in_bucket.replacement(bucket, owner, checkpoint.key)
    if newer and owner != run:
        raise HostTrouble(
            f"the checkpoint {bucket.uri(checkpoint.key)} of {owner} was replaced by {newer.called} while this run "
            f"read it; this run has not trained; resume {owner} again after it has ended: "
            f"{command_line('resume', owner)}",
            final=True,
        ) from wrong
    if newer:
        called = bucket.uri(checkpoint.key)
        return newer, f"the checkpoint {called} was replaced; {newer.called} is restored instead"
    before = in_bucket.give_up(bucket, run, checkpoint.key)
    if before is None:
        raise HostTrouble(
            f"{wrong.reason}; no earlier checkpoint is kept, so this run cannot continue: submit the job again",
            final=True,
        ) from wrong
    return before, f"{wrong.reason}; the one before it, {before.called}, is restored instead"


def find_version(bucket: Bucket, run: str, checkpoint: Checkpoint) -> Version:
    """Return the entry of latest.json for the checkpoint of cluster.json. Raises Damaged if another host has given it
    up, Replaced if a newer one has replaced it, and Missing if the run has no checkpoint."""
    known = in_bucket.catalogue_of(bucket, run)
    uri = bucket.uri(checkpoint.key)
    if known is None:
        raise Missing(f"no latest.json names the checkpoint {uri}; start the job again from the beginning")
    version = known.find(checkpoint.key)
    if version is None and known.newest.step == checkpoint.step:
        return known.newest  # the same checkpoint with longer logs, which its host has written meanwhile
    if version is None and known.newest.step < checkpoint.step:
        raise Damaged(f"the checkpoint {uri} is damaged: another host has found that and given it up")
    if version is None:
        raise Replaced(f"the checkpoint {uri} was replaced by {known.newest.called}")
    return version


def _put(bucket: Bucket, version: Version, paths: Paths) -> LastCheckpoint:
    """Leave only that checkpoint in the program's folder. A whole checkpoint that the runtime has saved on this host is
    not fetched again."""
    folder = paths.checkpoints
    have = folder / name_of(version.step) if version.kind == STEP else None
    fetched = fetching.fetch(bucket, version, paths.restores, have=have)
    _empty(folder)
    move_into(fetched, folder)
    fingerprint = on_disk.fingerprint(on_disk.listing_of(folder).files) if version.kind == FOLDER else ""
    remove_tree(paths.restores)
    return LastCheckpoint(version.step, fingerprint)


def _empty(folder: Path) -> None:
    """Remove the folder's content. The folder itself stays, because a running program might have it open."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        remove(path)
