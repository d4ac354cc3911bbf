"""What an attempt begins with: the checkpoint that cluster.json names, whole, on this host's disk."""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket, on_disk
from training.host.checkpoints.in_bucket import FOLDER, STEP, Manifest, name_of
from training.host.checkpoints.upload import LastCheckpoint
from training.host.cluster import Checkpoint
from training.host.errors import Damaged, GivenUp, HostTrouble, Missing
from training.host.places import Places

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """What lies on disk now. `instead` says why it is not the checkpoint that cluster.json names."""

    checkpoint: LastCheckpoint
    instead: str | None = None


def fetch_ahead(bucket: Bucket, run: str, places: Places) -> None:
    """Have the newest checkpoint here before it is asked for. A damaged one is left to the attempt that restores it."""
    known = in_bucket.catalogue_of(bucket, run)
    if known is None or (places.checkpoints / name_of(known.newest.step)).is_dir():
        return
    try:
        copy = in_bucket.fetch(bucket, known.newest, places.restores)
    except Damaged as damaged:
        logger.warning("%s", damaged.reason)
        return
    for older in places.restores.iterdir():
        if older != copy:
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
        return Restored(_put(bucket, _named(bucket, run, checkpoint), places))
    except Damaged as damaged:
        before = in_bucket.give_up(bucket, run, checkpoint.key)
        if before is None:
            raise HostTrouble(
                f"{damaged.reason}; no earlier checkpoint is kept, so this run cannot go on: start the job anew",
                final=True,
            ) from damaged
        instead = f"{damaged.reason}; the one before it, of step {before.step}, is restored instead"
        if not alone:
            raise GivenUp(f"{instead}, in the next attempt, by all hosts") from damaged
        logger.warning("%s", instead)
    again = restore(bucket, run, Checkpoint(before.step, before.key), places, alone=True)
    return Restored(again.checkpoint, again.instead or instead)


def _named(bucket: Bucket, run: str, checkpoint: Checkpoint) -> Manifest:
    known = in_bucket.catalogue_of(bucket, run)
    manifest = known.named(checkpoint.key) if known else None
    if manifest is None and known and known.newest.step < checkpoint.step:
        raise Damaged(
            f"the checkpoint of step {checkpoint.step}, {bucket.uri(checkpoint.key)}, is damaged: another host has "
            "found that and given it up"
        )
    if manifest is None:
        raise Missing(
            f"the checkpoint {bucket.uri(checkpoint.key)} is not one that latest.json names any more; "
            "start the job anew"
        )
    return manifest


def _put(bucket: Bucket, manifest: Manifest, places: Places) -> LastCheckpoint:
    target, copy = places.checkpoints / name_of(manifest.step), places.restores / name_of(manifest.step)
    if manifest.kind == STEP and target.is_dir() and in_bucket.damage(target, manifest.files) is None:
        shutil.rmtree(copy, ignore_errors=True)
        copy.parent.mkdir(parents=True, exist_ok=True)
        target.replace(copy)
    copy = in_bucket.fetch(bucket, manifest, places.restores)
    _empty(places.checkpoints)
    if manifest.kind == FOLDER:
        for path in copy.iterdir():
            path.replace(places.checkpoints / path.name)
        fingerprint = on_disk.fingerprint(on_disk.listing_of(places.checkpoints))
    else:
        copy.replace(target)
        fingerprint = ""
    shutil.rmtree(places.restores)
    return LastCheckpoint(manifest.step, fingerprint)


def _empty(folder: Path) -> None:
    """The folder stays: a program that still runs might have it open."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
