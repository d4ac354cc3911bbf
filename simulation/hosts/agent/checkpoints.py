"""Checkpoints between disk and bucket (training/host/checkpoints).

The files are small, but the order of calls and the check for completeness are real.
"""

import hashlib
import json
from datetime import datetime

from simulation.hosts.disk import Disk
from simulation.hosts.flow import Steps
from simulation.hosts.machine import Machine
from training.host.bucket import Bucket
from training.host.checkpoints import catalogue, in_bucket
from training.host.checkpoints.catalogue import STEP, Manifest, Stored, Version
from training.host.checkpoints.fetching import METADATA
from training.host.checkpoints.restore import restore_with
from training.host.errors import Damaged, HostTrouble
from trainyard.protocol.cluster import Checkpoint

EVALUATOR_SECONDS = 5.0
VARIABLES = "variables.data-00000-of-00001"


def files_of(run: str, step: int) -> dict[str, bytes]:
    """Return the files that the program saves at this step."""
    variables = f"{run} {step} ".encode() * 8
    metadata = {"step": step, "files": {VARIABLES: hashlib.sha256(variables).hexdigest()}}
    folder = catalogue.name_of(step)
    return {f"{folder}/{METADATA}": json.dumps(metadata).encode(), f"{folder}/{VARIABLES}": variables}


def upload(bucket: Bucket, run: str, step: int, at: datetime) -> tuple[Version, Manifest]:
    """Upload the files. They become a checkpoint only with `in_bucket.make_newest`."""
    key, time = catalogue.key_of(run, step), int(at.timestamp() * 1e9)
    stored = {}
    for name, content in files_of(run, step).items():
        bucket.write(key + name, content)
        stored[name] = Stored(len(content), time, 0o644, key + name)
    manifest = Manifest(stored, {}, {catalogue.name_of(step): (time, 0o755)})
    return in_bucket.new_version(key, step, manifest, kind=STEP, at=at, at_step=step), manifest


def fetch_ahead(bucket: Bucket, run: str, disk: Disk) -> None:
    """Fetch the newest checkpoint before it is needed."""
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
    """Restore a checkpoint. Return its step (-1: none), and why it is not the requested one."""
    if checkpoint is None:
        disk.checkpoints, disk.restores = set(), set()
        return -1, None

    def put(version: Version) -> None:
        if version.step not in disk.checkpoints:
            fetch(bucket, version, disk)
        disk.checkpoints, disk.restores = {version.step}, set()

    brought = restore_with(bucket, run, checkpoint, put, alone=alone)
    return brought.version.step, brought.instead


def fetch(bucket: Bucket, version: Version, disk: Disk) -> None:
    """Fetch a complete copy. Fetch damaged files a second time, then raise Damaged."""
    if version.step in disk.restores:
        return
    wrong: str | None = "its manifest is missing"
    manifest = in_bucket.manifest_if_there(bucket, version)
    for _ in range(2 if manifest.files else 0):
        wrong = _damage(bucket, manifest)
        if wrong is None:
            disk.restores.add(version.step)
            return
    raise Damaged(f"{version.called}, {bucket.uri(version.key)}, is damaged: {wrong}")


def _damage(bucket: Bucket, manifest: Manifest) -> str | None:
    contents = {name: bucket.read_if_there(stored.key) for name, stored in manifest.files.items()}
    for name, stored in manifest.files.items():
        content = contents[name]
        if content is None:
            return f"{name} is missing"
        if len(content) != stored.size:
            return f"{name} has {len(content)} bytes instead of {stored.size}"
    for metadata in (name for name in contents if name.endswith(f"/{METADATA}")):
        for name, expected in json.loads(contents[metadata] or b"{}").get("files", {}).items():
            path = f"{metadata.removesuffix(METADATA)}{name}"
            found = hashlib.sha256(contents.get(path) or b"").hexdigest()
            if found != expected:
                return f"{path} has the SHA-256 {found[:16]}... instead of {expected[:16]}..."
    return None


def follow(machine: Machine, bucket: Bucket, run: str, have: int) -> Steps:
    """Fetch every new checkpoint into an evaluator's folder."""
    while True:
        yield EVALUATOR_SECONDS if machine.site.is_exact else 60.0
        try:
            known = in_bucket.catalogue_of(bucket, run)
            if known and known.newest.step != have:
                fetch(bucket, known.newest, machine.disk)
                have = known.newest.step
        except HostTrouble as trouble:
            machine.note("cannot follow the checkpoints", reason=trouble.reason)
