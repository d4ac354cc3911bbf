"""What an attempt begins with: the checkpoint that cluster.json names, whole, on this host's disk."""

import logging
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket, on_disk
from training.host.checkpoints.in_bucket import FOLDER, STEP, Version, name_of
from training.host.checkpoints.placing import place, remove
from training.host.checkpoints.upload import LastCheckpoint
from training.host.cluster import Checkpoint
from training.host.errors import Damaged, GivenUp, HostTrouble, Missing
from training.host.places import Places

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """What lies on disk now, `called` so in words. `instead` says why it is not the checkpoint that cluster.json
    names."""

    checkpoint: LastCheckpoint
    called: str = ""
    instead: str | None = None


def fetch_ahead(bucket: Bucket, run: str, places: Places) -> None:
    """Have the newest checkpoint here before it is asked for. A damaged one is left to the attempt that restores it."""
    known = in_bucket.catalogue_of(bucket, run)
    if known is None or (places.checkpoints / name_of(known.newest.step)).is_dir():
        return
    try:
        fetched = in_bucket.fetch(bucket, known.newest, places.restores)
    except Damaged as damaged:
        logger.warning("%s", damaged.reason)
        return
    for older in places.restores.iterdir():
        if older != fetched.folder:
            shutil.rmtree(older, ignore_errors=True)


def restore(
    bucket: Bucket, run: str, checkpoint: Checkpoint | None, places: Places, *, alone: bool
) -> Restored:
    """Leave just that checkpoint in the program's folder; nothing for a fresh start.

    Where it is damaged, the one before it becomes the run's checkpoint. A host that restores `alone` goes on with it;
    the hosts of a cluster must restore the same, so they fail this attempt and restore it in the next. One that comes
    later finds that another has given the checkpoint up, which is no different.
    """
    if checkpoint is None:
        _empty(places.checkpoints)
        shutil.rmtree(places.restores, ignore_errors=True)
        return Restored(LastCheckpoint())
    try:
        version = named(bucket, run, checkpoint)
        return Restored(_put(bucket, version, places), version.called)
    except Damaged as damaged:
        before = in_bucket.give_up(bucket, run, checkpoint.key)
        if before is None:
            raise HostTrouble(
                f"{damaged.reason}; no earlier checkpoint is kept, so this run cannot go on: start the job anew",
                final=True,
            ) from damaged
        instead = f"{damaged.reason}; the one before it, {before.called}, is restored instead"
        if not alone:
            raise GivenUp(f"{instead}, in the next attempt, by all hosts") from damaged
        logger.warning("%s", instead)
    again = restore(bucket, run, Checkpoint(before.step, before.key), places, alone=True)
    return replace(again, instead=again.instead or instead)


def named(bucket: Bucket, run: str, checkpoint: Checkpoint) -> Version:
    """Return the checkpoint of cluster.json as latest.json names it. Raises Damaged if another host has given it up,
    and Missing if it was never there."""
    known = in_bucket.catalogue_of(bucket, run)
    version = known.named(checkpoint.key) if known else None
    if version is None and known and known.newest.step == checkpoint.step:
        return known.newest  # the same checkpoint with longer logs: its host has replaced it meanwhile
    if version is None and known and known.newest.step < checkpoint.step:
        raise Damaged(
            f"the checkpoint {bucket.uri(checkpoint.key)} is damaged: another host has found that and given it up"
        )
    if version is None:
        raise Missing(
            f"the checkpoint {bucket.uri(checkpoint.key)} is not one that latest.json names any more; "
            "start the job anew"
        )
    return version


def _put(bucket: Bucket, version: Version, places: Places) -> LastCheckpoint:
    """Leave just that checkpoint in the program's folder. What the runtime has saved on this host is not fetched again
    if it is whole."""
    folder = places.checkpoints
    have = folder / name_of(version.step) if version.kind == STEP else None
    fetched = in_bucket.fetch(bucket, version, places.restores, have=have)
    _empty(folder)
    place(fetched, folder)
    fingerprint = on_disk.fingerprint(on_disk.listing_of(folder).files) if version.kind == FOLDER else ""
    shutil.rmtree(places.restores)
    return LastCheckpoint(version.step, fingerprint)


def _empty(folder: Path) -> None:
    """The folder stays: a program that still runs might have it open."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        remove(path)
