"""What goes into the bucket with a job: what lies beside the job file, and last the job, which starts the run."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass

from trainyard.client.bucket import Bucket, silent
from trainyard.client.fetching import Tell
from trainyard.client.jobs import sending
from trainyard.client.jobs.package import Package, too_large
from trainyard.client.jobs.source import LocalJob, refused
from trainyard.core.jobfile import check, document
from trainyard.core.jobfile.references import MOST_SOURCE_BYTES
from trainyard.core.model import tokens
from trainyard.values.validation import Fault

IN_MEMORY = 32 * 2**20


@dataclass(frozen=True)
class Upload:
    """The key and the version that name the run, the run, and the keys of what was sent along: none of what the bucket
    had already."""

    key: str
    version: str
    run: str
    sent: tuple[str, ...] = ()


def send(bucket: Bucket, local: LocalJob, tell: Tell = silent) -> tuple[str, ...]:
    """Put what lies beside the job file where it is not yet, which starts nothing; answers the keys that were sent.
    Raises FileChanged; JobRefused for a program that turns out too large while it is packed."""
    sent = [key for package in local.packages for key in _send(bucket, package, local, tell)]
    for key, diff in local.diffs.items():
        if not bucket.keys(key):
            bucket.put(key, diff)
            sent.append(key)
    return tuple(sent)


def submit(
    bucket: Bucket, local: LocalJob, folder: str, sent: tuple[str, ...] = (), *, plan: bool = False
) -> Upload:
    """Put the job, of which all else is there, into the folder: this starts its run. Under the name of one that is
    planned and not run where only its `plan` is wanted."""
    text = json.dumps(local.document, indent=1).encode()
    return begin(bucket, f"{folder}{local.job.name}{'.plan' if plan else ''}.json", text, sent)


def begin(bucket: Bucket, key: str, text: bytes, sent: tuple[str, ...] = ()) -> Upload:
    """Put a job or a recipe, which starts its run."""
    version = bucket.put(key, text)
    name = check.name_of(text[: document.MOST_BYTES], key=key)  # as the function submit reads it
    return Upload(key, version, tokens.run_id(name, key=key, version=version), sent)


def _send(bucket: Bucket, package: Package, local: LocalJob, tell: Tell) -> list[str]:
    """Return the keys that were sent. What is named by its content is there whole, or not at all."""
    if package.is_folder:
        return sending.send_folder(bucket, package, tell)
    if bucket.keys(package.key):
        return []
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as archive:
        package.pack(archive)
        size = archive.tell()
        if size > MOST_SOURCE_BYTES:
            raise refused(local.file, (Fault("program.source", too_large(package.tree, size)),))
        bucket.send(package.key, archive, size, tell)
    return [package.key]
