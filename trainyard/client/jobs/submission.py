"""The upload of a job: first the local files, and last the job, which starts the run."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass

from trainyard.client.bucket import Bucket, ignore_progress
from trainyard.client.fetching import OnProgress
from trainyard.client.jobs import sending
from trainyard.client.jobs.package import Package, too_large
from trainyard.client.jobs.source import LocalJob, refuse
from trainyard.core.jobfile import check, document
from trainyard.core.jobfile.references import MOST_SOURCE_BYTES
from trainyard.core.model import tokens
from trainyard.values.validation import Fault

IN_MEMORY = 32 * 2**20


@dataclass(frozen=True)
class Upload:
    """The uploaded job: its key and version, its run, and the keys of the files that the bucket did not have yet."""

    key: str
    version: str
    run: str
    sent: tuple[str, ...] = ()


def send(bucket: Bucket, local: LocalJob, on_progress: OnProgress = ignore_progress) -> tuple[str, ...]:
    """Upload the local files that the bucket lacks, which starts nothing, and return their keys. Raise FileChanged, or
    JobRefused for a program that is too large when packed."""
    sent = [key for package in local.packages for key in _send(bucket, package, local, on_progress)]
    for key, diff in local.diffs.items():
        if not bucket.keys(key):
            bucket.put(key, diff)
            sent.append(key)
    return tuple(sent)


def submit(
    bucket: Bucket, local: LocalJob, folder: str, sent: tuple[str, ...] = (), *, plan: bool = False
) -> Upload:
    """Upload the job to the folder, which starts its run. With `plan`, the name makes the yard only plan the job."""
    text = json.dumps(local.document, indent=1).encode()
    return begin(bucket, f"{folder}{local.job.name}{'.plan' if plan else ''}.json", text, sent)


def begin(bucket: Bucket, key: str, text: bytes, sent: tuple[str, ...] = ()) -> Upload:
    """Upload a job or a recipe, which starts its run."""
    version = bucket.put(key, text)
    name = check.name_of(text[: document.MOST_BYTES], key=key)  # with the rules of the function submit
    return Upload(key, version, tokens.run_id(name, key=key, version=version), sent)


def _send(bucket: Bucket, package: Package, local: LocalJob, on_progress: OnProgress) -> list[str]:
    """Upload a package and return the new keys. A key that depends on its content is complete or missing."""
    if package.is_folder:
        return sending.send_folder(bucket, package, on_progress)
    if bucket.keys(package.key):
        return []
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as archive:
        package.pack(archive)
        size = archive.tell()
        if size > MOST_SOURCE_BYTES:
            raise refuse(local.file, (Fault("program.source", too_large(package.tree, size)),))
        bucket.send(package.key, archive, size, on_progress)
    return [package.key]
