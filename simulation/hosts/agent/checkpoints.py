"""Checkpoints on their way to the bucket and back (training/host/checkpoints): the files are small, the order of the
calls, and what counts as whole, is the real one."""

import hashlib
import json
from datetime import datetime

from simulation.hosts.machine import Disk
from training.host.bucket import Bucket
from training.host.checkpoints import in_bucket
from training.host.checkpoints.in_bucket import FACTS, STEP, Manifest
from training.host.cluster import Checkpoint
from training.host.errors import Damaged, HostTrouble, Missing
from training.host.reporting.signals import stamp

VARIABLES = "variables.data-00000-of-00001"


def files_of(run: str, step: int) -> dict[str, bytes]:
    """What the program saves at this step."""
    variables = f"{run} {step} ".encode() * 8
    facts = {"step": step, "files": {VARIABLES: hashlib.sha256(variables).hexdigest()}}
    return {FACTS: json.dumps(facts).encode(), VARIABLES: variables}


def upload(bucket: Bucket, run: str, step: int, at: datetime) -> Manifest:
    """Bring the files there. It is no checkpoint before `in_bucket.make_newest`."""
    key = f"{in_bucket.prefix_of(run)}{in_bucket.name_of(step)}/"
    files = files_of(run, step)
    for name, content in files.items():
        bucket.write(key + name, content)
    return Manifest(step, key, STEP, {name: len(content) for name, content in files.items()}, stamp(at))


def fetch_ahead(bucket: Bucket, run: str, disk: Disk) -> None:
    """Have the newest checkpoint here before it is asked for."""
    known = in_bucket.catalogue_of(bucket, run)
    if known is None or known.newest.step in disk.checkpoints:
        return
    try:
        fetch(bucket, known.newest, disk)
    except Damaged:
        return
    disk.restores = {known.newest.step}


def restore(
    bucket: Bucket, run: str, checkpoint: Checkpoint | None, disk: Disk, *, alone: bool
) -> tuple[int, str | None]:
    """The step that lies on disk now (-1: none), and why it is not the one that was named."""
    if checkpoint is None:
        disk.checkpoints, disk.restores = set(), set()
        return -1, None
    known = in_bucket.catalogue_of(bucket, run)
    manifest = known.named(checkpoint.key) if known else None
    if manifest is None:
        raise Missing(
            f"the checkpoint {bucket.uri(checkpoint.key)} is not one that latest.json names any more; "
            "start the job anew"
        )
    try:
        if manifest.step not in disk.checkpoints:
            fetch(bucket, manifest, disk)
    except Damaged as damaged:
        before = in_bucket.give_up(bucket, run, checkpoint.key)
        if before is None:
            raise HostTrouble(
                f"{damaged.reason}; no earlier checkpoint is kept, so this run cannot go on: start the job anew",
                final=True,
            ) from damaged
        instead = f"{damaged.reason}; the one before it, of step {before.step}, is restored instead"
        if not alone:
            raise HostTrouble(f"{instead}, in the next attempt, by all hosts") from damaged
        step, again = restore(bucket, run, Checkpoint(before.step, before.key), disk, alone=True)
        return step, again or instead
    disk.checkpoints, disk.restores = {manifest.step}, set()
    return manifest.step, None


def fetch(bucket: Bucket, manifest: Manifest, disk: Disk) -> None:
    """A whole copy. What comes damaged is fetched once more, then Damaged."""
    if manifest.step in disk.restores:
        return
    for _ in range(2):
        found = {item.key for item in bucket.list(manifest.key)}
        missing = [name for name in manifest.files if manifest.key + name not in found]
        wrong = f"{missing[0]} is missing" if missing else _damage(bucket, manifest)
        if wrong is None:
            disk.restores.add(manifest.step)
            return
        if missing:
            break
    raise Damaged(f"the checkpoint of step {manifest.step}, {bucket.uri(manifest.key)}, is damaged: {wrong}")


def _damage(bucket: Bucket, manifest: Manifest) -> str | None:
    contents = {name: bucket.read(manifest.key + name) for name in manifest.files}
    for name, size in manifest.files.items():
        if len(contents[name]) != size:
            return f"{name} has {len(contents[name])} bytes instead of {size}"
    facts = json.loads(contents[FACTS]) if FACTS in contents else {}
    for name, expected in facts.get("files", {}).items():
        found = hashlib.sha256(contents.get(name, b"")).hexdigest()
        if found != expected:
            return f"{name} has the SHA-256 {found[:16]}... instead of {expected[:16]}..."
    return None
