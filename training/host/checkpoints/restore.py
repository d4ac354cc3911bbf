"""What an attempt begins with: the checkpoint that cluster.json names, whole, on this host's disk."""

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
from training.host.checkpoints.placing import place, remove
from training.host.errors import Damaged, GivenUp, HostTrouble, Missing, Replaced
from training.host.paths import Paths
from trainyard.command_line import command_line
from trainyard.protocol.cluster import Checkpoint

logger = logging.getLogger(__name__)
What = TypeVar("What")


@dataclass(frozen=True, slots=True)
class Restored:
    """What lies on disk now, `called` so in words. `instead` says why it is not the checkpoint that cluster.json
    names."""

    checkpoint: LastCheckpoint
    called: str = ""
    instead: str | None = None


def fetch_ahead(bucket: Bucket, run: str, paths: Paths) -> None:
    """Have the newest checkpoint here before it is asked for. A damaged one is left to the attempt that restores it."""
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
    """Leave only that checkpoint in the program's folder; nothing for a fresh start."""
    if checkpoint is None:
        _empty(paths.checkpoints)
        remove_tree(paths.restores)
        return Restored(LastCheckpoint())
    brought = bring(bucket, run, checkpoint, lambda version: _put(bucket, version, paths), alone=alone)
    return Restored(brought.what, brought.version.called, brought.instead)


@dataclass(frozen=True, slots=True)
class Brought(Generic[What]):
    """The checkpoint that a host has now. `instead` says why it is not the one that cluster.json names."""

    what: What
    version: Version
    instead: str | None = None


def bring(
    bucket: Bucket, run: str, checkpoint: Checkpoint, put: Callable[[Version], What], *, alone: bool
) -> Brought[What]:
    """Have `put` bring the checkpoint here. `put` raises Damaged if it cannot.

    If the checkpoint is damaged, the one before it becomes the run's checkpoint. If a newer one has replaced it, that
    one counts. A host that restores `alone` continues with the other one. The hosts of a cluster must restore the same
    checkpoint, so they fail this attempt and restore the other one in the next. A host that comes later finds that
    another has given the checkpoint up, and does the same."""
    try:
        version = named(bucket, run, checkpoint)
        return Brought(put(version), version)
    except (Damaged, Replaced) as wrong:
        other, instead = _other(bucket, run, checkpoint, wrong)
        if not alone:
            raise GivenUp(f"{instead}, in the next attempt, by all hosts") from wrong
        logger.warning("%s", instead)
    again = bring(bucket, run, Checkpoint(other.step, other.key), put, alone=True)
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
            f"read it; this run has trained nothing; resume {owner} again once it has ended: "
            f"{command_line('resume', owner)}",
            final=True,
        ) from wrong
    if newer:
        called = bucket.uri(checkpoint.key)
        return newer, f"the checkpoint {called} was replaced; {newer.called} is restored instead"
    before = in_bucket.give_up(bucket, run, checkpoint.key)
    if before is None:
        raise HostTrouble(
            f"{wrong.reason}; no earlier checkpoint is kept, so this run cannot go on: start the job anew",
            final=True,
        ) from wrong
    return before, f"{wrong.reason}; the one before it, {before.called}, is restored instead"


def named(bucket: Bucket, run: str, checkpoint: Checkpoint) -> Version:
    """Return the checkpoint of cluster.json as latest.json names it. Raises Damaged if another host has given it up,
    Replaced if a newer one has taken its place, and Missing if the run has no checkpoint."""
    known = in_bucket.catalogue_of(bucket, run)
    uri = bucket.uri(checkpoint.key)
    if known is None:
        raise Missing(f"no latest.json names the checkpoint {uri}; start the job again from the beginning")
    version = known.named(checkpoint.key)
    if version is None and known.newest.step == checkpoint.step:
        return known.newest  # the same checkpoint with longer logs: its host has replaced it meanwhile
    if version is None and known.newest.step < checkpoint.step:
        raise Damaged(f"the checkpoint {uri} is damaged: another host has found that and given it up")
    if version is None:
        raise Replaced(f"the checkpoint {uri} was replaced by {known.newest.called}")
    return version


def _put(bucket: Bucket, version: Version, paths: Paths) -> LastCheckpoint:
    """Leave just that checkpoint in the program's folder. What the runtime has saved on this host is not fetched again
    if it is whole."""
    folder = paths.checkpoints
    have = folder / name_of(version.step) if version.kind == STEP else None
    fetched = fetching.fetch(bucket, version, paths.restores, have=have)
    _empty(folder)
    place(fetched, folder)
    fingerprint = on_disk.fingerprint(on_disk.listing_of(folder).files) if version.kind == FOLDER else ""
    remove_tree(paths.restores)
    return LastCheckpoint(version.step, fingerprint)


def _empty(folder: Path) -> None:
    """The folder stays: a program that still runs might have it open."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        remove(path)
